"""Tensors in the file: declarations of inputs and outputs, and stored tensors.

Messages ValueInfoProto, TypeProto, TensorProto and SparseTensorProto of onnx.proto
(https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); keys are 8 · field + kind.
Of a stored tensor only a value that is small enough to decide shapes is kept.

Long lists of numbers in attributes are read without an object for each number: a forest of
decision trees is some millions of them in the attributes of one node. Of floats only their count
is kept, as of a weight; of integers, from which the depth of the trees follows, their bytes; of
the modes of the nodes a byte each. Numbers that are not packed, as protobuf's second version
writes them, each have their field's key in front.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from mansard.core.errors import ModelError
from mansard.core.formats.protobuf import (
    BYTES,
    damaged,
    field_at,
    fields,
    packed,
    signed,
    signed32,
    varint,
)
from mansard.estimator.model import Dimension, Kind, ModelInput, StatedType, StoredTensor
from mansard.estimator.numbers import (
    BY_CODE,
    ELEMENT_TYPES,
    FLOAT32,
    INT64,
    Array,
    ElementType,
    Numbers,
    hold_array,
    may_keep,
)
from mansard.estimator.reading.limits import ReadingBudget
from mansard.estimator.tensors import MAX_RANK, Shape, is_sane

LONG_BYTES = 1 << 16  # an attribute that takes more is read here

_NAME, _LONG_FLOATS, _INTS, _STRINGS, _PACKED_FLOATS, _PACKED_INTS = 10, 61, 64, 74, 58, 66
_RUN_BYTES = 1 << 20  # read at once
# The modes of a tree's nodes, numbered as in a TreeEnsemble; a leaf is behind them.
MODES: tuple[bytes, ...] = (
    b"BRANCH_LEQ",
    b"BRANCH_LT",
    b"BRANCH_GTE",
    b"BRANCH_GT",
    b"BRANCH_EQ",
    b"BRANCH_NEQ",
)
MODES += (b"BRANCH_MEMBER", b"LEAF")
MODE_FIELDS = rb"\x4a(?:" + b"|".join(re.escape(bytes([len(m)]) + m) for m in MODES) + rb")"
_RUNS = {
    _LONG_FLOATS: re.compile(rb"(?:\x3d.{4})+", re.DOTALL),
    _INTS: re.compile(rb"(?:\x40[\x80-\xff]{0,9}[\x00-\x7f])+"),
    _STRINGS: re.compile(rb"(?:" + MODE_FIELDS + rb")+"),
}
_PACKED = {_PACKED_FLOATS: _LONG_FLOATS, _PACKED_INTS: _INTS}
_TYPE, _TYPES = 160, (6, 7, 8)  # enum AttributeType: lists of floats, integers and texts
_KINDS = {_LONG_FLOATS: FLOAT32, _INTS: INT64, _STRINGS: ELEMENT_TYPES["uint8"]}


def read_long_list(  # noqa: C901 - one branch a form
    data: bytes, budget: ReadingBudget
) -> tuple[str, StoredTensor] | None:
    """Name and numbers of the AttributeProto in ``data``; None where it is another attribute."""
    name, kind, n_numbers, position = "", 0, 0, 0
    parts: list[Array] = []
    while position < len(data):
        key, start, stop = field_at(data, position)
        run = _RUNS[key].match(data, position, position + _RUN_BYTES) if key in _RUNS else None
        if key in _PACKED:
            key, runs = _PACKED[key], list(_packed_numbers(key, data[start:stop]))
        elif run is not None:
            stop, runs = run.end(), [_numbers(key, run[0])]
        elif key in _RUNS or (key & 7 == BYTES and key != _NAME):
            return None  # a text of another word, a tensor, a graph
        else:
            if key == _NAME:
                name = data[start:stop].decode()
            elif key == _TYPE and varint(data, start)[0] not in _TYPES:
                return None
            position = stop
            continue
        if kind not in (0, key):
            return None
        kind, position = key, stop
        for count, part in runs:
            n_numbers += count
            if part is not None:
                budget.long_numbers(count)
                parts.append(part)
    dtype = _KINDS.get(kind)
    if dtype is None or not n_numbers:
        return None
    return name, StoredTensor(name, dtype, (n_numbers,), _value_of_long(dtype, parts))


def _value_of_long(dtype: ElementType, parts: list[Array]) -> Numbers | None:
    import numpy as np

    return hold_array(dtype, np.concatenate(parts)) if parts else None


def _numbers(key: int, run: bytes) -> tuple[int, Array | None]:
    """How many numbers a run holds, each after its key, and the integers among them."""
    import numpy as np

    if key == _LONG_FLOATS:
        return len(run) // 5, None
    if key == _STRINGS:
        codes = {mode: code for code, mode in enumerate(MODES)}
        modes = [codes[text[1:]] for text in run.split(b"\x4a")[1:]]  # no mode has a J in it
        return len(modes), np.array(modes, np.uint8)
    held = np.frombuffer(run, np.uint8)
    ends = np.flatnonzero(held < 128)  # of a key, then of its number
    values = _varints(held, ends[0::2] + 1, ends[1::2])
    return len(values), values


def _packed_numbers(key: int, content: bytes) -> Iterator[tuple[int, Array | None]]:
    import numpy as np

    if key == _PACKED_FLOATS:
        yield len(content) // 4, None
        return
    position = 0
    while position < len(content):
        held = np.frombuffer(content[position : position + _RUN_BYTES], np.uint8)
        ends = np.flatnonzero(held < 128)
        if not len(ends):
            raise damaged()
        starts = np.concatenate([[0], ends[:-1] + 1])
        values = _varints(held, starts, ends)
        position += int(ends[-1]) + 1
        yield len(values), values


def _varints(held: Array, starts: Array, ends: Array) -> Array:
    """The numbers whose bytes are at ``starts`` to ``ends``, seven bits in each."""
    import numpy as np

    if len(starts) and int((ends - starts).max()) > 9:
        raise damaged()
    values = np.zeros(len(starts), np.uint64)
    for place in range(10):
        at = starts + place
        rows = at <= ends
        if not rows.any():
            break
        values[rows] |= (held[at[rows]] & np.uint8(127)).astype(np.uint64) << np.uint64(7 * place)
    return values.view(np.int64)


_VALUE_NAME, _VALUE_TYPE = 10, 18  # of ValueInfoProto
# Of TypeProto: one of them.
_TENSOR, _SEQUENCE, _MAP, _OPAQUE, _SPARSE, _OPTIONAL = 10, 34, 42, 58, 66, 74
_MEMBERS = frozenset({_TENSOR, _SEQUENCE, _MAP, _OPAQUE, _SPARSE, _OPTIONAL})
_ELEMENT_TYPE, _SHAPE = 8, 18  # of TypeProto.Tensor
_ELEMENT, _MAP_VALUE = 10, 18  # of TypeProto.Sequence and Optional, and of Map
_SHAPE_DIM = 10  # of TensorShapeProto
_SIZE, _SYMBOL = 8, 18  # of Dimension: one of them

_Held = tuple[ElementType | None, tuple[Dimension, ...] | None]


def read_declared(data: bytes, is_given: bool = False) -> ModelInput:
    """The ValueInfoProto in ``data``. ``is_given``: a negative dimension of it is an error."""
    name = b""
    types: list[bytes] = []
    for key, content in fields(data):
        if key == _VALUE_NAME:
            name = content
        elif key == _VALUE_TYPE:
            types.append(content)
    text = name.decode()
    declared = read_type(b"".join(types), text)
    sizes = declared.dimensions or ()
    if len(sizes) > MAX_RANK:
        raise _damaged_tensor(
            f"{len(sizes)} dimensions are declared; a tensor may have {MAX_RANK}", text
        )
    negative = [size for size in sizes if isinstance(size, int) and size < 0]
    if not negative:
        return declared
    # Some old exporters write -1 for a dimension that is not known.
    wrong = next((size for size in negative if size != -1), None)
    if is_given and wrong is not None:
        raise _damaged_tensor(
            f"dimension {wrong} is negative",
            text,
            "export the model again with a named dimension there",
        )
    dimensions = tuple(None if size in negative else size for size in sizes)
    return ModelInput(text, declared.dtype, dimensions, declared.kind)


class StatedTypes:
    """The types in ValueInfoProto messages of tensors that nodes write, by name.

    Exporters write one for each tensor, of few types; each type is read once. One that is
    damaged, no tensor, or contradicts another of the same name says nothing.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, StatedType] = {}
        self._types: dict[bytes, StatedType] = {}

    def add(self, data: bytes) -> None:
        """Note what the message in ``data`` says."""
        try:
            held = dict(fields(data))
            name, written = held[_VALUE_NAME].decode(), held[_VALUE_TYPE]
            stated = self._types.get(written)
            if stated is None:
                stated = self._types[written] = _stated_type(written)
        except (KeyError, AttributeError, ModelError, UnicodeDecodeError):
            return
        if self.by_name.setdefault(name, stated) != stated:
            self.by_name[name] = (None, None)


