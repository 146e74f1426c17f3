"""Which kernels ran which part of a network.

Where ranges name the nodes, they say it. Else kernels and parts are aligned in their order: a
product goes with a kernel of matrices of its work, padded to its tiles, anything else with a kernel
of its bytes. That is an inference, and is called so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import inf, log
from types import MappingProxyType
from typing import Literal

from mansard.analytics.counters.by_kernel import memory_of
from mansard.analytics.counters.estimates import Part
from mansard.analytics.counters.products import nearest_padding, tile_of
from mansard.core.records import KernelCounters

Matched = Literal["nodes", "order and size"]
_MATRIX = re.compile(
    r"gemm|gemv|fprop|conv(?!ert)|wgrad|dgrad|xmma|cutlass|winograd|fmha|implicit", re.I
)
_VECTOR = re.compile(r"internal::(?:gemvx::)?kernel<")  # cuBLAS's products with a vector
_HELPERS = re.compile(r"splitK_?reduce", re.I)


@dataclass(frozen=True)
class Matching:
    """``kernels``: rows of each part by its position, in one call; ``left``: those of none."""

    kernels: Mapping[int, tuple[KernelCounters, ...]]
    left: tuple[KernelCounters, ...]
    matched: Matched


def is_product(row: KernelCounters) -> bool:
    """Whether a kernel multiplies matrices, by its name or its instructions."""
    if _HELPERS.search(row.kernel):
        return False
    by_name = _MATRIX.search(row.kernel) or _VECTOR.search(row.kernel)
    return bool(by_name) or any(work.unit == "tensor core" for work in row.work)


def is_helper(row: KernelCounters) -> bool:
    """Whether a kernel only sums what the split parts of a product left."""
    return _HELPERS.search(row.kernel) is not None


_WORDS = MappingProxyType(  # in names of kernels, where they are not the operator's
    {"Concat": "cat", "Transpose": "copy", "ReduceSum": "reduce", "ReduceMean": "reduce"}
)
_NOT_NAMED = 0.1  # of two kernels that move as much, that with the operator's name is it


def match(parts: Sequence[Part], rows: Sequence[KernelCounters]) -> Matching:
    """The kernels of each part. ``rows``: all calls; a call that was counted last is aligned."""
    if any(row.nodes for row in rows):
        return _by_nodes(parts, rows)
    calls = [list(own) for _, own in groupby(rows, key=lambda row: row.iteration)]
    return _by_order(parts, calls[-1])


def _by_nodes(parts: Sequence[Part], rows: Sequence[KernelCounters]) -> Matching:
    part_of = {node: at for at, part in enumerate(parts) for node in part.nodes}
    found: dict[int, list[KernelCounters]] = {}
    left = []
    for row in rows:
        own = [part_of[node] for node in row.nodes or () if node in part_of]
        if own:
            # A kernel of several parts counts with that of most nodes, the first of equals.
            found.setdefault(max(own, key=own.count), []).append(row)
        else:
            left.append(row)
    return Matching({at: tuple(own) for at, own in found.items()}, tuple(left), "nodes")


_SKIP_PART, _SKIP_KERNEL = 1.0, 0.4
# How far counts may be off: a product whose tiles are known, one that is padded to tiles that no
# name says, and bytes, of which a cache may keep one direction.
_TILED, _UNTILED, _BYTES = log(3.0), log(64.0), log(2.5)


def _by_order(parts: Sequence[Part], rows: Sequence[KernelCounters]) -> Matching:
    """The cheapest alignment in order (Needleman and Wunsch, 1970), with helpers added."""
    own = [row for row in rows if not is_helper(row)]
    n_parts, n_rows = len(parts), len(own)
    best = [[0.0] * (n_rows + 1) for _ in range(n_parts + 1)]
    for i in range(n_parts - 1, -1, -1):
        best[i][n_rows] = best[i + 1][n_rows] + _SKIP_PART
    for j in range(n_rows - 1, -1, -1):
        best[n_parts][j] = best[n_parts][j + 1] + _SKIP_KERNEL
    costs = [[_cost(part, row) for row in own] for part in parts]
    for i in range(n_parts - 1, -1, -1):
        for j in range(n_rows - 1, -1, -1):
            best[i][j] = min(
                best[i + 1][j + 1] + costs[i][j],
                best[i + 1][j] + _SKIP_PART,
                best[i][j + 1] + _SKIP_KERNEL,
            )
    found: dict[int, list[KernelCounters]] = {}
    i = j = 0
    while i < n_parts and j < n_rows:
        if best[i][j] == best[i + 1][j + 1] + costs[i][j]:
            found[i] = [own[j]]
            i, j = i + 1, j + 1
        elif best[i][j] == best[i][j + 1] + _SKIP_KERNEL:
            j += 1
        else:
            i += 1
    _add_helpers(found, rows)
    taken = {row.index for each in found.values() for row in each}
    left = tuple(row for row in rows if row.index not in taken)
    return Matching({at: tuple(each) for at, each in found.items()}, left, "order and size")


def _add_helpers(found: dict[int, list[KernelCounters]], rows: Sequence[KernelCounters]) -> None:
    """The sums of a split product belong to the kernel before them."""
    part_of = {row.index: at for at, each in found.items() for row in each}
    for before, row in pairwise(rows):
        if is_helper(row) and before.index in part_of:
            found[part_of[before.index]].append(row)


def _cost(part: Part, row: KernelCounters) -> float:
    """How little a kernel looks like a part: 0 the same, infinite another kind or twice as much."""
    if bool(part.multiply_add_flop) != is_product(row):
        return inf
    return _size_gap(part, row) + (0.0 if _is_named(part, row) else _NOT_NAMED)


def _is_named(part: Part, row: KernelCounters) -> bool:
    """Whether a kernel has the name of an operator of the part."""
    name = row.kernel.casefold()
    words = (_WORDS.get(op_type, op_type.casefold()) for op_type in part.op_types)
    return any(word in name for word in words)


def _size_gap(part: Part, row: KernelCounters) -> float:
    if part.multiply_add_flop:
        counted = sum(work.flop for work in row.work)
        tile = tile_of(row.kernel)
        if not counted:
            return _bytes_gap(part, row)
        if part.product is None or tile is None:
            return _gap(counted, part.multiply_add_flop, _UNTILED)
        padded = nearest_padding(part.product, tile, row.grid, counted, 1)
        return _gap(counted, padded, _TILED)
    return _bytes_gap(part, row)


def _bytes_gap(part: Part, row: KernelCounters) -> float:
    memory = memory_of(row)
    pairs = (
        ("read_bytes", part.read_bytes),
        ("write_bytes", part.write_bytes),
        ("traffic_bytes", part.traffic_bytes),
    )
    gaps = [
        _gap(counted, expected, _BYTES)
        for name, expected in pairs
        if memory is not None
        and expected is not None
        and (counted := getattr(memory, name)) is not None
    ]
    return min(gaps, default=inf)


def _gap(counted: float, expected: float, most: float) -> float:
    """0 where both are the same, 1 where they are ``most`` apart, infinite beyond."""
    if not counted or not expected:
        return 0.0 if counted == expected else inf
    gap = abs(log(counted / expected)) / most
    return gap if gap <= 1 else inf
