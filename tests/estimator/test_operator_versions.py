"""Every operator of the standard domain at every version: none is without a test.

Versions that differ in more than types have a case by hand; the others are the cases of
the table of formulas, whose shapes ONNX's own inference confirms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import onnx
import pytest
from onnx import checker, defs, shape_inference

from mansard.core.errors import ModelError
from mansard.estimator import score
from mansard.estimator.model import Given
from mansard.estimator.scoring import load
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.inference import infer_shapes
from mansard.estimator.tensors import Tensor
from tests.estimator.elementwise_cases import S3, X, axes
from tests.estimator.models import Input, single_model
from tests.estimator.node_cases import node_cases
from tests.estimator.test_formula_table import CASES
from tests.estimator.version_cases import VERSION_CASES, Made

# Their forms are tested with the control flow that uses them.
_CONTROL_FLOW = (
    *("If", "Loop", "Scan", "SequenceMap", "ConcatFromSequence", "SplitToSequence"),
    *("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"),
    *("SequenceLength", "Optional", "OptionalGetElement", "OptionalHasElement"),
)


def is_valid(proto: onnx.ModelProto, opset: int) -> bool:
    """Whether the onnx package takes the node for one of this version."""
    context = checker.C.CheckerContext()
    context.ir_version, context.opset_imports = 10, {"": opset}
    try:
        checker.check_node(proto.graph.node[0], context)
    except checker.ValidationError:
        return False
    return True


def shapes_by_onnx(proto: onnx.ModelProto) -> dict[str, list[int | None]] | None:
    """What the onnx package infers, dimensions it does not know as None."""
    del proto.graph.output[:]
    try:
        inferred = shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError:
        return None
    return {
        value.name: [
            size.dim_value if size.HasField("dim_value") else None
            for size in value.type.tensor_type.shape.dim
        ]
        for value in inferred.graph.value_info
        if value.type.tensor_type.HasField("shape")
    }


def made(proto: onnx.ModelProto, dims: Mapping[str, int] | None = None) -> list[Tensor]:
    loaded = load(proto.SerializeToString())
    network = infer_shapes(
        loaded.model, bind(loaded.model, Given(dims=dims or {})), loaded.prepared
    )
    return [network.tensors[name] for name in proto.graph.node[0].output]


@pytest.mark.parametrize(("op_type", "opset", "inputs", "settings", "expected"), VERSION_CASES)
def test_older_forms_have_these_types_and_shapes(
    op_type: str,
    opset: int,
    inputs: tuple[Input, ...],
    settings: dict[str, object],
    expected: tuple[Made, ...],
) -> None:
    names = [f"y{i}" for i in range(len(expected))]
    proto = single_model(op_type, inputs, opset, outputs=names, **settings)  # type: ignore[arg-type]
    assert is_valid(proto, opset) or defs.get_schema(op_type, opset).deprecated
    assert [(tensor.dtype.name, tensor.shape) for tensor in made(proto)] == list(expected)


def versions() -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            found[schema.name].append(schema.since_version)
    return {name: sorted(numbers) for name, numbers in sorted(found.items())}


# ONNX 1.23 takes every STFT for a two-sided one.
_MISTAKEN = ("STFT",)


def _table_versions(known: Mapping[str, Sequence[int]]) -> tuple[set[tuple[str, int]], list[str]]:
    """The versions in which cases of the table are valid, and where shapes differ there."""
    covered: set[tuple[str, int]] = set()
    wrong: list[str] = []
    for name, inputs, settings, _ in CASES:
        rest = {key: value for key, value in settings.items() if key not in ("opset", "dims")}
        for version in known.get(name, ()):
            proto = single_model(name, inputs, version, **rest)  # type: ignore[arg-type]
            if not is_valid(proto, version):
                continue
            inferred = shapes_by_onnx(proto)
            if inferred is None:
                continue
            try:
                tensors = made(proto, settings.get("dims"))  # type: ignore[arg-type]
            except ModelError as error:
                # Broadcasting that this version does not have: the checker does not look.
                if version >= 7:
                    wrong.append(f"{name}-{version}: {error}")
                continue
            covered.add((name, version))
            for tensor in tensors:
                theirs = inferred.get(tensor.name, [None] * tensor.rank)
                same = len(theirs) == tensor.rank and all(
                    size in (None, own) for size, own in zip(theirs, tensor.shape, strict=True)
                )
                if tensor.unknown or (not same and name not in _MISTAKEN):
                    wrong.append(f"{name}-{version}: {tensor.shape}, by ONNX {theirs}")
    return covered, wrong


def test_no_version_of_an_operator_is_without_a_test() -> None:
    known = versions()
    covered, wrong = _table_versions(known)
    covered |= {(op_type, opset) for op_type, opset, *_ in VERSION_CASES}
    for case in node_cases():
        proto = onnx.ModelProto.FromString(case.model)
        opset = max((item.version for item in proto.opset_import if not item.domain), default=0)
        for node in proto.graph.node:
            if node.op_type in known and not node.domain:
                since = max((n for n in known[node.op_type] if n <= opset), default=0)
                covered.add((node.op_type, since))
    missing = {
        (name, version)
        for name, numbers in known.items()
        for version in numbers
        if (name, version) not in covered and name not in _CONTROL_FLOW
    }
    assert not wrong
    assert missing == set()
    assert len(covered) > 500


REFUSED: list[tuple[str, int, tuple[Input, ...], dict[str, object], str]] = [
    ("Softmax", 13, (X,), {"axis": 3}, "axis 3 of a tensor with 3 dimensions"),
    ("Softmax", 11, (X,), {"axis": -4}, "axis -4 of a tensor with 3 dimensions"),
    ("Gather", 13, (X, axes(2)), {}, "index 2 is outside 2 elements"),
    ("Gather", 13, (X, axes(0, -3)), {}, "index -3 is outside 2 elements"),
    ("Concat", 13, (X, X), {}, "the axis is missing"),
    ("InstanceNormalization", 6, (X, "float[4]", S3), {}, "'x1' has 4 values for 3 channels"),
    ("InstanceNormalization", 6, (X, S3), {}, "input 2 is missing"),
    ("DequantizeLinear", 13, ("uint8[2,3]", S3, "uint8[2]"), {}, "zero point"),
    ("DequantizeLinear", 13, ("uint8[2,3]", "float[2]"), {}, "does not fit axis 1"),
    ("DequantizeLinear", 21, ("uint8[2,6]", "float[2,2]"), {"block_size": 2}, "blocks of 2"),
    ("Split", 17, (X,), {"axis": 1}, "cannot split 3 elements into 2 equal parts"),
    ("Split", 18, (X,), {"axis": 1}, "neither sizes nor num_outputs are given"),
    ("ReduceSum", 13, (X, axes(1, -2)), {}, r"axes \[1, -2\] of \[2, 3, 4\] repeat"),
    ("Unsqueeze", 13, (X, axes(0, 0)), {}, "repeat"),
    ("Add", 6, (X, "float[4]"), {}, "broadcasts only where it is asked to"),
    ("Add", 6, (X, "float[2]"), {"broadcast": 1, "axis": 1}, "does not lie on"),
    ("Sum", 6, (X, "float[4]"), {}, "must be of one shape before version 8"),
    ("PRelu", 9, ("float[4]", X), {}, "does not broadcast to"),
    ("Gemm", 6, ("float[2,3]", "float[3,5]", "float[5]"), {}, "does not fit a result"),
    ("GroupNormalization", 21, ("float[2,4,3]", "float[2]", "float[2]"), {"num_groups": 2}, "4 ch"),
    ("LayerNormalization", 17, (X, S3), {}, "do not go together|does not fit"),
    ("GatherND", 13, (X, "int64[3,1]"), {"batch_dims": 1}, "do not fit"),
    ("ScatterND", 16, (X, "int64[1,1]", "float[3,4]"), {}, "do not fit"),
    ("ScatterElements", 18, (X, "int64[1,3,4]", "float[2,3,4]"), {}, "do not fit"),
    ("ScatterElements", 18, (X, "int64[1,1,1]", "float[1,1,1]"), {"reduction": "sum"}, "exist"),
    ("Attention", 23, ("float[1,3,4,8]", "float[1,2,5,8]", "float[1,2,5,8]"), {}, "heads"),
    ("Reshape", 14, (X, axes(-1, 0)), {"allowzero": 1}, "leaves open what -1 stands for"),
    ("BitCast", 26, (X,), {"to": 7}, "different widths"),
    ("Cast", 1, (X,), {"to": "FLOAT32"}, "names no element type"),
    ("Det", 11, ("float[2,3]",), {}, "square"),
    ("DFT", 20, (X,), {}, "1 or 2"),
    ("STFT", 17, ("float[1,4,1]", axes(1), "float[8]"), {}, "frames of 8"),
    ("RoiAlign", 16, ("float[1,2,4,4]", "float[3,4]", "int64[2]"), {}, "3 regions"),
    (
        "LSTM",
        14,
        ("float[2,1,3]", "float[1,8,3]", "float[1,8,2]"),
        {"hidden_size": 2, "activations": ["Sine", "Tanh", "Tanh"]},
        "'Sine' does not exist",
    ),
]


@pytest.mark.parametrize(("op_type", "opset", "inputs", "settings", "reason"), REFUSED)
def test_nodes_that_no_version_allows_are_refused(
    op_type: str,
    opset: int,
    inputs: tuple[Input, ...],
    settings: dict[str, object],
    reason: str,
) -> None:
    outputs = ("y", "z") if op_type == "Split" else ("y",)
    proto = single_model(op_type, inputs, opset, outputs=outputs, **settings)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=reason):
        score(proto.SerializeToString())
