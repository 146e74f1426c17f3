"""The same models as our own reader yields, but parsed by the onnx package.

Two readers of one format that share no parsing code: where they differ, one is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from mansard.core.errors import ModelError
from mansard.estimator.model import (
    Dimension,
    Kind,
    Model,
    ModelInput,
    ModelNode,
    StoredTensor,
    normal_domain,
)
from mansard.estimator.numbers import BY_CODE, Array, ElementType, Numbers, hold_array, may_keep
from mansard.estimator.reading.graphs import Parts, sort_nodes, subgraph, with_tables
from mansard.estimator.tensors import Shape, is_sane

REFUSALS = (DecodeError, UnicodeDecodeError, ModelError)


def oracle(data: bytes) -> Model:
    """The model in ``data``, which has no functions; raises one of ``REFUSALS``."""
    proto = onnx.ModelProto.FromString(data)
    if proto.ir_version < 1 or not proto.HasField("graph") or not proto.graph.node:
        raise ModelError("no model")
    opsets = {"": 1}
    for entry in proto.opset_import:
        opsets[normal_domain(_text(entry.domain))] = entry.version
    if not 1 <= opsets[""] <= 10_000:
        raise ModelError("no version")
    reader = _Reader(opsets)
    parts = reader.graph(proto.graph, is_main=True)
    inputs = tuple(given for given in parts.inputs if given.name not in parts.stored)
    known = dict.fromkeys(parts.stored) | dict.fromkeys(given.name for given in inputs)
    written = {name for node in parts.nodes for name in node.outputs}
    if len({given.name for given in inputs}) < len(inputs):
        raise ModelError("two inputs")
    if not all(output.name in written or output.name in known for output in parts.outputs):
        raise ModelError("no output")
    nodes = sort_nodes(with_tables(parts.nodes, parts.stored), {**known, **parts.stored})
    return Model(nodes, inputs, tuple(parts.outputs), parts.stored, opsets)


def _text(name: str | bytes) -> str:
    # Newer releases of protobuf hand out names that are no UTF-8 as bytes.
    return name.decode() if isinstance(name, bytes) else name


class _Reader:
    def __init__(self, opsets: Mapping[str, int]) -> None:
        self._opsets = opsets
        self._n_nodes = 0

    def graph(self, graph: onnx.GraphProto, is_main: bool = False) -> Parts:
        stored = [_stored(tensor) for tensor in graph.initializer]
        stored += [_stored_sparse(tensor) for tensor in graph.sparse_initializer]
        by_name = {tensor.name: tensor for tensor in stored}
        if len(by_name) < len(stored):
            raise ModelError("two stored tensors")
        first = self._n_nodes
        self._n_nodes += len(graph.node)
        return Parts(
            [self._node(first + place, node) for place, node in enumerate(graph.node)],
            [_declared(_text(value.name), value.type, is_main) for value in graph.input],
            [_declared(_text(value.name), value.type) for value in graph.output],
            by_name,
        )

    def _node(self, index: int, node: onnx.NodeProto) -> ModelNode:
        name = _text(node.name or next(filter(None, node.output), ""))
        domain = normal_domain(_text(node.domain))
        return ModelNode(
            index,
            name,
            _text(node.op_type),
            domain,
            tuple(map(_text, node.input)),
            tuple(map(_text, node.output)),
            {_text(item.name): self._attribute(item) for item in node.attribute},
            self._opsets.get(domain, 1),
        )

    def _attribute(self, item: onnx.AttributeProto) -> object:
        if item.ref_attr_name:
            raise ModelError("a reference outside of a function")
        kind = onnx.AttributeProto.AttributeType.Name(item.type)
        if kind == "UNDEFINED":
            kind = _guess(item)
        if kind in _LISTS:
            one, many = _LISTS[kind]
            return tuple(self._value(one, value) for value in getattr(item, many))
        return self._value(kind, getattr(item, _FIELDS[kind])) if kind else None

    def _value(self, kind: str, value: object) -> object:
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, onnx.TensorProto):
            return _stored(value)
        if isinstance(value, onnx.SparseTensorProto):
            return _stored_sparse(value)
        if isinstance(value, onnx.TypeProto):
            return _declared("", value)
        if isinstance(value, onnx.GraphProto):
            return subgraph(self.graph(value))
        assert isinstance(value, (int, float))
        return int(value) if kind == "INT" else float(value)


_FIELDS = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g"}
_FIELDS |= {"SPARSE_TENSOR": "sparse_tensor", "TYPE_PROTO": "tp"}
_LISTS = {
    "FLOATS": ("FLOAT", "floats"),
    "INTS": ("INT", "ints"),
    "STRINGS": ("STRING", "strings"),
    "TENSORS": ("TENSOR", "tensors"),
    "GRAPHS": ("GRAPH", "graphs"),
    "SPARSE_TENSORS": ("SPARSE_TENSOR", "sparse_tensors"),
    "TYPE_PROTOS": ("TYPE_PROTO", "type_protos"),
}


def _guess(item: onnx.AttributeProto) -> str | None:
    for kind in onnx.AttributeProto.AttributeType.keys()[1:]:
        if kind in _LISTS and len(getattr(item, _LISTS[kind][1])):
            return str(kind)
        if kind in _FIELDS and item.HasField(_FIELDS[kind]):
            return str(kind)
    return None


def _stored(tensor: onnx.TensorProto) -> StoredTensor:
    dtype, shape = BY_CODE.get(tensor.data_type), tuple(tensor.dims)
    if dtype is None or not is_sane(shape):
        raise ModelError("no tensor")
    value = None
    if tensor.data_location != onnx.TensorProto.EXTERNAL and may_keep(dtype, math.prod(shape)):
        value = _value(tensor, dtype.name, shape)
    held = None if value is None else hold_array(dtype, value)
    return StoredTensor(_text(tensor.name), dtype, shape, held)


_TYPED = dict.fromkeys(("int32", "int16", "int8", "uint16", "uint8", "bool"), "int32_data")
_TYPED |= {"float32": "float_data", "float64": "double_data", "int64": "int64_data"}
_TYPED |= dict.fromkeys(("uint32", "uint64"), "uint64_data")


def _value(tensor: onnx.TensorProto, name: str, shape: Shape) -> Array | None:
    if name not in _TYPED:
        return None
    if tensor.HasField("raw_data"):
        if len(tensor.raw_data) % np.dtype(name).itemsize:
            raise ModelError("half a number")
        kind = np.dtype(np.uint8 if name == "bool" else name)
        flat: Array = np.frombuffer(tensor.raw_data, kind).astype(name)
    else:
        held = getattr(tensor, _TYPED[name])
        wide = {"f": np.float64, "u": np.uint64}.get(np.dtype(name).kind, np.int64)
        flat = np.array(list(held), wide).astype(name)
    n_elements = math.prod(shape)
    if not flat.size and n_elements:
        return None
    if flat.size != n_elements:
        raise ModelError("another number of values")
    return flat.reshape(shape)


def _stored_sparse(sparse: onnx.SparseTensorProto) -> StoredTensor:
    values, shape = _stored(sparse.values), tuple(sparse.dims)
    if not is_sane(shape):
        raise ModelError("no tensor")
    return StoredTensor(values.name, values.dtype, shape, None)


def _declared(name: str, held: onnx.TypeProto, is_given: bool = False) -> ModelInput:
    kind: Kind = "tensor"
    if held.HasField("optional_type"):
        kind, held = "optional", held.optional_type.elem_type
    if held.HasField("sequence_type"):
        kind = "sequence" if kind == "tensor" else "optional sequence"
        held = held.sequence_type.elem_type
    elif held.HasField("map_type"):
        kind, held = "map", held.map_type.value_type
    for member in ("tensor_type", "sparse_tensor_type"):
        if held.HasField(member):
            tensor = getattr(held, member)
            dtype = BY_CODE.get(tensor.elem_type)
            dims = tuple(_dimension(item, is_given) for item in tensor.shape.dim)
            return ModelInput(name, dtype, dims if tensor.HasField("shape") else None, kind)
    return ModelInput(name, None, None, kind)


def _dimension(item: onnx.TensorShapeProto.Dimension, is_given: bool) -> Dimension:
    if not item.HasField("dim_value"):
        return _text(item.dim_param) or None
    size = int(item.dim_value)
    if is_given and size < -1:
        raise ModelError("a negative dimension")
    return size if size >= 0 else None


def plain(value: object) -> object:
    """A model, or a part of one, as values that compare with ``==``."""
    # A float has one NaN, its bytes have many: protobuf quietens them.
    if isinstance(value, Numbers):
        return value.dtype, value.shape, list(map(repr, value.flat))
    if isinstance(value, msgspec.Struct) and not isinstance(value, ElementType):
        # A node that names an overload is one of a class of its own until functions are gone.
        kind = ModelNode if isinstance(value, ModelNode) else type(value)
        # What a file notes of tensors serves only where it is whole: see test_stated_shapes. Notes
        # on its versions: test_arities.
        names = [name for name in kind.__struct_fields__ if name not in ("notes", "stated")]
        return kind.__name__, {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return repr(value) if isinstance(value, float) else value  # NaN is NaN
