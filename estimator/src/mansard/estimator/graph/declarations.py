"""What the file says of a graph's inputs and outputs: name, type, dimensions.

Messages ValueInfoProto, TypeProto and TensorShapeProto of onnx.proto
(https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); keys are 8 · field + kind.
"""

from __future__ import annotations

from mansard.core.errors import ModelError
from mansard.estimator.element_types import BY_CODE, ElementType
from mansard.estimator.graph.protobuf import fields, signed, signed32
from mansard.estimator.model import Dimension, Kind, ModelInput
from mansard.estimator.tensors import MAX_RANK

_NAME, _TYPE = 10, 18  # of ValueInfoProto
_TENSOR, _SEQUENCE, _MAP, _SPARSE, _OPTIONAL = 10, 34, 42, 66, 74  # of TypeProto: one of them
_OPAQUE = 58
_MEMBERS = frozenset({_TENSOR, _SEQUENCE, _MAP, _OPAQUE, _SPARSE, _OPTIONAL})
_ELEMENT_TYPE, _SHAPE = 8, 18  # of TypeProto.Tensor
_ELEMENT, _MAP_VALUE = 10, 18  # of TypeProto.Sequence and Optional, and of Map
_DIM = 10  # of TensorShapeProto
_SIZE, _SYMBOL = 8, 18  # of Dimension: one of them

_Held = tuple[ElementType | None, tuple[Dimension, ...] | None]


def read_declared(data: bytes, is_given: bool = False) -> ModelInput:
    """The ValueInfoProto in ``data``. ``is_given``: a negative dimension of it is an error."""
    name = b""
    types: list[bytes] = []
    for key, content in fields(data):
        if key == _NAME:
            name = content
        elif key == _TYPE:
            types.append(content)
    text = name.decode()
    declared = read_type(b"".join(types), text)
    rank = len(declared.dimensions or ())
    if rank > MAX_RANK:
        raise ModelError(
            f"{rank} dimensions are declared; a tensor may have {MAX_RANK}",
            where=f"tensor {text!r}",
            fix="the file is damaged; export it again",
        )
    if all(
        size is None or isinstance(size, str) or size >= 0 for size in declared.dimensions or ()
    ):
        return declared
    return _without_negatives(declared, is_given)


def read_type(data: bytes, name: str = "") -> ModelInput:
    """The TypeProto in ``data``, of a tensor called ``name``."""
    kind: Kind = "tensor"
    member, held = _member(data)
    if member == _OPTIONAL:
        kind = "optional"
        member, held = _member(_inner(held, _ELEMENT))
    if member == _SEQUENCE:
        kind = "sequence" if kind == "tensor" else "optional sequence"
        member, held = _member(_inner(held, _ELEMENT))
    elif member == _MAP:
        kind = "map"
        member, held = _member(_inner(held, _MAP_VALUE))
    dtype, dimensions = _tensor(held) if member in (_TENSOR, _SPARSE) else (None, None)
    return ModelInput(name, dtype, dimensions, kind)


def _member(data: bytes) -> tuple[int, bytes]:
    """Which kind of type it is, and its content; of several the last one counts."""
    member = 0
    held: list[bytes] = []
    for key, content in fields(data):
        if key in _MEMBERS:
            if key != member:
                member, held = key, []
            held.append(content)
    return member, b"".join(held)


def _inner(data: bytes, wanted: int) -> bytes:
    return b"".join(content for key, content in fields(data) if key == wanted)


def _tensor(data: bytes) -> _Held:
    code = 0
    dims: list[Dimension] = []
    has_shape = False
    for key, content in fields(data):
        if key == _ELEMENT_TYPE:
            code = signed32(content)
        elif key == _SHAPE:
            has_shape = True
            dims += [_dimension(held) for number, held in fields(content) if number == _DIM]
    return BY_CODE.get(code), tuple(dims) if has_shape else None


def _dimension(data: bytes) -> Dimension:
    size: int | bytes = b""
    for key, content in fields(data):
        if key == _SIZE:
            size = signed(content)
        elif key == _SYMBOL:
            size = content
    return size if isinstance(size, int) else size.decode() or None


def _without_negatives(declared: ModelInput, is_given: bool) -> ModelInput:
    sizes: list[Dimension] = []
    for size in declared.dimensions or ():
        is_negative = isinstance(size, int) and size < 0
        # Some exporters of old write -1 for a dimension that is not known.
        if is_negative and is_given and size != -1:
            raise ModelError(
                f"dimension {size} is negative",
                where=f"tensor {declared.name!r}",
                fix="export the model again with a named dimension there",
            )
        sizes.append(None if is_negative else size)
    return ModelInput(declared.name, declared.dtype, tuple(sizes), declared.kind)
