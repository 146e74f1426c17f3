"""Why counters differ from an estimate, as far as kernels and shapes tell.

Each class is tried by what it predicts: padding by the FLOP of whole tiles, split sums by the bytes
of their partial results, unfused kernels by the bytes of nodes that run alone. What none of them
predicts is "not explained".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mansard.analytics.counters.estimates import Part
from mansard.analytics.counters.matching import is_helper
from mansard.analytics.counters.products import Product, nearest_padding, tile_of
from mansard.core.records import KernelCounters

AGREE = 0.05  # counted within so much of the estimate: no difference to explain
NOT_EXPLAINED = "not explained"
PADDING = "padding to tiles"
EPILOGUE = "scaling and bias of a product"
SEVERAL = "operations as several instructions"
WINOGRAD = "Winograd"
FOURIER = "Fourier transforms"
SPLIT = "split sums"
REFORMATS = "reformats"
UNFUSED = "not fused"
CACHE = "kept in the cache"
LAUNCH = "code and parameters of a kernel"
# Recorded kernels read 4 to 24 kB beside their tensors, the same whatever they work on.
_LAUNCH_BYTES = 25_000
_MOST_SPLITS = 16
_EPILOGUE_FLOP = 3.0  # for each output: alpha, beta and the bias
_WINOGRAD = re.compile(r"winograd", re.I)
_FOURIER = re.compile(r"fft", re.I)
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
    names = " ".join(row.kernel for row in rows)
    if _WINOGRAD.search(names) and counted_flop < expected:
        return (WINOGRAD,)
    if _FOURIER.search(names):
        return (FOURIER,)
    found = () if part.product is None else _of_product(part, part.product, rows, counted_flop)
    if not found and counted_flop > expected and not _has_other_sums(part, rows):
        found = (SEVERAL,)
    return found or (NOT_EXPLAINED,)


def _has_other_sums(part: Part, rows: Sequence[KernelCounters]) -> bool:
    """Whether matrix instructions did other work than the multiply-adds of the part."""
    if not part.multiply_add_flop:
        return False
    flop = sum(work.flop for row in rows for work in row.work if work.unit == "tensor core")
    return not flop or not is_near(flop, part.multiply_add_flop)


def _of_product(
    part: Part, product: Product, rows: Sequence[KernelCounters], counted_flop: float
) -> tuple[str, ...]:
    """What the tiles of the first kernel that fits make of a product; empty: not all of it."""
    is_split = any(is_helper(row) for row in rows)
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
    return (*own, SPLIT) if is_split and counted_flop > padded else ()


def traffic_classes(
    part: Part,
    rows: Sequence[KernelCounters],
    counted_bytes: float,
    *,
    cache_bytes: int | None,
    warm: bool,
) -> tuple[str, ...]:
    """The classes that explain ``counted_bytes``; empty where they agree with the estimate.

    ``cache_bytes``: the last-level cache; ``warm``: as ``Part.expected_bytes`` has it.
    """
    expected, alone = part.expected_bytes(warm=warm), part.bytes_alone
    if expected is None or is_near(counted_bytes, expected):
        return ()
    if counted_bytes < expected:
        fits = cache_bytes is not None and expected - counted_bytes <= cache_bytes
        return (CACHE,) if fits else (NOT_EXPLAINED,)
    found = []
    if any(is_helper(row) for row in rows):
        found.append(SPLIT)
    elif counted_bytes - expected <= _LAUNCH_BYTES * len(rows):
        return (LAUNCH,)
    if any(_REFORMAT.search(row.kernel) for row in rows) and len(rows) > 1:
        found.append(REFORMATS)
    if not found and len(rows) > 1 and alone is not None and counted_bytes <= alone * (1 + AGREE):
        found.append(UNFUSED)
    return tuple(found) or (NOT_EXPLAINED,)
