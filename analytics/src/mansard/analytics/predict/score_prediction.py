"""One network in many modes: latency, energy and power with their intervals.

An end of an interval is where all coefficients are at that end: those of one device are wrong
together more than apart, for one clock and one meter stand behind all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
import polars as pl

from mansard.analytics.predict.coefficient_table import (
    CONSTANT_POWER,
    LAUNCH,
    Array,
    CoefficientTable,
    Key,
    repeated,
    why_unknown,
)
from mansard.analytics.predict.interval_ends import End, energy_keys, find_end
from mansard.analytics.predict.mode_parts import ModePart, Rates
from mansard.analytics.predict.score_times import needed_keys
from mansard.analytics.predict.work_table import WorkTable

TIME_BOUNDS = ("compute", "memory", "launch", "power")
ENERGY_BOUNDS = ("work", "traffic", "constant")
NO_BOUND = 255
NO_LAUNCH = "no launch cost is known in this mode: the latency is without it"
NO_LIMIT = "the power limit of the mode is not in it: that takes the energy"
NO_POWER_LEFT = "the power limit leaves nothing beside the constant power"
NO_ENERGY = "no energy is known in this mode: it takes a power meter and a fitted energy model"


@dataclass(frozen=True, eq=False)
class ScorePrediction:
    """The network of the groups ``work`` in the modes of one ``part`` of ``table``.

    Nothing is computed before a column is asked for. ``note`` is said in all modes.
    """

    work: WorkTable
    part: ModePart
    table: CoefficientTable
    note: str | None

    def numbers(self, name: str) -> Array:
        """A column of PREDICTION_SCHEMA or of the shares of the time; one value for each mode.

        s, J and W, NaN where unknown; bounds are places in TIME_BOUNDS and ENERGY_BOUNDS or
        NO_BOUND. A share is that of the time before a power limit stretches it.
        """
        return _NUMBERS[name](self)

    def words(self, name: str) -> pl.Series:
        """The column ``reason`` or ``notes``; one text for each mode, or null."""
        return _WORDS[name](self)

    @property
    def n_modes(self) -> int:
        """How many modes the part has."""
        return len(self.part.at)

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The coefficients that the time rests on."""
        found = needed_keys(self.work, self.part.placement)
        starts = bool(self.work.n_launches.any()) and LAUNCH in self.part.middle.costs
        return (*found, LAUNCH) if starts else found

    @cached_property
    def lost(self) -> str | None:
        """Why the work or traffic is unknown."""
        return self.work.reason()

    @cached_property
    def missing(self) -> tuple[Key, ...]:
        """What must be known for the time and is not."""
        return tuple(key for key in self.keys if key not in self.part.middle.costs)

    @cached_property
    def middle(self) -> End:
        """Where the coefficients have their values."""
        return self._end(self.part.middle)

    @cached_property
    def fast(self) -> End:
        """Where everything is quickest and cheapest."""
        return self._end(self.part.fast)

    @cached_property
    def slow(self) -> End:
        """Where everything is slowest and dearest."""
        return self._end(self.part.slow)

    def _end(self, rates: Rates) -> End:
        is_known = self.lost is None and all(key in rates.costs for key in self.keys)
        return find_end(self.work if is_known else None, self.part, rates)


def _finite(values: Array, found: ScorePrediction) -> Array:
    """A limit that leaves nothing makes times infinite: they are unknown."""
    return np.where(np.isinf(values), np.nan, values) if found.part.has_limit else values


def _low(found: ScorePrediction, fast: Array, middle: Array, slow: Array) -> Array:
    """The lower end, no higher than the value, where both ends are known."""
    return _finite(np.where(np.isinf(slow), np.nan, np.minimum(fast, middle)), found)


def _high(found: ScorePrediction, middle: Array, slow: Array) -> Array:
    return _finite(np.maximum(slow, middle), found)


def _power(found: ScorePrediction) -> Array:
    with np.errstate(invalid="ignore"):
        return _finite(found.middle.energy_j / found.middle.time_s, found)


def _power_low(found: ScorePrediction) -> Array:
    with np.errstate(invalid="ignore"):
        low_w = found.fast.dynamic_j / found.slow.time_s + found.fast.constant_w
    return np.where(np.isinf(found.slow.time_s), np.nan, np.minimum(low_w, _power(found)))


def _power_high(found: ScorePrediction) -> Array:
    with np.errstate(invalid="ignore"):
        high_w = found.slow.dynamic_j / found.fast.time_s + found.slow.constant_w
    power_w = _power(found)
    if found.part.has_limit:  # what a limit holds down does not go above it
        limit_w = found.part.limit_w
        high_w = np.where(high_w > limit_w, limit_w, high_w)
    return np.where(np.isinf(found.slow.time_s), np.nan, np.maximum(high_w, power_w))


