"""When to stop sampling: distribution-free statistics of block medians.

Samples close in time share their disturbances, so they are no independent draws; the
medians of blocks that lie apart in time nearly are. Their own median is bracketed by
order statistics, which needs no assumption about the shape of the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median

CONFIDENCE = 0.95


def block_medians(seconds_s: Sequence[float], blocks: Sequence[int]) -> tuple[float, ...]:
    """The median of each block that has samples, in the order the blocks first appear."""
    by_block: dict[int, list[float]] = {}
    for value, block in zip(seconds_s, blocks, strict=True):
        by_block.setdefault(block, []).append(value)
    return tuple(median(values) for values in by_block.values())


def interval_rank(n_values: int, confidence: float = CONFIDENCE) -> int | None:
    """The rank k for which [x(k), x(n+1-k)] holds the median with at least ``confidence``.

    The number of values below the median is binomial(n, 1/2), so the interval misses
    with probability 2·P(fewer than k below). None where even the extremes miss too
    often, which is below six values at 95 %.
    """
    missed, rank = 0, 0
    while rank < n_values:
        missed += 2 * comb(n_values, rank)
        if missed > (1 - confidence) * 2**n_values:
            break
        rank += 1
    return rank or None


def median_interval(
    values: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Lower and upper end of the interval of the median; None for too few values."""
    rank = interval_rank(len(values), confidence)
    if rank is None:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[-rank]


def relative_half_width(values: Sequence[float], confidence: float = CONFIDENCE) -> float | None:
    """Half the width of the interval over the median; None for too few values."""
    interval = median_interval(values, confidence)
    if interval is None:
        return None
    low, high = interval
    return (high - low) / 2 / median(values)
