"""Numbers seen otherwise: broadcast, cut, transposed, picked. Nothing is computed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from mansard.estimator.numbers import Numbers

Shape = tuple[int, ...]


def strides_of(shape: Shape) -> list[int]:
    """How far apart neighbours along each axis are, in elements; the last axis lies closest."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def places(shape: Sequence[int], strides: Sequence[int], start: int = 0) -> list[int]:
    """Where element (i, j, …) stands: start + Σ i · stride, the last axis first."""
    found = [start]
    for size, stride in zip(shape, strides, strict=True):
        steps = range(0, size * stride, stride) if stride else [0] * size
        found = [place + step for place in found for step in steps]
    return found


def pick(held: Numbers, shape: Shape, chosen: Iterable[int]) -> Numbers:
    """The elements at these places, as a tensor of ``shape``."""
    data, width = held.data, held.dtype.n_bits // 8
    parts = [data[place * width : (place + 1) * width] for place in chosen]
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
    return pick(held, shape, places(shape, [0] * missing + strides))


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
        parts.append(pick(whole, shape, places(shape, strides, start * strides[axis])))
        start += size
    return parts
