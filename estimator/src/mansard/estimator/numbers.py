"""ONNX's element types, and the numbers of small tensors as the file's bytes.

Bytes compare, and serve as keys, as they are. NumPy is imported only where an operator
needs it: that takes longer than scoring a usual network.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from mansard.core.precision import PRECISIONS, Precision


class ElementType(msgspec.Struct, frozen=True):
    """One value of ONNX's ``TensorProto.DataType``. ``n_bits`` is the stored width."""

    name: str
    code: int
    n_bits: int
    is_float: bool
    precision: str  # the name in mansard.core.precision where there is one, else ``name``

    def width_bits(self, precision: Precision | None) -> int:
        """Bits of an element; ``precision`` replaces floating formats only."""
        return precision.n_bits if precision is not None and self.is_float else self.n_bits

    def size_bytes(self, n_elements: int, precision: Precision | None) -> int:
        """Bytes of ``n_elements``, rounded up to a whole byte."""
        return (n_elements * self.width_bits(precision) + 7) // 8


# Codes and widths: onnx.proto, message TensorProto, enum DataType. Strings have no
# width of their own and count as 0 bytes; complex numbers count as two floats.
_TABLE = (
    ("float32", 1, 32, True, "fp32"),
    ("uint8", 2, 8, False, "int8"),
    ("int8", 3, 8, False, "int8"),
    ("uint16", 4, 16, False, "uint16"),
    ("int16", 5, 16, False, "int16"),
    ("int32", 6, 32, False, "int32"),
    ("int64", 7, 64, False, "int64"),
    ("string", 8, 0, False, "string"),
    ("bool", 9, 8, False, "bool"),
    ("float16", 10, 16, True, "fp16"),
    ("float64", 11, 64, True, "fp64"),
    ("uint32", 12, 32, False, "uint32"),
    ("uint64", 13, 64, False, "uint64"),
    ("complex64", 14, 64, False, "complex64"),
    ("complex128", 15, 128, False, "complex128"),
    ("bfloat16", 16, 16, True, "bf16"),
    ("float8e4m3fn", 17, 8, True, "fp8"),
    ("float8e4m3fnuz", 18, 8, True, "fp8"),
    ("float8e5m2", 19, 8, True, "fp8"),
    ("float8e5m2fnuz", 20, 8, True, "fp8"),
    ("uint4", 21, 4, False, "int4"),
    ("int4", 22, 4, False, "int4"),
    ("float4e2m1", 23, 4, True, "float4e2m1"),
    ("float8e8m0", 24, 8, True, "fp8"),
    ("uint2", 25, 2, False, "uint2"),
    ("int2", 26, 2, False, "int2"),
    ("float6e2m3", 27, 6, True, "float6e2m3"),
    ("float6e3m2", 28, 6, True, "float6e3m2"),
)

ELEMENT_TYPES = MappingProxyType({row[0]: ElementType(*row) for row in _TABLE})
BY_CODE = MappingProxyType({dtype.code: dtype for dtype in ELEMENT_TYPES.values()})
# The names of the enumeration, which the first versions of Cast use.
BY_PROTO_NAME = MappingProxyType(
    {
        {"float32": "FLOAT", "float64": "DOUBLE"}.get(name, name.upper()): dtype
        for name, dtype in ELEMENT_TYPES.items()
    }
)

FLOAT32 = ELEMENT_TYPES["float32"]
FLOAT64 = ELEMENT_TYPES["float64"]
FLOAT16 = ELEMENT_TYPES["float16"]
UINT8 = ELEMENT_TYPES["uint8"]
INT32 = ELEMENT_TYPES["int32"]
INT64 = ELEMENT_TYPES["int64"]
STRING = ELEMENT_TYPES["string"]
BOOL = ELEMENT_TYPES["bool"]

assert {row[4] for row in _TABLE if row[4].startswith(("fp", "bf"))} <= PRECISIONS.keys()  # noqa: S101


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]
else:
    Array = Any

Shape = tuple[int, ...]

# Elements of a tensor whose value is kept, at most.
MAX_INTEGERS = 4096  # window indices of a vision transformer fit, an embedding table does not
MAX_FLOATS = 16  # scales of a Resize, and the arithmetic on them

