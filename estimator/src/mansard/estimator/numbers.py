"""What small tensors hold, as the bytes that a file has them in, and how these are moved.

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

from mansard.estimator.element_types import ElementType

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
    found = tuple(values)
    try:
        data = struct.pack(f"<{len(found)}{_CODES[dtype.name]}", *found)
    except struct.error as error:
        raise OverflowError(f"{error}") from error
    return Numbers(dtype, shape, data)


def hold_array(dtype: ElementType, array: object) -> Numbers:
    """An array, converted to ``dtype`` as NumPy does it."""
    import numpy as np

    found = np.asarray(array)
    return Numbers(dtype, found.shape, found.astype(_kind(dtype.name), copy=False).tobytes())


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
    """How far apart neighbours along each axis are, in elements; the last axis lies closest."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def offsets(shape: Sequence[int], strides: Sequence[int], start: int = 0) -> list[int]:
    """The offset of each element (i, j, …): start + Σ i · stride, the last axis first."""
    found = [start]
    for size, stride in zip(shape, strides, strict=True):
        steps = range(0, size * stride, stride) if stride else [0] * size
        found = [offset + step for offset in found for step in steps]
    return found


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
    """``parts`` one after the other along ``axis`` of ``shape``: theirs, or a new one."""
    n_rows = math.prod(shape[:axis])
    lengths = [len(part.data) // n_rows if n_rows else 0 for part in parts]
    rows = [
        part.data[row * length : (row + 1) * length]
        for row in range(n_rows)
        for part, length in zip(parts, lengths, strict=True)
    ]
    return Numbers(parts[0].dtype, shape, b"".join(rows))


def cut(whole: Numbers, sizes: Sequence[int], axis: int) -> list[Numbers]:
    """``whole`` in parts of these sizes along ``axis``."""
    strides, parts, start = strides_of(whole.shape), [], 0
    for size in sizes:
        shape = (*whole.shape[:axis], size, *whole.shape[axis + 1 :])
        parts.append(pick(whole, shape, offsets(shape, strides, start * strides[axis])))
        start += size
    return parts
