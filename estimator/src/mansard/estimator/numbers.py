"""What small tensors hold, as the bytes that a file has them in.

Bytes compare, and stand in keys, as they are. NumPy is imported when numbers are first
computed with: that takes longer than scoring a usual network, which needs none of it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
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
    shape: tuple[int, ...]
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


def hold(dtype: ElementType, shape: tuple[int, ...], values: Iterable[object]) -> Numbers:
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
