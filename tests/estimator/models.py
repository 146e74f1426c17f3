"""Small models for the tests of this folder, and their rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from mansard.core.records import LayerScore, Phase
from mansard.estimator import score

Input = str | npt.NDArray[np.generic]


def store(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Declared tensors that no node writes become stored ones, without a payload."""
    written = {name for node in proto.graph.node for name in node.output}
    for value in proto.graph.value_info:
        if value.name not in written:
            kind = value.type.tensor_type
            dims = [size.dim_value for size in kind.shape.dim]
            proto.graph.initializer.add(name=value.name, data_type=kind.elem_type, dims=dims)
    return proto


def model(body: str, signature: str, stored: str = "", opset: int = 17) -> bytes:
    """A model in ONNX's text form: its nodes, its inputs, its stored tensors."""
    held = f"<{stored}>" if stored else ""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({signature}) => (float[] y)'
    data: bytes = store(parser.parse_model(f"{head} {held} {{ {body} }}")).SerializeToString()
    return data


def text_model(graph: str, opset: int = 17, ir_version: int = 8) -> bytes:
    """A model of one graph in ONNX's text form, ``g (…) => (…) <stored> { nodes }``."""
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>'
    data: bytes = store(parser.parse_model(f"{head} {graph}")).SerializeToString()
    return data


def layers(
    body: str,
    signature: str,
    stored: str = "",
    opset: int = 17,
    precision: str | None = None,
    phase: Phase = "inference",
) -> dict[str, LayerScore]:
    """The rows of such a model by name."""
    scored = score(model(body, signature, stored, opset), precision=precision, phase=phase)
    return {layer.name: layer for layer in scored.layers}


def layer(body: str, signature: str, stored: str = "", opset: int = 17) -> LayerScore:
    """The last row of such a model."""
    return score(model(body, signature, stored, opset)).layers[-1]


def single(
    op_type: str,
    inputs: Sequence[Input],
    opset: int = 22,
    domain: str = "",
    outputs: Sequence[str] = ("y",),
    dims: Mapping[str, int] | None = None,
    **attributes: object,
) -> LayerScore:
    """The row of one node; see ``single_model``.

    ``dims`` are those of outputs that depend on data, by place.
    """
    proto = single_model(op_type, inputs, opset, domain, outputs, **attributes)
    (row,) = score(proto.SerializeToString(), dims=dims).layers
    return row


def single_model(
    op_type: str,
    inputs: Sequence[Input],
    opset: int = 22,
    domain: str = "",
    outputs: Sequence[str] = ("y",),
    **attributes: object,
) -> onnx.ModelProto:
    """A model of one node.

    An input is what the network is given (``"float[2,3]"``), a stored array, or left
    out (``""``).
    """
    names, given, stored = [], [], []
    for i, source in enumerate(inputs):
        names.append("" if isinstance(source, str) and not source else f"x{i}")
        if isinstance(source, str) and source:
            given.append(_declared(f"x{i}", source))
        elif not isinstance(source, str):
            stored.append(numpy_helper.from_array(source, f"x{i}"))
    node = helper.make_node(op_type, names, list(outputs), "node", domain=domain)
    node.attribute.extend(helper.make_attribute(*pair) for pair in attributes.items())
    made = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    graph = helper.make_graph([node], "g", given, made, stored)
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=imports)


def _declared(name: str, text: str) -> onnx.ValueInfoProto:
    found = re.fullmatch(r"(\w+)(?:\[([\d,]*)\])?", text)
    assert found is not None, text
    shape = [int(size) for size in (found[2] or "").split(",") if size]
    return helper.make_tensor_value_info(name, TensorProto.DataType.Value(found[1].upper()), shape)
