"""The node tests that the installed onnx package makes: models of single operators.

Each comes with real tensors of its inputs and outputs. Inputs that steer shapes (the
target of a Reshape, the k of a TopK) are stored in the model, as exporters write them;
all others stay inputs, of which the estimator sees the shapes alone.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from mansard.core.records import LayerScore
from mansard.estimator import score
from mansard.estimator.model import Given
from mansard.estimator.numbers import BY_CODE, ELEMENT_TYPES
from mansard.estimator.scoring import Loaded, load
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.inference import InferredNetwork, infer_shapes
from mansard.estimator.shape_inference.sequences import absent, sequence
from mansard.estimator.tensors import Tensor

# operator -> inputs whose values shapes or the number of turns depend on
STEERING: Mapping[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "DFT": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "If": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1, 2),
    "TopK": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    **dict.fromkeys((f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp")), (1,)),
    **dict.fromkeys((f"Reduce{kind}" for kind in ("Max", "Mean", "Min", "Prod")), (1,)),
    **dict.fromkeys((f"Reduce{kind}" for kind in ("Sum", "SumSquare")), (1,)),
}
_SUB_BYTE = {"int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2}
_SUB_BYTE |= {"float6e2m3": 6, "float6e3m2": 6}


class Real(msgspec.Struct, frozen=True):
    """What a tensor really is. ``n_bytes`` is its size in memory; strings have none."""

    dtype: str
    shape: tuple[int, ...]
    n_bytes: int


class NodeCase(msgspec.Struct, frozen=True):
    """One test: the model with its steering inputs stored, and the real tensors by name."""

    name: str
    model: bytes
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    op_types: tuple[str, ...]
    steering: tuple[str, ...]  # the inputs that were stored

    @property
    def is_single(self) -> bool:
        return len(self.op_types) == 1


@functools.cache
def node_tests() -> tuple[Any, ...]:
    """All tests as the package has them, in its order."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its reference computations overflow on purpose
        return tuple(load_model_tests(kind="node"))


@functools.cache
def node_models() -> dict[str, onnx.ModelProto]:
    """The models of all tests, by name."""
    return {test.name: test.model for test in node_tests() if test.model is not None}


@functools.cache
def node_cases() -> tuple[NodeCase, ...]:
    """All tests with their tensors, in the package's order."""
    steering: dict[str, tuple[str, ...]] = {}
    cases = []
    for test in node_tests():
        # A test that spells out the function of an operator has the same inputs.
        base = test.name.split("_expanded")[0]
        if "_expanded" not in test.name:
            steering[base] = _steering(test.model)
        cases.append(_case(test, steering.get(base, ())))
    return tuple(cases)


def _steering(model: onnx.ModelProto) -> tuple[str, ...]:
    inputs = {value.name for value in model.graph.input}
    found: dict[str, None] = {}
    for node in model.graph.node:
        for position in STEERING.get(node.op_type, ()):
            if position < len(node.input) and node.input[position] in inputs:
                found[node.input[position]] = None
    return tuple(found)


def _case(test: Any, steering: Sequence[str]) -> NodeCase:
    model = onnx.ModelProto.FromString(test.model.SerializeToString())
    given, made = test.data_sets[0]
    inputs = {value.name: held for value, held in zip(model.graph.input, given, strict=True)}
    outputs = {value.name: held for value, held in zip(model.graph.output, made, strict=True)}
    arrays = (np.ndarray, np.generic)
    stored = tuple(name for name in steering if isinstance(inputs.get(name), arrays))
    for name in stored:
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(inputs[name]), name))
    kept = [value for value in model.graph.input if value.name not in stored]
    for value in model.graph.output:
        # What the file says of its results must not help.
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del model.graph.input[:]
    model.graph.input.extend(kept)
    ops = tuple(node.op_type for node in model.graph.node)
    return NodeCase(test.name, model.SerializeToString(), inputs, outputs, ops, stored)


def is_plain(case: NodeCase) -> bool:
    """Whether it is one node on tensors: no sequences, no optionals."""
    held = (*case.inputs.values(), *case.outputs.values())
    return case.is_single and not any(value is None or isinstance(value, list) for value in held)


