"""Fits a calibration by classes to groups that were timed one by one: docs/calibration.md.

The sum of |modelled - measured| over all groups, each divided by the measured time of its whole
network, is made as small as possible under factors ≥ 0. So every network counts the same, and in
it a group counts by its share of the time. The median of errors is not moved by a few groups
whose clock fell while they were timed; their mean square is. So absolute errors are added up, by
least squares over and over, each equation divided by the square root of its error before
(iteratively reweighted least squares: P. Bloomfield and W. L. Steiger, Least Absolute Deviations,
1983, chapter 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.energy.least_squares import solve_active_set, student_quantile
from mansard.analytics.predict.class_calibration import (
    TIMED_SCHEMA,
    Calibration,
    ClassFactor,
    ClassFactors,
    LaunchCost,
    Misfit,
    misfit,
)
from mansard.core.errors import InputError

Array = NDArray[np.float64]

_N_ROUNDS = 30
_SETTLED = 1e-4  # relative change of the answer from which on it stays as it is
_SMALLEST = 1e-5  # errors below it, as a share of ``scale``, count alike: none divides by 0
_LEAST_NETWORKS = 3  # to tell how much they differ


def least_absolute(rows: Array, wanted: Array, scale: Array) -> Array:
    """The x ≥ 0 with the least sum of |rows @ x - wanted| / scale.

    ``rows``: equations × columns, finite; ``scale`` is above 0. A column of zeros gets 0.
    """
    both = np.column_stack([rows, wanted])
    weight = scale
    found = np.zeros(rows.shape[1])
    for _ in range(_N_ROUNDS):
        before = found
        found = _least_squares(both / weight[:, None])
        if np.abs(found - before).max(initial=0.0) <= _SETTLED * np.abs(found).max(initial=0.0):
            break
        error = np.abs(rows @ found - wanted) / scale
        weight = scale * np.sqrt(np.maximum(error, _SMALLEST))
    return found


def _least_squares(both: Array) -> Array:
    """As ``solve_active_set``, of as few equations as there are columns; the last is wanted.

    With V Λ Vᵀ the products of the columns with each other, Λ^½ Vᵀ has the same ones, and so the
    same solution. Columns of length 1 keep half of the digits.
    """
    products = both.T @ both
    length = np.sqrt(np.diag(products))
    unit = np.where(length > 0, length, 1.0)
    values, vectors = np.linalg.eigh(products / np.outer(unit, unit))
    few = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T * length
    return solve_active_set(few[:, :-1], few[:, -1])


def jackknife_half(without: Array) -> Array | None:
    """Half widths of 95 % intervals from the answers with one network left out at a time.

    ``without``: networks × columns; NaN where a column was only in the network left out: its
    half width is NaN. None with fewer than three networks. (Quenouille and Tukey's standard error,
    B. Efron, The jackknife, the bootstrap and other resampling plans, 1982, chapter 3.)
    """
    n_networks = len(without)
    if n_networks < _LEAST_NETWORKS:
        return None
    spread = ((without - without.mean(axis=0)) ** 2).sum(axis=0)
    error = np.sqrt(spread * (n_networks - 1) / n_networks)
    return np.asarray(student_quantile(n_networks - 1) * error, dtype=np.float64)


LEAST_GROUPS = 8  # of a mode, to say anything about it
# Of a class: a factor of a few recurrent layers is far nearer than that of all classes together.
_LEAST_OF_KIND = 2
_TOTAL = ("network", "batch", "precision", "mode")
_LAYER = (*_TOTAL, "layer")
Kind = tuple[str, str]  # op_class and precision


@dataclass(frozen=True, eq=False)
class LaunchColumns:
    """What is solved for to know the cost of a launch in each mode, which is ``unit`` of it.

    Each mode's own seconds (``unit`` 1), or one number of CPU cycles for all (1 / f_cpu).
    """

    column: NDArray[np.int64]
    unit: Array

    @classmethod
    def of(cls, modes: Sequence[str], cpu_hz: Mapping[str, float] | None) -> LaunchColumns:
        """InputError for a mode without a clock, where there are clocks."""
        if cpu_hz is None:
            return cls(np.arange(len(modes)), np.ones(len(modes)))
        lost = [mode for mode in modes if not cpu_hz.get(mode, 0) > 0]
        if lost:
            raise InputError(
                f"no CPU clock of mode {', '.join(lost)}", fix="give that of every mode, or none"
            )
        return cls(np.zeros(len(modes), int), np.array([1 / cpu_hz[mode] for mode in modes]))

    def costs_s(self, found: Array) -> Array:
        """The cost of a launch in each mode, s."""
        return np.asarray(found[self.column] * self.unit, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class TimedTable:
    """One place for each layer; ``kinds`` and ``modes`` are those with enough groups."""

    roofs: Array  # layers × (kinds, and at last all others): seconds
    measured_s: Array
    total_s: Array  # measured time of all layers of the network, batch, precision and mode
    launches: Array  # layers × columns: seconds for one of what is solved for
    network: NDArray[np.object_]
    total: NDArray[np.int64]  # layers of one total share a number
    kinds: tuple[Kind, ...]
    modes: tuple[str, ...]
    launch: LaunchColumns

    def only(self, kept: NDArray[np.bool_]) -> TimedTable:
        """The layers that are kept, with the same kinds and modes."""
        return replace(
            self,
            roofs=self.roofs[kept],
            measured_s=self.measured_s[kept],
            total_s=self.total_s[kept],
            launches=self.launches[kept],
            network=self.network[kept],
            total=self.total[kept],
        )

    def sums(self, time_s: Array) -> Array:
        """The time of each total, in the order of their numbers that occur; NaN if a layer's is."""
        numbers, at = np.unique(self.total, return_inverse=True)
        added = np.bincount(at, weights=time_s, minlength=len(numbers))
        return np.asarray(added, dtype=np.float64)