def _stated_type(data: bytes) -> StatedType:
    declared = read_type(data)
    if declared.kind != "tensor":
        return None, None
    sizes = declared.dimensions
    if sizes is None or len(sizes) > MAX_RANK:
        return declared.dtype, None
    return declared.dtype, tuple(
        None if isinstance(size, int) and size < 0 else size for size in sizes
    )


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
    dtype, dimensions = _tensor_type(held) if member in (_TENSOR, _SPARSE) else (None, None)
    return ModelInput(name, dtype, dimensions, kind)


def _member(data: bytes) -> tuple[int, bytes]:
    """The kind of a type and its content; the last of several counts."""
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


def _tensor_type(data: bytes) -> _Held:
    code = 0
    dims: list[Dimension] = []
    has_shape = False
    for key, content in fields(data):
        if key == _ELEMENT_TYPE:
            code = signed32(content)
        elif key == _SHAPE:
            has_shape = True
            dims += [_dimension(held) for number, held in fields(content) if number == _SHAPE_DIM]
    return BY_CODE.get(code), tuple(dims) if has_shape else None


def _dimension(data: bytes) -> Dimension:
    size: int | bytes = b""
    for key, content in fields(data):
        if key == _SIZE:
            size = signed(content)
        elif key == _SYMBOL:
            size = content
    return size if isinstance(size, int) else size.decode() or None


