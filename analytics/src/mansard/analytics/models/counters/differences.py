"""Why counters differ from an estimate, as far as kernels and shapes tell.

Each class has a bound, or predicts the count: padding the FLOP of whole tiles, split sums the bytes
of their partial results, unfused kernels the bytes of nodes that run alone. What none of them
allows is "not explained".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mansard.analytics.models.counters.by_kernel import memory_of, total
from mansard.analytics.models.counters.estimates import Part
from mansard.analytics.models.counters.matching import is_split_sum
from mansard.analytics.models.counters.products import Product, nearest_padding, splits_of, tile_of
from mansard.core.records import KernelCounters

AGREE = 0.05  # counted within so much of the estimate: no difference to explain
NOT_EXPLAINED = "not explained"
PADDING = "padding to tiles"
EPILOGUE = "scaling and bias of a product"
SEVERAL = "operations as several instructions"
WINOGRAD = "Winograd"
SPLIT = "split sums"
REFORMATS = "reformats"
UNFUSED = "not fused"
CACHE = "kept in the cache"
FUSED = "fused further"
LAUNCH = "code and parameters of a kernel"
# Recorded kernels read 4 to 24 kB beside their tensors, the same whatever they work on.
_LAUNCH_BYTES = 25_000
_MOST_SPLITS = 16
_EPILOGUE_FLOP = 3.0  # for each output: alpha, beta and the bias
_PARTIAL_BYTES = 4  # of a partial sum
# Recorded kernels of elementwise operations have 1 to 9 instructions' FLOP for one of ours.
_MOST_FLOP = 16.0
# Lavin and Gray (CVPR 2016): F(6×6, 3×3) does 64 multiplications instead of 324.
_MOST_SAVED = 324 / 64
_WINOGRAD = re.compile(r"winograd", re.I)
_REFORMAT = re.compile(r"reformat|nchwtonhwc|nhwctonchw|transpose|permut|copy", re.I)


def is_near(counted: float, expected: float, share: float = AGREE) -> bool:
    """Whether a count agrees with what is expected."""
    return abs(counted - expected) <= share * expected


def work_classes(
    part: Part, rows: Sequence[KernelCounters], counted_flop: float
) -> tuple[str, ...]:
    """The classes that explain ``counted_flop``; empty where it agrees with the estimate."""
    expected = part.work_flop
    if expected is None or is_near(counted_flop, expected):
        return ()
    is_winograd = any(_WINOGRAD.search(row.kernel) for row in rows)
    if is_winograd and expected / _MOST_SAVED <= counted_flop < expected:
        return (WINOGRAD,)
    found = () if part.product is None else _of_product(part, part.product, rows, counted_flop)
    if not found and _is_several(part, rows, counted_flop):
        found = (SEVERAL,)
    return found or (NOT_EXPLAINED,)


def _is_several(part: Part, rows: Sequence[KernelCounters], counted_flop: float) -> bool:
    """Whether the operations beside the multiply-adds have more FLOP, and these agree."""
    sums = part.multiply_add_flop or 0.0
    if sums:
        flop = sum(work.flop for row in rows for work in row.work if work.unit == "tensor core")
        if not is_near(flop, sums):
            return False
    others = (part.work_flop or 0.0) - sums
    return others < counted_flop - sums <= _MOST_FLOP * others


def _of_product(
    part: Part, product: Product, rows: Sequence[KernelCounters], counted_flop: float
) -> tuple[str, ...]:
    """What the tiles of the first kernel that fits make of a product; empty: not all of it."""
    is_split = any(is_split_sum(row) for row in rows)
    padded = next(
        (
            nearest_padding(product, tile, row.grid, counted_flop, _MOST_SPLITS if is_split else 1)
            for row in rows
            if (tile := tile_of(row.kernel))
        ),
        product.flop,
    )
    beside = (part.work_flop or product.flop) - product.flop
    own = (PADDING,) if padded > product.flop * (1 + AGREE / 2) else ()
    if is_near(counted_flop, padded + beside):
        return own
    epilogue = _EPILOGUE_FLOP * padded / (2 * product.length)
    if padded < counted_flop <= (padded + beside + epilogue) * (1 + AGREE):
        return (*own, EPILOGUE)
    partial = _n_splits(product, rows) * product.outputs
    fits = padded < counted_flop <= (padded + beside + epilogue + partial) * (1 + AGREE)
    return (*own, SPLIT) if is_split and fits else ()


def _n_splits(product: Product, rows: Sequence[KernelCounters]) -> int:
    """In how many parts the sums are split, by tile and grid; as many as usual at most."""
    found = [
        splits_of(product, tile, row.grid)
        for row in rows
        if row.grid is not None and (tile := tile_of(row.kernel))
    ]
    return max((n for n in found if n and n > 1), default=_MOST_SPLITS)


def traffic_classes(
    part: Part,
    rows: Sequence[KernelCounters],
    counted_bytes: float,
    *,
    calls: int = 1,
    cache_bytes: int | None = None,
) -> tuple[str, ...]:
    """The classes that explain ``counted_bytes``; empty where they agree with the estimate.

    ``rows``: the kernels of ``calls`` calls; ``cache_bytes``: the last-level cache.
    """
    expected = part.traffic_bytes
    if expected is None or is_near(counted_bytes, expected):
        return ()
    slack = AGREE * expected
    if counted_bytes < expected:
        missing = expected - counted_bytes - slack
        if missing <= part.between_bytes:
            return (FUSED,)
        # Caches were emptied, so only what is written can stay there.
        kept = min(part.write_bytes or 0.0, cache_bytes or 0)
        return (CACHE,) if missing <= kept and _reads_all(part, rows, calls) else (NOT_EXPLAINED,)
    n_kernels = len(rows) / calls
    bounds = {LAUNCH: 0.0}
    if part.product is not None and any(is_split_sum(row) for row in rows):
        partial = _n_splits(part.product, rows) * part.product.outputs * _PARTIAL_BYTES
        bounds[SPLIT] = 2.0 * partial  # written, and read
    if n_kernels > 1:
        copies = [memory_of(row) for row in rows if _REFORMAT.search(row.kernel)]
        bounds[REFORMATS] = sum(each.traffic_bytes or 0 for each in copies if each) / calls
        bounds[UNFUSED] = (part.bytes_alone or expected) - expected
    extra = counted_bytes - expected - slack - _LAUNCH_BYTES * n_kernels
    for names in ((SPLIT,), (LAUNCH,), (REFORMATS,), (UNFUSED,), (SPLIT, REFORMATS)):
        if all(name in bounds for name in names) and extra <= sum(bounds[name] for name in names):
            return names
    return (NOT_EXPLAINED,)


def _reads_all(part: Part, rows: Sequence[KernelCounters], calls: int) -> bool:
    """Whether the kernels read as much as estimated, as far as reads were counted apart."""
    memory = [memory_of(row) for row in rows]
    read = total((each.read_bytes if each else None for each in memory), rows)
    return read is None or read / calls >= (1 - AGREE) * (part.read_bytes or 0)
