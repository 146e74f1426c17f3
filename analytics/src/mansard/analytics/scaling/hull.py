"""The clocks of modes as columns of numbers, and which modes lie outside those of others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.scaling.laws import Columns, Law

CLOCKS = ("gpu_hz", "memory_hz", "cpu_hz", "n_sms", "n_cpus")
_SAME = 0.005  # clocks as requested and as read back differ by less


def columns_of(modes: pl.DataFrame) -> Columns:
    """The clocks and counts of a frame of MODE_SCHEMA; NaN where one is unknown or not above 0."""
    return {
        name: modes.select(
            pl.when(pl.col(name) > 0).then(pl.col(name).cast(pl.Float64)).fill_null(np.nan)
        )
        .to_series()
        .to_numpy()
        for name in CLOCKS
    }


def known_columns(columns: Columns) -> frozenset[str]:
    """Those that most modes know."""
    return frozenset(
        name for name, values in columns.items() if 2 * np.isfinite(values).sum() > len(values)
    )


def varied_columns(columns: Columns) -> frozenset[str]:
    """Those that differ between modes by more than rounding; unknown ones are left aside."""
    return frozenset(
        name
        for name, values in columns.items()
        if (seen := values[np.isfinite(values)]).size and np.ptp(seen) > _SAME * seen.max()
    )


def columns_in(laws: Sequence[Law]) -> frozenset[str]:
    """The columns that laws are made of."""
    return frozenset(name for law in laws for each in law.monomials for name, _ in each.powers)


def is_outside(wanted: Columns, fitted: Columns, names: frozenset[str]) -> NDArray[np.bool_]:
    """Which wanted modes lie outside the box that the fitted ones span in ``names``.

    A mode that does not know a column which they do is outside; where they do not know it
    either, it says nothing. The box of few modes is wider than their convex hull: a mode inside
    it may still lie in a corner that none was near.
    """
    n_modes = max((len(values) for values in wanted.values()), default=0)
    outside = np.zeros(n_modes, dtype=np.bool_)
    for name in names:
        seen = fitted[name][np.isfinite(fitted[name])]
        if seen.size:
            low, high = seen.min() * (1 - _SAME), seen.max() * (1 + _SAME)
            outside |= ~((wanted[name] >= low) & (wanted[name] <= high))
    return outside