def _damaged_tensor(
    what: str, label: str, fix: str = "the file is damaged; export it again"
) -> ModelError:
    return ModelError(what, where=f"tensor {label!r}", fix=fix)


_TENSOR_DIM, _TENSOR_DIMS, _DATA_TYPE, _TENSOR_NAME, _RAW, _LOCATION = 8, 10, 16, 66, 74, 112
_INT32, _INT32S, _INT64, _INT64S, _UINT64, _UINT64S = 40, 42, 56, 58, 88, 90
_FLOAT, _FLOATS, _DOUBLE, _DOUBLES = 37, 34, 81, 82
_VALUES, _SPARSE_DIM, _SPARSE_DIMS = 10, 24, 26
_EXTERNAL = 1  # enum DataLocation

# Which typed field holds which element type, by onnx.proto's comments: the key of one
# number, and that of a packed list.
_FIELDS = {
    "float32": (_FLOAT, _FLOATS),
    "float64": (_DOUBLE, _DOUBLES),
    "int64": (_INT64, _INT64S),
    "int32": (_INT32, _INT32S),
    "int16": (_INT32, _INT32S),
    "int8": (_INT32, _INT32S),
    "uint16": (_INT32, _INT32S),
    "uint8": (_INT32, _INT32S),
    "bool": (_INT32, _INT32S),
    "uint32": (_UINT64, _UINT64S),
    "uint64": (_UINT64, _UINT64S),
}