# How the struct module calls each element type that has numbers.
_CODES = MappingProxyType(
    {"bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i"}
    | {"uint32": "I", "int64": "q", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d"}
)


def has_numbers(dtype: ElementType) -> bool:
    """Whether elements of this type can be held as numbers."""
    return dtype.name in _CODES


class Numbers(msgspec.Struct, frozen=True, gc=False):
    """The elements of a tensor: little-endian, the last axis first, as ONNX stores them."""

    dtype: ElementType
    shape: Shape
    data: bytes

    @property
    def n_elements(self) -> int:
        return math.prod(self.shape)

    @property
    def flat(self) -> tuple[Any, ...]:
        """All elements as Python's numbers."""
        return struct.unpack(f"<{self.n_elements}{_CODES[self.dtype.name]}", self.data)

    @property
    def first(self) -> Any:
        """The first element; IndexError where there is none."""
        return self.flat[0]

    @property
    def array(self) -> Array:
        """For NumPy, read only."""
        import numpy as np

        return np.frombuffer(self.data, _kind(self.dtype.name)).reshape(self.shape)


def hold(dtype: ElementType, shape: Shape, values: Iterable[object]) -> Numbers:
    """Python's numbers as elements of ``dtype``; OverflowError where one does not fit."""
    numbers = tuple(values)
    try:
        data = struct.pack(f"<{len(numbers)}{_CODES[dtype.name]}", *numbers)
    except struct.error as error:
        raise OverflowError(f"{error}") from error
    return Numbers(dtype, shape, data)


def hold_array(dtype: ElementType, array: object) -> Numbers:
    """An array, converted to ``dtype`` as NumPy does it."""
    import numpy as np

    data = np.asarray(array)
    return Numbers(dtype, data.shape, data.astype(_kind(dtype.name), copy=False).tobytes())


@cache
def _kind(name: str) -> np.dtype[Any]:
    import numpy as np

    kind: np.dtype[Any] = np.dtype(name).newbyteorder("<")
    return kind


def may_keep(dtype: ElementType, n_elements: int) -> bool:
    """Whether a tensor is small enough for its value to be kept."""
    if dtype.name == "string":
        return False
    return n_elements <= (MAX_FLOATS if dtype.is_float else MAX_INTEGERS)


def strides_of(shape: Shape) -> list[int]:
    """The strides of each axis in elements; that of the last axis is 1."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def offsets(shape: Sequence[int], strides: Sequence[int], start: int = 0) -> list[int]:
    """The offset of each element (i, j, …): start + Σ i · stride, the last axis first."""
    positions = [start]
    for size, stride in zip(shape, strides, strict=True):
        steps = range(0, size * stride, stride) if stride else [0] * size
        positions = [offset + step for offset in positions for step in steps]
    return positions


def pick(held: Numbers, shape: Shape, chosen: Iterable[int]) -> Numbers:
    """The elements at these offsets, as a tensor of ``shape``."""
    data, width = held.data, held.dtype.n_bits // 8
    parts = [data[i * width : (i + 1) * width] for i in chosen]
    return Numbers(held.dtype, shape, b"".join(parts))


def broadcast(held: Numbers, shape: Shape) -> Numbers:
    """``held`` with every axis of size 1 repeated as often as ``shape`` has it."""
    if held.shape == shape:
        return held
    missing = len(shape) - len(held.shape)
    strides = [
        0 if size == 1 else stride
        for size, stride in zip(held.shape, strides_of(held.shape), strict=True)
    ]
    return pick(held, shape, offsets(shape, [0] * missing + strides))


def joined(parts: Sequence[Numbers], shape: Shape, axis: int) -> Numbers:
    """``parts`` concatenated along ``axis`` of ``shape``, an axis of theirs or a new one."""
    n_rows = math.prod(shape[:axis])
    lengths = [len(part.data) // n_rows if n_rows else 0 for part in parts]
    rows = [
        part.data[row * length : (row + 1) * length]
        for row in range(n_rows)
        for part, length in zip(parts, lengths, strict=True)
    ]
    return Numbers(parts[0].dtype, shape, b"".join(rows))


def cut(whole: Numbers, sizes: Sequence[int], axis: int) -> list[Numbers]:
    """``whole`` split into parts of these sizes along ``axis``."""
    strides, parts, start = strides_of(whole.shape), [], 0
    for size in sizes:
        shape = (*whole.shape[:axis], size, *whole.shape[axis + 1 :])
        parts.append(pick(whole, shape, offsets(shape, strides, start * strides[axis])))
        start += size
    return parts
