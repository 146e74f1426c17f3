"""What any network can do in another mode, known from one measurement alone.

A time is a sum of parts that are each proportional to 1 / some clock, or the same everywhere, or
the longer of two such parts. Whatever their weights, from one mode to another the sum grows by no
more than the part that grows most, and by no less than the part that grows least. A power is such
a sum too, of the parts in ``network_terms``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.scaling.network_terms import (
    SETTINGS,
    Array,
    evaluate,
    power_basis,
    setting_values,
    time_basis,
)


def latency_bounds(
    measured: pl.DataFrame, values: Mapping[str, Array], n_modes: int
) -> tuple[Array, Array, Array]:
    """Geometric middle, least and most seconds of a network in the modes of ``values``.

    ``measured``: rows with SETTINGS and ``latency_s``. NaN where no measured mode names the same
    settings.
    """
    low, high = np.full(n_modes, math.nan), np.full(n_modes, math.nan)
    for row, alike, together in _beside(measured, values):
        growth = _growth(evaluate(time_basis(together, 1.0), together))
        low[alike] = np.fmax(low[alike], row["latency_s"] * growth.min(axis=1))
        high[alike] = np.fmin(high[alike], row["latency_s"] * growth.max(axis=1))
    # Two measurements contradict each other by their noise: the ends may cross by as much.
    low, high = np.minimum(low, high), np.maximum(low, high)
    return np.sqrt(low * high), low, high


def least_power_w(measured: pl.DataFrame, values: Mapping[str, Array], n_modes: int) -> Array:
    """The least power of a network in the modes of ``values``, W; 0 where nothing bounds it.

    ``measured``: rows with SETTINGS and ``power_w``, null where it was not metered.
    """
    least = np.zeros(n_modes)
    metered = measured.filter(pl.col("power_w").is_not_null())
    for row, alike, together in _beside(metered, values):
        slowing = _growth(evaluate(time_basis(together, 1.0), together)).max(axis=1)
        rate = np.concatenate([[1.0], 1 / slowing])
        growth = _growth(evaluate(power_basis(together, "clocks and work"), together, rate))
        least[alike] = np.maximum(least[alike], row["power_w"] * growth.min(axis=1))
    return least


def _beside(
    measured: pl.DataFrame, values: Mapping[str, Array]
) -> Iterator[tuple[dict[str, float], NDArray[np.int64], dict[str, Array]]]:
    """Each measured row, the modes that name the same settings as it does, and both together.

    A setting that neither names is taken to be the same in both; one that only one of them names
    leaves nothing to compare.
    """
    known = setting_values(measured)
    for at, row in enumerate(measured.select("latency_s", "power_w").iter_rows(named=True)):
        same = [np.isnan(values[name]) == np.isnan(known[name][at]) for name in SETTINGS]
        alike = np.flatnonzero(np.logical_and.reduce(same))
        if alike.size:
            first = slice(at, at + 1)
            yield (
                row,
                alike,
                {
                    name: np.concatenate([known[name][first], values[name][alike]])
                    for name in SETTINGS
                },
            )


def _growth(terms: Array) -> Array:
    """Each term of each mode over that of the first row."""
    return np.asarray(terms[1:] / terms[0], dtype=np.float64)
