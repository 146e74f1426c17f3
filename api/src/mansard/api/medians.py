"""Medians of what was measured, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec


class Median(msgspec.Struct, frozen=True):
    """The median of some runs and its interval at 95 %; None where they are too few."""

    value: float
    low: float | None
    high: float | None


def median_of(values: Sequence[float]) -> Median:
    """The median of at least one value."""
    from mansard.measuring.sampling import median_interval

    low, high = median_interval(values) or (None, None)
    return Median(median(values), low, high)