def usable(timed: pl.DataFrame) -> pl.DataFrame:
    """The layers with a time under the roof and a measured one, in modes that have enough.

    Frames of two devices, of other columns or without enough groups raise InputError.
    """
    missing = [name for name in TIMED_SCHEMA if name not in timed.columns]
    if missing:
        raise InputError(
            f"timed groups: no column {', '.join(missing)}", fix="give all of TIMED_SCHEMA"
        )
    devices = timed["device"].unique().sort().to_list()
    if len(devices) > 1:
        raise InputError(
            f"timed groups of {' and '.join(map(str, devices))}", fix="calibrate one at a time"
        )
    roof, measured = pl.col("roof_s"), pl.col("measured_s")
    is_good = pl.all_horizontal(
        roof.is_finite() & (roof >= 0),
        measured.is_finite() & (measured > 0),
        pl.col("n_launches") >= 0,
        pl.all_horizontal(pl.col("op_class", *_LAYER).is_not_null()),
    ).fill_null(value=False)
    found = timed.filter(is_good.all().over(_LAYER)).filter(
        pl.struct(_LAYER).n_unique().over("mode") >= LEAST_GROUPS
    )
    if found.is_empty():
        raise InputError(
            f"no mode has {LEAST_GROUPS} groups with a time under the roof and a measured one",
            fix="time networks group by group first",
        )
    return found


def timed_table(kept: pl.DataFrame, cpu_hz: Mapping[str, float] | None = None) -> TimedTable:
    """What ``usable`` kept, as columns. Seconds. ``cpu_hz``: as of ``LaunchColumns``."""
    counted = kept.filter(pl.col("roof_s") > 0).group_by("op_class", "precision").len()
    kinds = tuple(
        (str(name), str(precision))
        for name, precision, count in counted.sort("op_class", "precision").iter_rows()
        if count >= _LEAST_OF_KIND
    )
    places = {kind: at for at, kind in enumerate(kinds)}
    rows = kept.with_columns(
        at=pl.struct(_LAYER).rank("dense") - 1, total=pl.struct(_TOTAL).rank("dense")
    )
    layers = rows.unique("at", keep="first").sort("at")
    at = rows["at"].to_numpy().astype(np.int64)
    own = rows.select("op_class", "precision").iter_rows()
    kind = np.array([places.get(kind, len(kinds)) for kind in own], dtype=np.int64)
    roofs = np.zeros((len(layers), len(kinds) + 1))
    np.add.at(roofs, (at, kind), rows["roof_s"].to_numpy())
    starts = np.bincount(at, weights=rows["n_launches"].to_numpy(), minlength=len(layers))
    modes = tuple(kept["mode"].unique().sort().to_list())
    launch = LaunchColumns.of(modes, cpu_hz)
    mode = np.searchsorted(modes, layers["mode"].to_list())
    launches = np.zeros((len(layers), int(launch.column.max()) + 1))
    launches[np.arange(len(layers)), launch.column[mode]] = starts * launch.unit[mode]
    return TimedTable(
        roofs=roofs,
        measured_s=layers["measured_s"].to_numpy(),
        total_s=layers.select(pl.col("measured_s").sum().over(_TOTAL)).to_series().to_numpy(),
        launches=launches,
        network=layers["network"].to_numpy(),
        total=layers["total"].to_numpy().astype(np.int64),
        kinds=kinds,
        modes=modes,
        launch=launch,
    )


