"""Predictions of networks in modes: every device, mode and score (docs/understand/prediction.md).

T = Σ over groups of max(work / peak, traffic / bandwidth) × efficiency + launches × launch cost,
stretched where a power limit is exceeded; E = Σ ε_p W_p + ε_DRAM Q + π₀ T; power = E / T.

At an end of an interval all coefficients of the time, or all costs of energy, are at that end:
their errors are correlated, as one clock measured all times of a device and one meter all its
energies. The errors of time and of energy are independent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import PREDICTION_SCHEMA
from mansard.analytics.models.energy.roof import capped_time_s
from mansard.analytics.models.predict.columns import (
    BYTE_ENERGY,
    CONSTANT_POWER,
    LAUNCH,
    Array,
    CoefficientTable,
    Key,
    WorkTable,
    coefficient_table,
    energy_key,
    repeated,
    why_unknown,
    work_table,
)
from mansard.analytics.models.predict.times import (
    ModePart,
    Rates,
    flop_by_key,
    mode_parts,
    needed_keys,
    split_times,
)


@dataclass(frozen=True, eq=False)
class ModeTotals:
    """Seconds, joules and watts for each mode, NaN where unknown.

    ``shares_s``: in compute-bound groups, in memory-bound ones and in launches; ``parts_j``: of
    work and of traffic; ``constant_w``: the constant power.
    """

    shares_s: tuple[Array, Array, Array]
    parts_j: tuple[Array, Array]
    constant_w: Array
    limit_w: Array | None  # None where no mode has one

    @cached_property
    def time_s(self) -> Array:
        """Under the power limit; infinite where the constant power alone reaches the limit."""
        compute_s, memory_s, launch_s = self.shares_s
        free_s = compute_s + memory_s + launch_s
        if self.limit_w is None:
            return free_s
        return capped_time_s(free_s, self.dynamic_j, self.constant_w, self.limit_w)

    @cached_property
    def dynamic_j(self) -> Array:
        """Of work and traffic together."""
        return self.parts_j[0] + self.parts_j[1]

    @cached_property
    def energy_j(self) -> Array:
        """E = Σ ε_p W_p + ε_DRAM Q + π₀ T."""
        return self.dynamic_j + self.constant_w * self.time_s


def mode_totals(work: WorkTable | None, part: ModePart, rates: Rates) -> ModeTotals:
    """Totals at ``rates``, the middle of ``part`` or one of its ends; all NaN without ``work``."""
    unknown = np.full(rates.n_modes, np.nan)
    limit_w = part.limit_w if part.has_limit else None
    if work is None:
        return ModeTotals((unknown,) * 3, (unknown,) * 2, unknown, limit_w)
    nothing = np.zeros(rates.n_modes)
    compute_s, memory_s = split_times(work, part.ceilings, rates)
    n_launches = work.n_launches.sum()
    launch_s = n_launches * rates.costs[LAUNCH] if LAUNCH in rates.costs else nothing
    work_j = nothing
    for key, flop in flop_by_key(work, part.ceilings).items():
        work_j = work_j + flop * rates.costs.get(energy_key(key), unknown)
    n_bytes = work.traffic_bytes.sum()
    traffic_j = n_bytes * rates.costs.get(BYTE_ENERGY, unknown) if n_bytes else nothing
    constant_w = rates.costs.get(CONSTANT_POWER, unknown)
    return ModeTotals((compute_s, memory_s, launch_s), (work_j, traffic_j), constant_w, limit_w)


def energy_keys(work: WorkTable, part: ModePart) -> tuple[Key, ...]:
    """The coefficients that the energy needs in addition to those of the time."""
    peaks = flop_by_key(work, part.ceilings)
    moved = (BYTE_ENERGY,) if work.traffic_bytes.any() else ()
    return (*(energy_key(key) for key in peaks), *moved, CONSTANT_POWER)


TIME_BOUNDS = ("compute", "memory", "launch", "power")
ENERGY_BOUNDS = ("work", "traffic", "constant")
# The parts of a network's time, before a power limit stretches it.
SHARE_SCHEMA: FrameSchema = {
    "compute_s": pl.Float64,  # in groups that work bounds
    "memory_s": pl.Float64,  # in groups that traffic bounds
    "launch_s": pl.Float64,
}
_SCORE_FIELDS = ("score_id", "network", "batch", "precision", "phase")
_VALUES = frozenset({"latency_s", "energy_j", "power_w"})
_ENDS = frozenset(name for name in PREDICTION_SCHEMA if "_low_" in name or "_high_" in name)
NO_LAUNCH = "launch costs are left out: they were not measured in every mode of this device"
_NO_LIMIT = "the power limit of the mode is not in it: that takes the energy"
_LAUNCH_BOUND = "bound by latency: launches of kernels take most of the time"
_NO_POWER_LEFT = "the power limit leaves nothing beside the constant power"
_NO_ENERGY = "no energy was measured in this mode: that needs a power meter"


@dataclass(frozen=True, eq=False)
class ScorePrediction:
    """The prediction of one score, with the groups ``work``, in the modes of one ``part``.

    ``note``: of the score, the same in all modes.
    """

    work: WorkTable
    part: ModePart
    table: CoefficientTable
    note: str | None

    def columns(self, wanted: Collection[str]) -> dict[str, pl.Series]:
        """Those of ``wanted`` that differ between modes, and those that are computed with them.

        PREDICTION_SCHEMA and SHARE_SCHEMA; one value for each mode of the part, null where unknown.
        """
        numbers: dict[str, Array] = {}
        if not _VALUES.isdisjoint(wanted):
            numbers |= {
                "latency_s": self._finite(self.middle.time_s),
                "energy_j": self._finite(self.middle.energy_j),
                "power_w": self._power_w,
            }
        if not _ENDS.isdisjoint(wanted):
            numbers |= self._ends()
        if not SHARE_SCHEMA.keys().isdisjoint(wanted):
            numbers |= dict(zip(SHARE_SCHEMA, self.middle.shares_s, strict=True))
        found = {
            name: pl.Series(values, dtype=pl.Float64, nan_to_null=True)
            for name, values in numbers.items()
        }
        if "time_bound" in wanted:
            found["time_bound"] = self._time_bound()
        if "energy_bound" in wanted:
            found["energy_bound"] = self._energy_bound()
        if "is_extrapolated" in wanted:
            found["is_extrapolated"] = self._is_extrapolated()
        if "reason" in wanted:
            found["reason"] = self._reason()
        if "notes" in wanted:
            found["notes"] = self._notes()
        return found

    @property
    def n_modes(self) -> int:
        """The number of modes in the part."""
        return len(self.part.at)

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """The coefficients that the time needs."""
        found = needed_keys(self.work, self.part.ceilings)
        starts = bool(self.work.n_launches.any()) and LAUNCH in self.part.middle.costs
        return (*found, LAUNCH) if starts else found

    @cached_property
    def lost(self) -> str | None:
        """Why the work or traffic is unknown."""
        return self.work.reason()

    @cached_property
    def missing(self) -> tuple[Key, ...]:
        """The coefficients that the time needs and that are unknown."""
        return tuple(key for key in self.keys if key not in self.part.middle.costs)

    @cached_property
    def middle(self) -> ModeTotals:
        """The totals at the values of the coefficients."""
        return self._totals(self.part.middle)

    @cached_property
    def fast(self) -> ModeTotals:
        """The totals at the fastest and cheapest ends of the coefficients."""
        return self._totals(self.part.fast)

    @cached_property
    def slow(self) -> ModeTotals:
        """The totals at the slowest and most expensive ends of the coefficients."""
        return self._totals(self.part.slow)

    def _totals(self, rates: Rates) -> ModeTotals:
        is_known = self.lost is None and all(key in rates.costs for key in self.keys)
        return mode_totals(self.work if is_known else None, self.part, rates)

    def _finite(self, values: Array) -> Array:
        """NaN for infinite values: there the constant power alone reaches the limit."""
        return np.where(np.isinf(values), np.nan, values) if self.part.has_limit else values

    @cached_property
    def _power_w(self) -> Array:
        with np.errstate(invalid="ignore"):
            return self._finite(self.middle.energy_j / self.middle.time_s)

    def _ends(self) -> dict[str, Array]:
        """The ends of the 95 % intervals; the value lies between them where both are known.

        Errors of energy and power come from the time, which a clock measured, and from the costs
        of work, traffic and constant power, which a meter measured. They are independent, so their
        squares are added. A longer time means more energy and less power.
        """
        middle, fast, slow = self.middle, self.fast, self.slow
        time_s, energy_j, power_w = middle.time_s, middle.energy_j, self._power_w
        is_endless = np.isinf(slow.time_s)
        with np.errstate(invalid="ignore", divide="ignore"):
            cheaper_j = energy_j - fast.dynamic_j - fast.constant_w * time_s
            dearer_j = slow.dynamic_j + slow.constant_w * time_s - energy_j
            sooner, later = time_s - fast.time_s, slow.time_s - time_s
            low_j = energy_j - _both(middle.constant_w * sooner, cheaper_j)
            high_j = energy_j + _both(middle.constant_w * later, dearer_j)
            low_w = power_w - _both(middle.dynamic_j * later / slow.time_s, cheaper_j) / time_s
            high_w = power_w + _both(middle.dynamic_j * sooner / fast.time_s, dearer_j) / time_s
            # The ends with all errors at once are never exceeded.
            low_j = np.maximum(low_j, fast.energy_j)
            low_w = np.maximum(low_w, fast.dynamic_j / slow.time_s + fast.constant_w)
        if self.part.has_limit:  # the limit caps the power
            high_w = np.where(high_w > self.part.limit_w, self.part.limit_w, high_w)
        return {
            "latency_low_s": self._low(fast.time_s, time_s, is_endless),
            "latency_high_s": self._finite(np.maximum(slow.time_s, time_s)),
            "energy_low_j": self._low(low_j, energy_j, is_endless),
            "energy_high_j": self._finite(np.maximum(high_j, energy_j)),
            "power_low_w": np.where(is_endless, np.nan, np.minimum(low_w, power_w)),
            "power_high_w": np.where(is_endless, np.nan, np.maximum(high_w, power_w)),
        }

    def _low(self, fast: Array, middle: Array, is_endless: NDArray[np.bool_]) -> Array:
        return self._finite(np.where(is_endless, np.nan, np.minimum(fast, middle)))

    def _time_bound(self) -> pl.Series:
        """The largest part of the time; compute before memory if they are equal."""
        compute_s, memory_s, launch_s = self.middle.shares_s
        time_s = self.middle.time_s
        bound = np.where(memory_s > compute_s, 1, 0)
        bound[launch_s > np.maximum(compute_s, memory_s)] = 2
        if self.part.has_limit:
            bound[time_s > compute_s + memory_s + launch_s] = 3
        return _bounds(bound, np.isfinite(time_s) & (time_s > 0), TIME_BOUNDS)

    def _energy_bound(self) -> pl.Series:
        work_j, traffic_j = self.middle.parts_j
        constant_j = self.middle.constant_w * self.middle.time_s
        bound = np.where(traffic_j > work_j, 1, 0)
        bound[constant_j > np.maximum(work_j, traffic_j)] = 2
        energy_j = work_j + traffic_j + constant_j
        return _bounds(bound, np.isfinite(energy_j) & (energy_j > 0), ENERGY_BOUNDS)

    def _is_extrapolated(self) -> pl.Series:
        costs = self.part.middle.costs
        used = [key for key in (*self.keys, *energy_keys(self.work, self.part)) if key in costs]
        columns = [self.table.columns[key].is_extrapolated for key in used]
        if not any(column.any() for column in columns):
            return repeated(pl.Series([False]), self.n_modes)
        return pl.Series(np.any([column[self.part.at] for column in columns], axis=0))

    def _reason(self) -> pl.Series:
        """Why the latency, or else why the energy is unknown."""
        if self.lost is not None:
            return self._text(self.lost)
        if self.missing:
            return why_unknown(self.table, self.missing, self.part.at)
        why = self._energy_reason()
        if not self.part.has_limit:
            return why
        is_stuck = pl.Series(np.isinf(self.middle.time_s))
        return pl.select(pl.when(is_stuck).then(pl.lit(_NO_POWER_LEFT)).otherwise(why)).to_series()

    def _energy_reason(self) -> pl.Series:
        costs = self.part.middle.costs
        missing = tuple(key for key in energy_keys(self.work, self.part) if key not in costs)
        if not missing:
            return self._text(None)
        if not any(key in self.table.columns for key in missing):
            return self._text(_NO_ENERGY)
        # Without a meter all are unknown for the same reason, which is given once.
        said = (CONSTANT_POWER,) if CONSTANT_POWER in missing else missing
        return why_unknown(self.table, said, self.part.at)

    def _notes(self) -> pl.Series:
        """What the numbers do not include."""
        if self.lost is not None or self.missing:
            return self._text(self.note)
        lacks_launches = bool(self.work.n_launches.any()) and LAUNCH not in self.keys
        said = [each for each in (self.note, NO_LAUNCH if lacks_launches else None) if each]
        plain = self._launch_bound("; ".join(said))
        is_unlimited = np.isfinite(self.part.limit_w) & np.isnan(self.middle.energy_j)
        if not is_unlimited.any():
            return plain
        limited = self._launch_bound("; ".join([*said, _NO_LIMIT]))
        return pl.select(
            pl.when(pl.Series(is_unlimited)).then(limited).otherwise(plain)
        ).to_series()

    def _launch_bound(self, text: str) -> pl.Series:
        """``text`` in every mode, with a note in those in which launches take most of the time."""
        compute_s, memory_s, launch_s = self.middle.shares_s
        plain = self._text(text or None)
        with np.errstate(invalid="ignore"):
            is_bound = pl.Series(launch_s > compute_s + memory_s)
        if not is_bound.any():
            return plain
        noted = self._text(f"{text}; {_LAUNCH_BOUND}" if text else _LAUNCH_BOUND)
        return pl.select(pl.when(is_bound).then(noted).otherwise(plain)).to_series()

    def _text(self, text: str | None) -> pl.Series:
        return repeated(pl.Series([text], dtype=pl.String), self.n_modes)


def _both(one: Array, other: Array) -> Array:
    """The root sum of squares of two independent errors."""
    return np.asarray(np.sqrt(one * one + other * other), dtype=np.float64)


def _bounds(
    codes: NDArray[np.int64], is_known: NDArray[np.bool_], names: tuple[str, ...]
) -> pl.Series:
    places = np.where(is_known, codes, len(names)).astype(np.uint32)
    return pl.Series([*names, None], dtype=pl.String).gather(places)


def predict_scores(
    groups: pl.DataFrame,
    scores: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
    *,
    efficiency: Mapping[str, float] | None = None,
    with_shares: bool = False,
) -> pl.LazyFrame:
    """PREDICTION_SCHEMA for every row of ``modes`` and every score, the modes of a score together.

    ``groups``: GROUP_SCHEMA; ``scores``: score_id, network, batch, precision, phase and, where
    there is one, ``note``; ``coefficients``: COEFFICIENT_SCHEMA; ``modes``: MODE_SCHEMA.
    ``efficiency``: by op_class, the factor of the roof's time from a calibration; the predictions
    are then marked as calibrated. ``with_shares``: the columns of SHARE_SCHEMA too.

    The frame is lazy and is computed score by score: the rows and columns that a query drops
    are never all in memory.
    """
    table = coefficient_table(coefficients, modes)
    work = work_table(groups, efficiency)
    parts = mode_parts(table, work.precisions)
    order = np.argsort(np.concatenate([part.at for part in parts])) if len(parts) > 1 else None
    given = scores.select(
        *(pl.col(name).cast(PREDICTION_SCHEMA[name]) for name in _SCORE_FIELDS),
        pl.col("note") if "note" in scores.columns else pl.lit(None, pl.String).alias("note"),
    )
    is_calibrated = bool(efficiency)
    schema = {**PREDICTION_SCHEMA, **(SHARE_SCHEMA if with_shares else {})}

    def batches(
        wanted: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        names = list(schema) if wanted is None else wanted
        for row in given.iter_rows(named=True) if parts else ():
            if n_rows is not None and n_rows <= 0:
                return
            same = {name: row[name] for name in _SCORE_FIELDS}
            same |= {"interval": "roof", "source": "modelled", "is_calibrated": is_calibrated}
            one = work.of(row["score_id"])
            found = [ScorePrediction(one, part, table, row["note"]) for part in parts]
            frame = _frame(names, found, table, order, same)
            frame = frame if n_rows is None else frame.head(n_rows)
            n_rows = None if n_rows is None else n_rows - len(frame)
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(batches, schema=schema)


def _frame(
    names: Sequence[str],
    found: Sequence[ScorePrediction],
    table: CoefficientTable,
    order: NDArray[np.int64] | None,
    same: Mapping[str, object],
) -> pl.DataFrame:
    """One score over all modes of ``table``; ``order`` restores their order across parts."""
    pieces = [part.columns(names) for part in found]

    def column(name: str) -> pl.Series:
        if name in ("device", "mode"):
            return table.modes[name]
        if name in same:
            one = pl.Series([same[name]], dtype=PREDICTION_SCHEMA[name])
            return repeated(one, table.n_modes)
        if order is None:  # the only part has the modes in their order
            return pieces[0][name]
        return pl.concat([piece[name] for piece in pieces]).gather(order)

    return pl.DataFrame([column(name).alias(name) for name in names])