def real(held: Any) -> Real | list[Any] | None:
    """What a value of the data set is: a tensor, a sequence of such, or nothing."""
    if held is None:
        return None
    if isinstance(held, list):
        return [real(item) for item in held]
    if isinstance(held, TensorProto):
        dtype = BY_CODE[held.data_type].name
        array = numpy_helper.to_array(held)
        size = -(-array.size * _SUB_BYTE[dtype] // 8) if dtype in _SUB_BYTE else array.nbytes
        return Real(dtype, tuple(held.dims), size)
    array = np.asarray(held)
    if array.dtype.kind in "OUS":
        return Real("string", array.shape, 0)
    return Real(str(array.dtype), array.shape, array.nbytes)


def described(tensor: Tensor) -> Real | list[Any] | None:
    """The same of a tensor of the estimator."""
    if tensor.items is not None:
        return None if tensor.dtype.name == "undefined" else [described(i) for i in tensor.items]
    return Real(tensor.dtype.name, tensor.shape, tensor.n_bytes(None))


def given(case: NodeCase, loaded: Loaded, dims: Mapping[str, int]) -> Given:
    """All that the case's real inputs tell; of a sequence the first element tells its shape."""
    sizes: dict[str, int] = dict(dims)
    shapes: dict[str, tuple[int, ...]] = {}
    for source in loaded.model.inputs:
        held = case.inputs[source.name]
        if "sequence" in source.kind:
            sizes[f"{source.name}.length"] = len(held or ())
            shapes[source.name] = np.asarray(held[0]).shape if held else ()
        elif held is not None:
            shapes[source.name] = _shape(held)
        if "optional" in source.kind:
            sizes[f"{source.name}.present"] = int(held is not None)
    return Given(dims=sizes, shapes=shapes)


def infer_case(
    case: NodeCase, dims: Mapping[str, int] | None = None
) -> tuple[Loaded, InferredNetwork]:
    """The case's network with shapes; ``dims`` are those of outputs that depend on data."""
    loaded = load(case.model, case.name)
    binding = bind(loaded.model, given(case, loaded, dims or {}))
    exact = {name: _tensor(name, case.inputs[name], held) for name, held in binding.tensors.items()}
    binding = msgspec.structs.replace(binding, tensors=exact)
    return loaded, infer_shapes(loaded.model, binding, loaded.prepared)


def rows_of(case: NodeCase) -> list[LayerScore]:
    """The rows of the case; sizes that depend on data are given. Raises ModelError."""
    loaded, network = infer_case(case)
    told = given(case, loaded, open_dimensions(case, network))
    return list(score(case.model, dims=told.dims, shapes=told.shapes).layers)


def _shape(held: Any) -> tuple[int, ...]:
    found = real(held)
    return found.shape if isinstance(found, Real) else ()


def _tensor(name: str, held: Any, bound: Tensor) -> Tensor:
    """The input as the data set has it: each element of a sequence with its own shape."""
    if held is None:
        return absent(name)
    if isinstance(held, list):
        items = [_tensor(f"{name}[{i}]", item, bound) for i, item in enumerate(held)]
        return sequence(name, items[0].dtype if items else bound.dtype, items)
    found = real(held)
    assert isinstance(found, Real)
    return Tensor(name, ELEMENT_TYPES[found.dtype], found.shape)


def open_dimensions(case: NodeCase, network: InferredNetwork) -> dict[str, int]:
    """Sizes of outputs that depend on data, by their position; from the real tensors."""
    sizes: dict[str, int] = {}
    for node in network.nodes:
        for tensor in node.outputs:
            held = case.outputs.get(tensor.name)
            if tensor.unknown is None or "depend" not in tensor.unknown or held is None:
                continue
            for axis, size in enumerate(_shape(held)):
                if f"{tensor.name}[{axis}]" in tensor.unknown:
                    sizes[f"{tensor.name}[{axis}]"] = size
    return sizes


def say(capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Counts belong into the log of a run, passed or not."""
    with capsys.disabled():
        sys.stdout.write(f"\n{line}\n")