def _time_bound(found: ScorePrediction) -> Array:
    """What most of the time goes into; arithmetic before memory where both are equal."""
    compute_s, memory_s, launch_s = found.middle.shares_s
    bound = np.where(memory_s > compute_s, 1.0, 0.0)
    bound[launch_s > np.maximum(compute_s, memory_s)] = 2.0
    if found.part.has_limit:
        bound[found.middle.time_s > compute_s + memory_s + launch_s] = 3.0
    bound[~(np.isfinite(found.middle.time_s) & (found.middle.time_s > 0))] = NO_BOUND
    return bound


def _energy_bound(found: ScorePrediction) -> Array:
    work_j, traffic_j = found.middle.parts_j
    constant_j = found.middle.constant_w * found.middle.time_s
    bound = np.where(traffic_j > work_j, 1.0, 0.0)
    bound[constant_j > np.maximum(work_j, traffic_j)] = 2.0
    energy_j = work_j + traffic_j + constant_j
    bound[~(np.isfinite(energy_j) & (energy_j > 0))] = NO_BOUND
    return bound


def _is_extrapolated(found: ScorePrediction) -> Array:
    costs = found.part.middle.costs
    used = [key for key in (*found.keys, *energy_keys(found.work, found.part)) if key in costs]
    columns = [found.table.columns[key].is_extrapolated for key in used]
    if not any(column.any() for column in columns):
        return np.zeros(found.n_modes, bool)
    return np.asarray(np.any([column[found.part.at] for column in columns], axis=0))


def _reason(found: ScorePrediction) -> pl.Series:
    """Why the latency, or else why the energy is unknown."""
    if found.lost is not None:
        return _text(found.lost, found.n_modes)
    if found.missing:
        return why_unknown(found.table, found.missing, found.part.at)
    why = _energy_reason(found)
    if not found.part.has_limit:
        return why
    is_stuck = pl.Series(np.isinf(found.middle.time_s))
    return pl.select(pl.when(is_stuck).then(pl.lit(NO_POWER_LEFT)).otherwise(why)).to_series()


def _energy_reason(found: ScorePrediction) -> pl.Series:
    costs = found.part.middle.costs
    missing = tuple(key for key in energy_keys(found.work, found.part) if key not in costs)
    if not missing:
        return _text(None, found.n_modes)
    if not any(key in found.table.columns for key in missing):
        return _text(NO_ENERGY, found.n_modes)
    # Without a meter all of them are unknown for the same reason: once is enough.
    said = (CONSTANT_POWER,) if CONSTANT_POWER in missing else missing
    return why_unknown(found.table, said, found.part.at)


def _notes(found: ScorePrediction) -> pl.Series:
    """What the numbers are without."""
    if found.lost is not None or found.missing:
        return _text(found.note, found.n_modes)
    silent = bool(found.work.n_launches.any()) and LAUNCH not in found.keys
    said = [each for each in (found.note, NO_LAUNCH if silent else None) if each]
    plain = _text("; ".join(said) or None, found.n_modes)
    is_free = np.isfinite(found.part.limit_w) & np.isnan(found.middle.energy_j)
    if not is_free.any():
        return plain
    limited = _text("; ".join([*said, NO_LIMIT]), found.n_modes)
    return pl.select(pl.when(pl.Series(is_free)).then(limited).otherwise(plain)).to_series()


def _text(text: str | None, n_modes: int) -> pl.Series:
    return repeated(pl.Series([text], dtype=pl.String), n_modes)


_NUMBERS: Mapping[str, Callable[[ScorePrediction], Array]] = MappingProxyType(
    {
        "latency_s": lambda found: _finite(found.middle.time_s, found),
        "latency_low_s": lambda found: _low(
            found, found.fast.time_s, found.middle.time_s, found.slow.time_s
        ),
        "latency_high_s": lambda found: _high(found, found.middle.time_s, found.slow.time_s),
        "energy_j": lambda found: _finite(found.middle.energy_j, found),
        "energy_low_j": lambda found: _low(
            found, found.fast.energy_j, found.middle.energy_j, found.slow.energy_j
        ),
        "energy_high_j": lambda found: _high(found, found.middle.energy_j, found.slow.energy_j),
        "power_w": _power,
        "power_low_w": _power_low,
        "power_high_w": _power_high,
        "time_bound": _time_bound,
        "energy_bound": _energy_bound,
        "is_extrapolated": _is_extrapolated,
        "compute_s": lambda found: found.middle.shares_s[0],
        "memory_s": lambda found: found.middle.shares_s[1],
        "launch_s": lambda found: found.middle.shares_s[2],
    }
)
_WORDS: Mapping[str, Callable[[ScorePrediction], pl.Series]] = MappingProxyType(
    {"reason": _reason, "notes": _notes}
)
