"""Models of one operator outside ONNX's own domain, and what ONNX Runtime answers to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from mansard.core.records import LayerScore
from mansard.estimator import score
from mansard.estimator.operators import REGISTRY
from mansard.estimator.operators.registry import Spec
from mansard.estimator.reading import read_model
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.inference import infer_shapes
from tests.estimator.models import Input

Check = Literal["run", "infer", "hand"]
NOTHING: Mapping[str, Any] = MappingProxyType({})
VERSIONS = MappingProxyType({"ai.onnx.ml": 3})


class Operator(NamedTuple):
    """A node, the work it must have by hand, and who else says what its outputs look like.

    ``inputs``: what the network is given (``"float[2,3]"``), a stored array, or ``""``.
    ``check``: "run" where ONNX Runtime's CPU kernel is asked, "infer" where only its shape
    inference is (the kernel is for a GPU), "hand" where ``shapes`` alone is the check.
    """

    name: str
    inputs: tuple[Input, ...]
    flop: int
    settings: Mapping[str, Any] = NOTHING
    check: Check = "run"
    outputs: int = 1
    shapes: tuple[str, ...] = ()
    dims: Mapping[str, int] = NOTHING
    opset: int = 21
    version: int | None = None
    left_out: tuple[int, ...] = ()  # outputs without a name

    @property
    def key(self) -> tuple[str, str]:
        domain, _, op_type = self.name.rpartition(".")
        return domain, op_type


def declared(name: str, text: str) -> onnx.ValueInfoProto:
    """A tensor as text, ``float[2,3]``."""
    found = re.fullmatch(r"(\w+)(?:\[([\d,]*)\])?", text)
    assert found is not None, text
    shape = [int(size) for size in (found[2] or "").split(",") if size]
    return helper.make_tensor_value_info(name, TensorProto.DataType.Value(found[1].upper()), shape)


def build(case: Operator, outputs: tuple[onnx.ValueInfoProto, ...] = ()) -> bytes:
    """The model; its outputs have no type unless they are given."""
    domain, op_type = case.key
    names, given, stored = [], [], []
    for i, source in enumerate(case.inputs):
        names.append("" if isinstance(source, str) and not source else f"x{i}")
        if isinstance(source, str) and source:
            given.append(declared(f"x{i}", source))
        elif not isinstance(source, str):
            stored.append(numpy_helper.from_array(source, f"x{i}"))
    written = ["" if i in case.left_out else f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(op_type, names, written, "node", domain=domain)
    node.attribute.extend(helper.make_attribute(*pair) for pair in case.settings.items())
    made = list(outputs) or [helper.make_empty_tensor_value_info(name) for name in written if name]
    graph = helper.make_graph([node], "g", given, made, stored)
    imports = [helper.make_opsetid("", case.opset)]
    if domain:
        version = case.version or VERSIONS.get(domain, 1)
        imports.append(helper.make_opsetid(domain, version))
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    data: bytes = proto.SerializeToString()
    return data


def row(case: Operator) -> LayerScore:
    """The row of the one node."""
    (found,) = score(build(case), dims=case.dims).layers
    return found


def specs(case: Operator) -> list[Spec]:
    """What our rule says of the outputs that have a name; None depends on data."""
    model = read_model(build(case))
    (node,) = infer_shapes(model, bind(model)).nodes
    rule = REGISTRY.shape_rule(node.domain, node.op_type)
    assert rule is not None
    found = rule(node)
    assert not isinstance(found, str), found
    return [spec for i, spec in enumerate(found[: case.outputs]) if i not in case.left_out]


def session(data: bytes) -> onnxruntime.InferenceSession:
    """The model in ONNX Runtime, shapes checked strictly."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.strict_shape_type_inference", "1")
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def real_outputs(case: Operator) -> list[np.ndarray[Any, Any]]:
    """What the kernel of the CPU writes, for some data."""
    runner = session(build(case))
    generator = np.random.default_rng(5)
    feeds = {source.name: _data(source, generator) for source in runner.get_inputs()}
    found: list[np.ndarray[Any, Any]] = runner.run(None, feeds)
    return found


_TYPES = {"float": "float32", "double": "float64"}


def _data(source: Any, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    kind = source.type[len("tensor(") : -1]
    if kind == "string":
        return np.full(source.shape, "abc", dtype=object)
    name = _TYPES.get(kind, kind)
    if name.startswith("float"):
        return np.asarray(generator.uniform(0.1, 1.0, source.shape), name)
    return np.ones(source.shape, name)