_Numbers = list[tuple[int, Any]]  # the fields with typed numbers, in the file's order


def read_stored(data: bytes, budget: ReadingBudget, label: str | None = None) -> StoredTensor:
    """The TensorProto in ``data``; errors call it ``label``, by default its own name."""
    code = location = 0
    name, raw = b"", None
    dims: list[int] = []
    numbers: _Numbers = []
    for key, content in fields(data):
        if key == _TENSOR_DIM:
            dims.append(signed(content))
        elif key == _DATA_TYPE:
            code = signed32(content)
        elif key == _TENSOR_NAME:
            name = content
        elif key == _RAW:
            raw = content
        elif key == _TENSOR_DIMS:
            dims.extend(map(signed, packed(content)))
        elif key == _LOCATION:
            location = content if content in (0, _EXTERNAL) else location  # a closed enum
        else:
            numbers.append((key, content))
    budget.read(
        len(data)
        - len(raw or b"")
        - sum(len(held) for _, held in numbers if held.__class__ is bytes)
    )
    text = name.decode()
    label = label or text
    dtype = BY_CODE.get(code)
    if dtype is None:
        raise ModelError(f"element type {code} does not exist", where=f"tensor {label!r}")
    shape = _checked(tuple(dims), label)
    if location == _EXTERNAL or dtype.name not in _FIELDS or not may_keep(dtype, math.prod(shape)):
        return StoredTensor(text, dtype, shape, None)
    return StoredTensor(text, dtype, shape, _value(raw, numbers, dtype, shape, label))


def read_stored_sparse(data: bytes, budget: ReadingBudget) -> StoredTensor:
    """The SparseTensorProto in ``data``, counted as a dense tensor."""
    held: list[bytes] = []
    dims: list[int] = []
    for key, content in fields(data):
        if key == _VALUES:
            held.append(content)
        elif key == _SPARSE_DIM:
            dims.append(signed(content))
        elif key == _SPARSE_DIMS:
            dims.extend(map(signed, packed(content)))
    values = read_stored(b"".join(held), budget)
    return StoredTensor(values.name, values.dtype, _checked(tuple(dims), values.name), None)


def _checked(shape: Shape, label: str) -> Shape:
    if not is_sane(shape):
        shown = f"{list(shape[:8])}{' and more' if len(shape) > 8 else ''}"
        raise _damaged_tensor(f"stored shape {shown} is absurd", label)
    return shape


def _value(
    raw: bytes | None, numbers: _Numbers, dtype: ElementType, shape: Shape, label: str
) -> Numbers | None:
    n_elements, width = math.prod(shape), dtype.n_bits // 8
    held = _raw(raw, dtype, label) if raw is not None else _typed(numbers, dtype)
    if not held and n_elements:
        return None  # a file whose weights were taken out
    if len(held) != n_elements * width:
        raise _damaged_tensor(
            f"{len(held) // width} values are stored for a shape of {list(shape)}", label
        )
    return Numbers(dtype, shape, held)


def _raw(raw: bytes, dtype: ElementType, label: str) -> bytes:
    if len(raw) % (dtype.n_bits // 8):
        raise _damaged_tensor(
            f"{len(raw)} bytes are stored, which is not a whole number of {dtype.name}", label
        )
    return bytes(map(bool, raw)) if dtype.name == "bool" else raw


def _typed(numbers: _Numbers, dtype: ElementType) -> bytes:
    one, many = _FIELDS[dtype.name]
    width = dtype.n_bits // 8
    if dtype.is_float:
        held = b"".join(content for key, content in numbers if key in (one, many))
        return held[: len(held) // width * width]
    integers: list[int] = []
    for key, content in numbers:
        if key == one:
            integers.append(content)
        elif key == many:
            integers.extend(packed(content))
    if dtype.name == "bool":
        return bytes(map(bool, integers))
    # A stored number outside the type wraps instead of raising.
    mask = 2**dtype.n_bits - 1
    return b"".join([(number & mask).to_bytes(width, "little") for number in integers])
