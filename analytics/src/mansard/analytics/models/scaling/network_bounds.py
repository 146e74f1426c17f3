"""What any network can take in a mode, by what it took in others.

A time is a sum of parts that are each proportional to 1 / some clock, or the same everywhere, or
the longer of two such parts; a power and an energy are such sums of other parts. Whatever their
weights, a sum grows from one mode to another by no more than the part that grows most, and by no
less than the part that grows least. Every measured mode gives two ends; the narrowest hold.

Cores of a CPU are no clock: threads wait for each other, and a cluster of cores brings its cache.
Work cut into as many parts as there are threads takes ceil(threads / cores) rounds, so that n cores
more may save nearly twice what n cores are of all. Where the number of cores differs, a network on
a CPU may gain up to twice what they say, or nothing (docs/understand/scaling.md has how often that
held on recorded networks).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.models.scaling.network_terms import Array, setting_values
from mansard.core.hardware import SETTINGS

# Exponents of settings in the parts of a time, and of what draws power beside the work itself.
_TIME_PARTS: tuple[Mapping[str, float], ...] = (
    {},
    {"gpu_hz": -1, "n_sms": -1},
    {"gpu_hz": -1},
    {"memory_hz": -1},
    {"cpu_hz": -1},
    {"cpu_hz": -1, "n_cpus": -1},
)
# Of a network on a CPU: what each core waits for from memory follows their number, not their clock.
_CPU_TIME_PARTS: tuple[Mapping[str, float], ...] = (*_TIME_PARTS, {"n_cpus": -1})
_OF_CORES = 2.0  # by how much the gain of more cores may exceed their share
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


@dataclass(frozen=True, eq=False)
class Growth:
    """By how much times, powers and energies grow from one mode to those it bounds, least and most.

    ``alike``: the indices of these modes.
    """

    alike: NDArray[np.int64]
    of: Mapping[str, tuple[Array, Array]]


Growths: TypeAlias = dict[tuple[float, ...], Growth]


def network_bounds(
    measured: pl.DataFrame,
    values: Mapping[str, Array],
    margin: float = 0.0,
    growths: Growths | None = None,
) -> NetworkBounds:
    """Bounds in the modes of ``values`` from ``measured``: SETTINGS, ``latency_s``, ``power_w``.

    ``margin``: how far the logarithm of a measurement may be off. A measured mode bounds those that
    name the same clocks as it does, because what neither names is taken to be the same; and not
    those that differ from it by their power limit alone, whose law is not known. Where measurements
    contradict each other the ends cross, and are put in order. ``growths``: from measured modes to
    those of ``values``, the same for every network; what is missing there is added.
    """
    growths = {} if growths is None else growths
    n_modes = next(iter(values.values())).size
    ends = {name: [np.full(n_modes, np.nan), np.full(n_modes, np.nan)] for name in "tpe"}
    known = setting_values(measured)
    for at, row in enumerate(measured.select("latency_s", "power_w").iter_rows(named=True)):
        settings = tuple(float(known[name][at]) for name in SETTINGS)
        key = tuple(-1.0 if math.isnan(each) else each for each in settings)
        growth = growths.get(key) or growths.setdefault(key, _growth_from(settings, values))
        latency_s, power_w = row["latency_s"] or math.nan, row["power_w"] or math.nan
        base = {"t": latency_s, "p": power_w, "e": latency_s * power_w}
        for name, (least, most) in growth.of.items():
            low, high = ends[name]
            low[growth.alike] = np.fmax(low[growth.alike], base[name] * least)
            high[growth.alike] = np.fmin(high[growth.alike], base[name] * most)
    both = {name: _ordered(low, high, margin) for name, (low, high) in ends.items()}
    return NetworkBounds(both["t"], both["p"], both["e"])


def _growth_from(settings: tuple[float, ...], values: Mapping[str, Array]) -> Growth:
    alike, ratio = _beside(dict(zip(SETTINGS, settings, strict=True)), values)
    if not alike.size:
        return Growth(alike, {})
    time = _cpu_time_growth(ratio) if _is_of_cpu(settings) else _growth(_TIME_PARTS, ratio)
    # The work of a network is the same in all modes, so its rate goes as 1 / time.
    power, work = _growth(_POWER_PARTS, ratio), _growth(_WORK_PARTS, ratio)
    of = {
        "t": time,
        "p": _hull(power, (work[0] / time[1], work[1] / time[0])),
        "e": _hull((power[0] * time[0], power[1] * time[1]), work),
    }
    return Growth(alike, of)


def _is_of_cpu(settings: tuple[float, ...]) -> bool:
    """Whether no setting of a GPU is known, and some of a CPU."""
    known = {name for name, value in zip(SETTINGS, settings, strict=True) if not math.isnan(value)}
    return not known & {"gpu_hz", "n_sms"} and bool(known & {"cpu_hz", "n_cpus"})


def _cpu_time_growth(ratio: Mapping[str, Array]) -> tuple[Array, Array]:
    """As ``_growth`` of times; wider where the number of cores differs."""
    least, most = _growth(_CPU_TIME_PARTS, ratio)
    cores = np.log(ratio["n_cpus"])
    return (
        np.where(cores > _SAME, least / _OF_CORES, least),
        np.where(cores < -_SAME, most * _OF_CORES, most),
    )


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
    known: Mapping[str, float], values: Mapping[str, Array]
) -> tuple[NDArray[np.int64], dict[str, Array]]:
    """The modes that name the same clocks as a measured one does, and clock / its clock."""
    ratio = {name: values[name] / known[name] for name in SETTINGS}
    names_same = [np.isnan(values[name]) == np.isnan(known[name]) for name in _CLOCKS]
    differs = {name: ~(np.abs(np.log(each)) < _SAME) for name, each in ratio.items()}
    has_clock = np.logical_or.reduce([~np.isnan(ratio[name]) for name in _CLOCKS])
    clocks_differ = np.logical_or.reduce(
        [differs[name] & ~np.isnan(ratio[name]) for name in _CLOCKS]
    )
    limits_differ = differs["power_limit_w"] & ~(
        np.isnan(values["power_limit_w"]) & np.isnan(known["power_limit_w"])
    )
    is_alike = np.logical_and.reduce(names_same) & has_clock & (clocks_differ | ~limits_differ)
    alike = np.flatnonzero(is_alike)
    return alike, {name: np.nan_to_num(each[alike], nan=1.0) for name, each in ratio.items()}
