"""From the bytes of an ONNX file to a Model; weights are never looked at.

Format: onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mansard.core.errors import ModelError
from mansard.estimator.cost import normal_domain
from mansard.estimator.element_types import BY_CODE
from mansard.estimator.graph.order import sort_nodes
from mansard.estimator.graph.payloads import stored_sparse_tensor, stored_tensor
from mansard.estimator.model import (
    Dimension,
    Model,
    ModelInput,
    ModelNode,
    Subgraph,
)

if TYPE_CHECKING:
    import onnx

_NOT_ONNX = "this is not an ONNX model"
_FIX = "give a file written by an ONNX exporter, whole and uncompressed"


def read_model(data: bytes) -> Model:
    """The network in ``data``; raises ModelError for anything that is not a whole ONNX model."""
    try:
        return _translate(_parse(data))
    except UnicodeDecodeError as error:
        raise ModelError(f"{_NOT_ONNX}: a name in it is not text", fix=_FIX) from error


def _parse(data: bytes) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    if not data:
        raise ModelError("the file is empty", fix=_FIX)
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError(f"{_NOT_ONNX}, or it is cut short or damaged", fix=_FIX) from error
    # Protobuf has no magic number: many files parse as a message of unknown fields.
    if proto.ir_version < 1 or not proto.HasField("graph"):
        raise ModelError(f"{_NOT_ONNX}: it holds no graph", fix=_FIX)
    if proto.functions:
        from mansard.estimator.graph.functions import inline_functions

        return inline_functions(proto)
    return proto


def _translate(proto: onnx.ModelProto) -> Model:
    graph = proto.graph
    if not graph.node:
        raise ModelError("the graph is empty: it has no nodes", fix=_FIX)
    stored = {tensor.name: stored_tensor(tensor) for tensor in graph.initializer}
    for sparse in graph.sparse_initializer:
        stored[sparse.values.name] = stored_sparse_tensor(sparse)
    if len(stored) < len(graph.initializer) + len(graph.sparse_initializer):
        raise ModelError("two stored tensors of the graph have the same name", fix=_FIX)
    nodes = [_node(index, node) for index, node in enumerate(graph.node)]
    # Up to IR version 3 every initialiser is listed among the inputs as well.
    inputs = [_value(value) for value in graph.input if value.name not in stored]
    known = dict.fromkeys(stored) | dict.fromkeys(value.name for value in inputs)
    outputs = tuple(_value(value) for value in graph.output)
    _check_ends(nodes, known, inputs, outputs)
    return Model(sort_nodes(nodes, known), tuple(inputs), outputs, stored, _opsets(proto))


def _check_ends(
    nodes: list[ModelNode],
    known: Mapping[str, object],
    inputs: list[ModelInput],
    outputs: tuple[ModelInput, ...],
) -> None:
    if len({given.name for given in inputs}) < len(inputs):
        raise ModelError("two inputs of the graph have the same name", fix=_FIX)
    written = {name for node in nodes for name in node.outputs}
    for output in outputs:
        if output.name not in written and output.name not in known:
            raise ModelError(
                f"no node writes the graph's output {output.name!r}",
                fix="the graph is broken; export the model again",
            )


def _opsets(proto: onnx.ModelProto) -> dict[str, int]:
    opsets = {normal_domain(entry.domain): int(entry.version) for entry in proto.opset_import}
    if "" not in opsets:
        # Before IR version 3 a model had no opset list and meant version 1.
        opsets[""] = 1
    return opsets


def _node(index: int, node: onnx.NodeProto) -> ModelNode:
    outputs = tuple(node.output)
    # Many exporters leave names empty; the first output then tells nodes apart.
    name = node.name or next((output for output in outputs if output), "")
    attributes = {attribute.name: _attribute(attribute, name) for attribute in node.attribute}
    inputs = tuple(node.input)
    return ModelNode(
        index, name, node.op_type, normal_domain(node.domain), inputs, outputs, attributes
    )


# onnx.proto, enum AttributeProto.AttributeType
_FLOAT, _INT, _STRING, _TENSOR, _GRAPH = 1, 2, 3, 4, 5
_FLOATS, _INTS, _STRINGS = 6, 7, 8


def _attribute(attribute: onnx.AttributeProto, node_name: str) -> object:
    kind = attribute.type
    if kind == _INT:
        return int(attribute.i)
    if kind == _INTS:
        return tuple(attribute.ints)
    if kind == _FLOAT:
        return float(attribute.f)
    if kind == _STRING:
        return attribute.s.decode("utf-8", "replace")
    if kind == _TENSOR:
        return stored_tensor(attribute.t, node_name)
    return _rare_attribute(attribute)


def _rare_attribute(attribute: onnx.AttributeProto) -> object:
    kind = attribute.type
    if kind == _GRAPH:
        return _subgraph(attribute.g)
    if kind == _FLOATS:
        return tuple(attribute.floats)
    if kind == _STRINGS:
        return tuple(text.decode("utf-8", "replace") for text in attribute.strings)
    if attribute.HasField("sparse_tensor"):
        return stored_sparse_tensor(attribute.sparse_tensor)
    return None  # types, lists of graphs and tensors: no operator that is counted has them


def _subgraph(graph: onnx.GraphProto) -> Subgraph:
    inner = {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
    inner |= {name for node in graph.node for name in node.output}
    read = dict.fromkeys(name for node in graph.node for name in node.input if name)
    return Subgraph(tuple(name for name in read if name not in inner))


def _value(value: onnx.ValueInfoProto) -> ModelInput:
    name = value.name
    if not value.type.HasField("tensor_type"):
        return ModelInput(name, None, None)
    tensor = value.type.tensor_type
    dtype = BY_CODE.get(tensor.elem_type)
    if not tensor.HasField("shape"):
        return ModelInput(name, dtype, None)
    return ModelInput(name, dtype, tuple(_dimension(item, name) for item in tensor.shape.dim))


def _dimension(item: onnx.TensorShapeProto.Dimension, where: str) -> Dimension:
    if item.HasField("dim_value"):
        size = int(item.dim_value)
        # Some exporters of old write -1 for a dimension that is not known.
        if size < 0:
            raise ModelError(
                f"dimension {size} is negative",
                where=f"tensor {where!r}",
                fix="export the model again with a named dimension there",
            )
        return size
    return item.dim_param or None
