"""What any network can take in a mode, by what it took in others.

A time is a sum of parts that are each proportional to 1 / some clock, or the same everywhere, or
the longer of two such parts; a power and an energy are such sums of other parts. Whatever their
weights, a sum grows from one mode to another by no more than the part that grows most, and by no
less than the part that grows least. Every measured mode gives two ends; the narrowest hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.scaling.network_terms import SETTINGS, Array, setting_values

# Exponents of settings in the parts of a time, and of what draws power beside the work itself.
_TIME_PARTS: tuple[Mapping[str, float], ...] = (
    {},
    {"gpu_hz": -1, "n_sms": -1},
    {"gpu_hz": -1},
    {"memory_hz": -1},
    {"cpu_hz": -1},
    {"cpu_hz": -1, "n_cpus": -1},
)
_POWER_PARTS: tuple[Mapping[str, float], ...] = (
    {},
    {"gpu_hz": 1, "n_sms": 1},
    {"gpu_hz": 3, "n_sms": 1},
    {"memory_hz": 1},
    {"cpu_hz": 1, "n_cpus": 1},
    {"cpu_hz": 3, "n_cpus": 1},
)
_WORK_PARTS: tuple[Mapping[str, float], ...] = ({}, {"gpu_hz": 2}, {"cpu_hz": 2})
_SAME = 1e-3
_CLOCKS = tuple(name for name in SETTINGS if name != "power_limit_w")


@dataclass(frozen=True, eq=False)
class NetworkBounds:
    """The least and the most of each mode, NaN where nothing bounds it: s, W and J."""

    latency_s: tuple[Array, Array]
    power_w: tuple[Array, Array]
    energy_j: tuple[Array, Array]


def network_bounds(
    measured: pl.DataFrame, values: Mapping[str, Array], margin: float = 0.0
) -> NetworkBounds:
    """Bounds in the modes of ``values`` from ``measured``: SETTINGS, ``latency_s``, ``power_w``.

    ``margin``: how far the logarithm of a measurement may be off. A measured mode bounds those that
    name the same clocks as it does, because what neither names is taken to be the same; and not
    those that differ from it by their power limit alone, whose law is not known. Where measurements
    contradict each other the ends cross, and are put in order.
    """
    n_modes = next(iter(values.values())).size
    ends = {name: [np.full(n_modes, np.nan), np.full(n_modes, np.nan)] for name in "tpe"}
    for row, alike, ratio in _beside(measured, values):
        time = _growth(_TIME_PARTS, ratio)
        # The work of a network is the same in all modes, so its rate goes as 1 / time.
        power, work = _growth(_POWER_PARTS, ratio), _growth(_WORK_PARTS, ratio)
        found = {"t": time}
        if row["power_w"] is not None:
            found["p"] = _hull(power, (work[0] / time[1], work[1] / time[0]))
            found["e"] = _hull((power[0] * time[0], power[1] * time[1]), work)
        latency_s, power_w = row["latency_s"] or math.nan, row["power_w"] or math.nan
        base = {"t": latency_s, "p": power_w, "e": latency_s * power_w}
        for name, (least, most) in found.items():
            low, high = ends[name]
            low[alike] = np.fmax(low[alike], base[name] * least)
            high[alike] = np.fmin(high[alike], base[name] * most)
    both = {name: _ordered(low, high, margin) for name, (low, high) in ends.items()}
    return NetworkBounds(both["t"], both["p"], both["e"])


def _ordered(low: Array, high: Array, margin: float) -> tuple[Array, Array]:
    factor = math.exp(margin)
    return np.minimum(low, high) / factor, np.maximum(low, high) * factor


def _hull(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])


def _growth(
    parts: tuple[Mapping[str, float], ...], ratio: Mapping[str, Array]
) -> tuple[Array, Array]:
    """The least and the most that one of ``parts`` grows by."""
    n_modes = next(iter(ratio.values())).size
    grown = np.stack(
        [
            np.prod([ratio[name] ** power for name, power in part.items()], axis=0)
            if part
            else np.ones(n_modes)
            for part in parts
        ]
    )
    return grown.min(axis=0), grown.max(axis=0)


def _beside(
    measured: pl.DataFrame, values: Mapping[str, Array]
) -> Iterator[tuple[dict[str, float | None], NDArray[np.int64], dict[str, Array]]]:
    """Each measured row, the modes that name the same clocks as it does, and clock / its clock."""
    known = setting_values(measured)
    for at, row in enumerate(measured.select("latency_s", "power_w").iter_rows(named=True)):
        ratio = {name: values[name] / known[name][at] for name in SETTINGS}
        names_same = [np.isnan(values[name]) == np.isnan(known[name][at]) for name in _CLOCKS]
        differs = {name: ~(np.abs(np.log(each)) < _SAME) for name, each in ratio.items()}
        has_clock = np.logical_or.reduce([~np.isnan(ratio[name]) for name in _CLOCKS])
        clocks_differ = np.logical_or.reduce(
            [differs[name] & ~np.isnan(ratio[name]) for name in _CLOCKS]
        )
        limits_differ = differs["power_limit_w"] & ~(
            np.isnan(values["power_limit_w"]) & np.isnan(known["power_limit_w"][at])
        )
        is_alike = np.logical_and.reduce(names_same) & has_clock & (clocks_differ | ~limits_differ)
        alike = np.flatnonzero(is_alike)
        if alike.size:
            yield row, alike, {n: np.nan_to_num(r[alike], nan=1.0) for n, r in ratio.items()}