@dataclass(frozen=True, eq=False)
class CalibrationAnswer:
    """NaN where no group determines it."""

    overall: float  # the factor of all kinds together
    factors: Array  # one for each kind of the table
    launches: Array  # one for each column of the table's launches


def solve(table: TimedTable, least: float) -> CalibrationAnswer:
    """The least sum of errors, each a share of its total, with no factor below ``least``.

    Groups of kinds that are too few take the overall factor, which is solved for first.
    """
    # What is not negative is what a factor has on top of the least.
    roof_s, others_s = table.roofs.sum(axis=1), table.roofs[:, -1]
    above = table.measured_s - least * roof_s
    rows = np.column_stack([roof_s, table.launches])
    overall = least + float(least_absolute(rows, above, table.total_s)[0])
    above = above - (overall - least) * others_s
    rows = np.column_stack([table.roofs[:, :-1], table.launches])
    found = np.where(rows.any(axis=0), least_absolute(rows, above, table.total_s), np.nan)
    n_kinds = len(table.kinds)
    return CalibrationAnswer(overall, least + found[:n_kinds], found[n_kinds:])


def times(table: TimedTable, answer: CalibrationAnswer) -> Array:
    """The modelled time of each layer, s; NaN where its mode has no launch cost."""
    known = np.where(np.isnan(answer.factors), answer.overall, answer.factors)
    launches = np.where(table.launches > 0, table.launches * answer.launches, 0.0)
    modelled = table.roofs @ np.append(known, answer.overall) + launches.sum(axis=1)
    return np.asarray(modelled, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ClassFit:
    """A calibration, and what it would be without each network."""

    calibration: Calibration
    all_networks: ClassFactors
    without: Mapping[str, ClassFactors]


def fit_classes(
    timed: pl.DataFrame,
    *,
    runtime: str,
    phase: str = "inference",
    least_factor: float = 1.0,
    cpu_hz: Mapping[str, float] | None = None,
) -> ClassFit:
    """Fit factors and launch costs to ``timed`` (TIMED_SCHEMA) of one device and phase.

    ``cpu_hz``: the CPU clock of each mode. With it a launch takes the same number of CPU cycles in
    all of them, for modes between those that were measured; without it each has its own cost.
    ``least_factor``: no factor is below it. 1 says that no kernel beats its roof; where tensors
    stay in a cache between groups it is the share of main memory's bandwidth in the cache's.
    Groups without a time, and modes of less than LEAST_GROUPS groups, are left out and counted.
    Frames of two devices, or without enough groups, raise InputError.
    """
    kept = usable(timed)
    table = timed_table(kept, cpu_hz)
    answer = solve(table, least_factor)
    networks = sorted(set(table.network.tolist()))
    without: list[CalibrationAnswer] = []
    if len(networks) > 1:
        without = [solve(table.only(table.network != name), least_factor) for name in networks]
    unseen, unknown = _unseen(table, networks, without)
    measured_s = table.sums(table.measured_s)
    calibration = Calibration(
        device=str(kept["device"][0]),
        runtime=runtime,
        phase=phase,
        modes=table.modes,
        networks=tuple(networks),
        batches=tuple(kept["batch"].unique().sort().to_list()),
        factors=_factors(kept, table, answer, without, least_factor),
        overall=answer.overall,
        least_factor=least_factor,
        launches=_launches(kept, table, answer, without),
        is_launch_in_cycles=cpu_hz is not None,
        n_groups=len(kept),
        n_left_out=len(timed) - len(kept),
        before=misfit(table.sums(table.roofs.sum(axis=1)), measured_s),
        after=misfit(table.sums(times(table, answer)), measured_s),
        unseen=unseen,
        unknown=unknown,
    )
    left_out = {
        name: _class_factors(table, each) for name, each in zip(networks, without, strict=False)
    }
    return ClassFit(calibration, _class_factors(table, answer), left_out)


def fit_calibration(
    timed: pl.DataFrame,
    *,
    runtime: str,
    phase: str = "inference",
    least_factor: float = 1.0,
    cpu_hz: Mapping[str, float] | None = None,
) -> Calibration:
    """The calibration of ``fit_classes``."""
    return fit_classes(
        timed, runtime=runtime, phase=phase, least_factor=least_factor, cpu_hz=cpu_hz
    ).calibration


def _class_factors(table: TimedTable, answer: CalibrationAnswer) -> ClassFactors:
    known = zip(table.kinds, answer.factors.tolist(), strict=True)
    costs_s = table.launch.costs_s(answer.launches)
    costs_s = costs_s[costs_s > 0]
    return ClassFactors(
        {kind: factor for kind, factor in known if not np.isnan(factor)},
        answer.overall,
        float(np.exp(np.log(costs_s).mean())) if len(costs_s) else 0.0,
    )


def _unseen(
    table: TimedTable, networks: Sequence[str], without: Sequence[CalibrationAnswer]
) -> tuple[Misfit | None, dict[str, str]]:
    """The error on each network by the answer without it, or the reason why there is none."""
    if not without:
        return None, {"unseen": "only one network was timed: none is left to judge by"}
    modelled, measured = [], []
    for name, answer in zip(networks, without, strict=True):
        left_out = table.only(table.network == name)
        modelled.append(left_out.sums(times(left_out, answer)))
        measured.append(left_out.sums(left_out.measured_s))
    found, wanted = np.concatenate(modelled), np.concatenate(measured)
    known = np.isfinite(found)
    if not known.any():
        return None, {"unseen": "no two networks were timed in the same mode"}
    return misfit(found[known], wanted[known]), {}


def _factors(
    kept: pl.DataFrame,
    table: TimedTable,
    answer: CalibrationAnswer,
    without: Sequence[CalibrationAnswer],
    least: float,
) -> tuple[ClassFactor, ...]:
    half = jackknife_half(np.array([other.factors for other in without]))
    places = {kind: at for at, kind in enumerate(table.kinds)}
    counted = kept.group_by("op_class", "precision").agg(
        (pl.col("roof_s") > 0).sum(), pl.col("network").n_unique()
    )
    found = []
    for name, precision, n_groups, n_networks in counted.sort("op_class", "precision").iter_rows():
        at = places.get((name, precision))
        reason = f"{n_groups} groups, it takes {_LEAST_OF_KIND}: the overall factor holds"
        span = _Span.of(answer.factors, half, at, least, reason)
        found.append(
            ClassFactor(
                op_class=name,
                precision=precision,
                value=span.value,
                low=span.low,
                high=span.high,
                n_groups=n_groups,
                n_networks=n_networks,
                unknown=span.reasons("value", "low", "high"),
            )
        )
    return tuple(found)


def _launches(
    kept: pl.DataFrame,
    table: TimedTable,
    answer: CalibrationAnswer,
    without: Sequence[CalibrationAnswer],
) -> tuple[LaunchCost, ...]:
    costs_s = table.launch.costs_s
    half = jackknife_half(np.array([costs_s(other.launches) for other in without]))
    found = []
    for at, mode in enumerate(table.modes):
        span = _Span.of(
            costs_s(answer.launches), half, at, 0.0, "no group of the mode starts a kernel"
        )
        found.append(
            LaunchCost(
                mode=mode,
                value_s=span.value,
                low_s=span.low,
                high_s=span.high,
                n_groups=int((kept["mode"] == mode).sum()),
                unknown=span.reasons("value_s", "low_s", "high_s"),
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class _Span:
    """A value with its interval; None for the ``reason``."""

    value: float | None
    low: float | None
    high: float | None
    reason: str = ""

    @classmethod
    def of(
        cls, values: Array, half: Array | None, at: int | None, least: float, why_none: str
    ) -> _Span:
        """What is solved ``at`` a place, ± its half width, never below ``least``."""
        if at is None or np.isnan(values[at]):
            return cls(None, None, None, why_none)
        value = float(values[at])
        if value <= least:
            return cls(value, None, None, "the rest of the model explains all of the time")
        if half is None:
            return cls(value, None, None, "it takes three networks to see how much they differ")
        if np.isnan(half[at]):
            return cls(value, None, None, "one network alone has it")
        return cls(value, max(least, value - float(half[at])), value + float(half[at]))

    def reasons(self, *names: str) -> dict[str, str]:
        """``unknown`` of a record that holds the value and its ends under ``names``."""
        numbers = (self.value, self.low, self.high)
        return {
            name: self.reason for name, number in zip(names, numbers, strict=True) if number is None
        }
