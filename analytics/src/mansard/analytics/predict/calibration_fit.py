"""Fitting a calibration to groups that were timed one by one: docs/calibration.md.

The sum of |modelled - measured| over all groups, each divided by the measured time of its whole
network, is made as small as it gets. So every network counts the same, and in it a group counts
by its share of the time: a total is what is to be predicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from mansard.analytics.predict.calibration import (
    Calibration,
    ClassFactor,
    LaunchCost,
    Misfit,
    misfit,
)
from mansard.analytics.predict.calibration_answer import Answer, solve, times
from mansard.analytics.predict.calibration_solve import Array, jackknife_half
from mansard.analytics.predict.calibration_table import (
    LEAST_GROUPS,
    TimedTable,
    timed_table,
    usable,
)


def fit_calibration(
    timed: pl.DataFrame,
    *,
    runtime: str,
    phase: str = "inference",
    least_factor: float = 1.0,
    cpu_hz: Mapping[str, float] | None = None,
) -> Calibration:
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
    without: list[Answer] = []
    if len(networks) > 1:
        without = [solve(table.only(table.network != name), least_factor) for name in networks]
    unseen, unknown = _unseen(table, networks, without)
    measured_s = table.sums(table.measured_s)
    return Calibration(
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
        before=misfit(table.sums(table.roof_s), measured_s),
        after=misfit(table.sums(times(table, answer)), measured_s),
        unseen=unseen,
        unknown=unknown,
    )


def _unseen(
    table: TimedTable, networks: Sequence[str], without: Sequence[Answer]
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
    answer: Answer,
    without: Sequence[Answer],
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
        reason = f"{n_groups} groups, it takes {LEAST_GROUPS}: the overall factor holds"
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
    kept: pl.DataFrame, table: TimedTable, answer: Answer, without: Sequence[Answer]
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
