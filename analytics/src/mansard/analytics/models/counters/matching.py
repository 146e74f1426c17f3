"""Which kernels ran which part of a network.

Where ranges name the nodes, they say it. Else kernels and parts are aligned in their order: a
product goes with a kernel of matrices of its work, padded to its tiles, anything else with a kernel
of its bytes. That is an inference, and is called so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isclose, log
from types import MappingProxyType
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.models.counters.by_kernel import memory_of
from mansard.analytics.models.counters.estimates import (
    EstimatePart,
    joined,
    nearest_padding,
    splits_of,
    tile_of,
)
from mansard.core.records import KernelCounters

FloatArray: TypeAlias = NDArray[np.float64]
Matched = Literal["nodes", "order and size", "nothing"]
_MATRIX = re.compile(
    r"gemm|gemv|fprop|conv(?!ert)|wgrad|dgrad|xmma|cutlass|winograd|fmha|implicit", re.I
)
_VECTOR = re.compile(r"internal::(?:gemvx::)?kernel<")  # cuBLAS's products with a vector
_SPLIT_SUMS = re.compile(r"splitK_?reduce", re.I)


@dataclass(frozen=True)
class Matching:
    """``kernels``: rows of each of ``parts`` by its position; ``left``: those of none.

    By nodes they are of all calls, else of one. ``why``: nothing was joined.
    """

    parts: tuple[EstimatePart, ...]
    kernels: Mapping[int, tuple[KernelCounters, ...]]
    left: tuple[KernelCounters, ...]
    matched: Matched
    why: str = ""


def is_product(row: KernelCounters) -> bool:
    """Whether a kernel multiplies matrices, by its name or its instructions."""
    if _SPLIT_SUMS.search(row.kernel):
        return False
    by_name = _MATRIX.search(row.kernel) or _VECTOR.search(row.kernel)
    return bool(by_name) or any(work.unit == "tensor core" for work in row.work)


def is_split_sum(row: KernelCounters) -> bool:
    """Whether a kernel only sums what the split parts of a product left."""
    return _SPLIT_SUMS.search(row.kernel) is not None


_WORDS = MappingProxyType(  # in names of kernels, where they are not the operator's
    {"Concat": "cat", "Transpose": "copy", "ReduceSum": "reduce", "ReduceMean": "reduce"}
)
_OTHER_GRID = 0.2  # a grid that is not one of the product's tiles; some are rounded up in blocks
_NOT_NAMED = 0.1  # of two kernels that move as much, that with the operator's name is it


def match(
    parts: Sequence[EstimatePart], rows: Sequence[KernelCounters], calls: int = 1
) -> Matching:
    """The kernels of each part. ``rows``: all ``calls``; by order the last of them is aligned."""
    if any(row.nodes for row in rows):
        return _by_nodes(parts, rows)
    last = max((row.iteration for row in rows if row.iteration is not None), default=None)
    last_rows = [row for row in rows if row.iteration == last]
    if any(row.n_launches > 1 for row in rows):
        why = "sums by kernel have no order of launches"
    elif last is None and calls > 1:
        why = "the calls launched different kernels"
    elif len(parts) * len(last_rows) > _MOST_CELLS:
        why = f"{len(parts):,} layers and {len(last_rows):,} kernels are too many to align"
    else:
        return _by_order(parts, last_rows)
    return Matching(tuple(parts), {}, tuple(rows), "nothing", why)


def _by_nodes(parts: Sequence[EstimatePart], rows: Sequence[KernelCounters]) -> Matching:
    """Parts whose nodes one kernel ran, or one range, become one part."""
    part_of = {node: at for at, part in enumerate(parts) for node in part.nodes}
    first = list(range(len(parts)))  # the first of the parts that each is joined to

    def root(at: int) -> int:
        while first[at] != at:
            at = first[at]
        return at

    row_parts = [[part_of[node] for node in row.nodes or () if node in part_of] for row in rows]
    for of_row in row_parts:
        for one, other in pairwise(of_row):
            before, after = sorted((root(one), root(other)))
            first[after] = before
    members: dict[int, list[EstimatePart]] = {}
    for at, part in enumerate(parts):
        members.setdefault(root(at), []).append(part)
    position = {at: number for number, at in enumerate(members)}
    by_part: dict[int, list[KernelCounters]] = {}
    left: list[KernelCounters] = []
    for row, of_row in zip(rows, row_parts, strict=True):
        (by_part.setdefault(position[root(of_row[0])], []) if of_row else left).append(row)
    kernels = {at: tuple(of_part) for at, of_part in by_part.items()}
    return Matching(tuple(map(joined, members.values())), kernels, tuple(left), "nodes")


_SKIP_PART, _SKIP_KERNEL = 1.0, 0.4
# How far counts may be off: a product whose tiles are known, one that is padded to tiles that no
# name says, and bytes, of which a cache may keep one direction.
_TILED, _UNTILED, _BYTES = log(3.0), log(64.0), log(2.5)
_MOST_CELLS = 20_000_000  # parts × kernels; the largest network of the zoo has 4 million


def _by_order(parts: Sequence[EstimatePart], rows: Sequence[KernelCounters]) -> Matching:
    """The cheapest alignment in order (Needleman and Wunsch, 1970), and the sums of split products.

    ``best[i, j]`` is the least cost of the parts from i and the kernels from j on.
    """
    whole_rows = [row for row in rows if not is_split_sum(row)]
    n_parts, n_rows = len(parts), len(whole_rows)
    costs = _costs(parts, whole_rows)
    skipped = _SKIP_KERNEL * np.arange(n_rows + 1)
    best = np.empty((n_parts + 1, n_rows + 1))
    best[n_parts] = skipped[::-1]
    for i in range(n_parts - 1, -1, -1):
        without = best[i + 1] + _SKIP_PART
        without[:-1] = np.minimum(without[:-1], best[i + 1, 1:] + costs[i])
        # Kernels that are skipped before the next choice: a running minimum from the right.
        best[i] = np.minimum.accumulate((without + skipped)[::-1])[::-1] - skipped
    by_part: dict[int, list[KernelCounters]] = {}
    i = j = 0
    while i < n_parts and j < n_rows:
        if isclose(best[i, j], best[i + 1, j + 1] + costs[i, j]):
            by_part[i] = [whole_rows[j]]
            i, j = i + 1, j + 1
        elif isclose(best[i, j], best[i, j + 1] + _SKIP_KERNEL):
            j += 1
        else:
            i += 1
    _add_split_sums(by_part, rows)
    taken = {row.index for of_part in by_part.values() for row in of_part}
    left = tuple(row for row in rows if row.index not in taken)
    kernels = {at: tuple(of_part) for at, of_part in by_part.items()}
    return Matching(tuple(parts), kernels, left, "order and size")


def _add_split_sums(
    by_part: dict[int, list[KernelCounters]], rows: Sequence[KernelCounters]
) -> None:
    """The sums of a split product belong to the kernel before them."""
    part_of = {row.index: at for at, of_part in by_part.items() for row in of_part}
    for before, row in pairwise(rows):
        if is_split_sum(row) and before.index in part_of:
            by_part[part_of[before.index]].append(row)


def _costs(parts: Sequence[EstimatePart], rows: Sequence[KernelCounters]) -> FloatArray:
    """What it costs to join each kernel to each part: 0 as estimated, infinite another kind."""
    products = np.array([is_product(row) for row in rows], dtype=bool)
    names = [row.kernel.casefold() for row in rows]
    memory = _memory(rows)
    named: dict[str, FloatArray] = {}
    costs = np.full((len(parts), len(rows)), inf)
    for at, part in enumerate(parts):
        words = [_WORDS.get(op_type, op_type.casefold()) for op_type in part.op_types]
        for word in words:
            if word not in named:
                named[word] = np.array([word in name for name in names], dtype=bool)
        is_named = np.any([named[word] for word in words], axis=0)
        gaps = _bytes_gaps(part, memory)
        if part.multiply_add_flop:
            for j in np.flatnonzero(products):
                gap = _work_gap(part, rows[int(j)])
                gaps[j] = gaps[j] if gap is None else gap
        gaps[products != bool(part.multiply_add_flop)] = inf
        costs[at] = gaps + np.where(is_named, 0.0, _NOT_NAMED)
    return costs


_WAYS = ("read_bytes", "write_bytes", "traffic_bytes")


def _memory(rows: Sequence[KernelCounters]) -> FloatArray:
    """Bytes by direction and kernel; NaN where they were not counted."""
    traffic = [memory_of(row) for row in rows]
    values = [[getattr(of_row, way, None) for of_row in traffic] for way in _WAYS]
    return np.array(values, dtype=float).reshape(len(_WAYS), len(rows))


def _bytes_gaps(part: EstimatePart, memory: FloatArray) -> FloatArray:
    """The smallest of the gaps of the directions that are known."""
    expected = np.array([[getattr(part, way)] for way in _WAYS], dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.abs(np.log(memory / expected)) / _BYTES
    gaps[(memory == 0) & (expected == 0)] = 0.0
    gaps[~(gaps <= 1)] = inf
    return cast("FloatArray", gaps.min(axis=0))


def _work_gap(part: EstimatePart, row: KernelCounters) -> float | None:
    """0 where a kernel did the work of a product in whole tiles; None where it was not counted."""
    counted = sum(work.flop for work in row.work)
    if not counted or not part.multiply_add_flop:
        return None
    tile = tile_of(row.kernel)
    if part.product is None or tile is None:
        gap = abs(log(counted / part.multiply_add_flop)) / _UNTILED
    else:
        padded = nearest_padding(part.product, tile, row.grid, counted, 1)
        gap = abs(log(counted / padded)) / _TILED
        if row.grid is not None and splits_of(part.product, tile, row.grid) is None:
            gap += _OTHER_GRID
    return gap if gap <= 1 else inf
