"""What a choice is compared with: the highest mode, the board's default, and near candidates.

Near are those on the Pareto front, which no other candidate beats in time, energy and power at
once, and those that cannot be told apart from the choice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.decisions.limits import Mask
from mansard.analytics.decisions.records import Candidate, Wanted
from mansard.analytics.decisions.values import Array, Values

_GROUP = ("device", "network", "precision", "phase")


def pareto_mask(points: Array) -> Mask:
    """Which rows of ``points`` (n × k with k up to 3, smaller is better) no other row dominates.

    A row dominates another that is nowhere smaller and somewhere greater; of equal rows none
    does. Rows that hold NaN can be compared with nothing and are not on the front. Takes
    n log n steps however long the front is [Kung, Luccio, Preparata 1975].
    """
    found: Mask = np.zeros(len(points), dtype=np.bool_)
    usable = np.flatnonzero(~np.isnan(points).any(axis=1))
    missing = np.zeros((len(usable), 3 - points.shape[1]))
    rows = np.column_stack([points[usable], missing])
    # Sorted by the first column, then the next: a later row can no more dominate an earlier one.
    order = np.lexsort(rows.T[::-1])
    found[usable[order]] = _unbeaten(rows[order].tolist())
    return found


def _unbeaten(rows: list[list[float]]) -> list[bool]:
    """Whether no row before it beats a row of three, sorted; equal rows have the same fate."""
    found: list[bool] = []
    # Of the rows so far the front in the last two: the second rises and the third falls.
    seconds: list[float] = []
    thirds: list[float] = []
    before: list[float] = []
    for row in rows:
        if row == before:
            found.append(found[-1])
            continue
        before = row
        _, second, third = row
        at = bisect_right(seconds, second)
        is_free = at == 0 or thirds[at - 1] > third
        found.append(is_free)
        if is_free:
            start = end = bisect_left(seconds, second)
            while end < len(thirds) and thirds[end] >= third:
                end += 1
            seconds[start:end], thirds[start:end] = [second], [third]
    return found


def pareto_front(predictions: pl.DataFrame) -> pl.DataFrame:
    """The rows of PREDICTION_SCHEMA on the front of (latency, energy of one item, power).

    One front for each device, network, precision and phase; batch sizes compete. Rows without
    a latency are on none. Where no row of a front has an energy and a power, it is the fastest
    alone; where some have, those without are left out. The order is that of ``predictions``.
    """
    if predictions.is_empty():
        return predictions
    numbered = predictions.with_row_index("_row")
    rows: list[NDArray[np.int64]] = []
    for group in numbered.partition_by(*_GROUP):
        points = group.select(
            "latency_s", item_j=pl.col("energy_j") / pl.col("batch"), power_w="power_w"
        )
        columns = ["latency_s"] if points.drop_nulls().is_empty() else points.columns
        mask = pareto_mask(points.select(pl.col(columns).cast(pl.Float64)).to_numpy())
        rows.append(group["_row"].to_numpy()[mask].astype(np.int64))
    kept = np.sort(np.concatenate(rows))
    return predictions[kept]


_SHOWN = 5


def find_neighbours(values: Values, wanted: Wanted, at: int, usable: Mask) -> tuple[Candidate, ...]:
    """For time, power and energy: the candidate on the front that needs less of it, at the least
    objective.

    So each neighbour shows what the next step in that direction costs; the same one may be the
    answer for several of them and is named once.
    """
    bands = (values.latency.value, values.power.value, values.energy.value)
    known = [band for band in bands if not np.isnan(band[usable]).all()]
    front = usable & pareto_mask(np.where(usable[:, None], np.column_stack(known), np.nan))
    objective = values.objective(wanted.minimise).value
    found: dict[int, None] = {}
    for band in known:
        rows = np.flatnonzero(front & (band < band[at]))
        if len(rows):
            order = np.lexsort((rows, band[rows], objective[rows]))
            found[int(rows[order[0]])] = None
    return tuple(values.candidate(row) for row in found)


def find_equals(
    values: Values, wanted: Wanted, at: int, feasible: Mask
) -> tuple[tuple[Candidate, ...], int]:
    """Feasible ones whose objective cannot be told from the choice's, the best few, and how many.

    Two values differ if the logarithm of their ratio is greater than the root of the sum of the
    squares of the half intervals that face each other: errors are taken as independent. Where a
    model's errors are common to all modes, fewer are equal than this says.
    """
    objective = values.objective(wanted.minimise)
    low, high = objective.low, objective.high
    distance = np.abs(np.log(objective.value / objective.value[at]))
    # Towards each other: up from the smaller one, down from the greater one.
    is_above = objective.value >= objective.value[at]
    theirs = np.where(is_above, objective.value / low, high / objective.value)
    mine = np.where(is_above, high[at] / objective.value[at], objective.value[at] / low[at])
    reach = np.hypot(np.log(theirs), np.log(mine))
    # A roof tells nothing apart, and nothing is within what has no interval.
    is_bounds = objective.interval == "bounds"
    has_ends = (objective.interval == "spread") | is_bounds
    overlap = (low <= high[at]) & (low[at] <= high)
    near = np.where(is_bounds | bool(is_bounds[at]), overlap, distance <= reach)
    equal = feasible & has_ends & bool(has_ends[at]) & near
    equal[at] = False
    rows = np.flatnonzero(equal)
    ranked = rows[np.argsort(objective.value[rows], kind="stable")]
    return tuple(values.candidate(int(row)) for row in ranked[:_SHOWN]), len(rows)


def most_excess(values: Values, wanted: Wanted, at: int, may_be: Mask) -> tuple[float | None, str]:
    """By which share the choice is at most worse than the best, and why that is unknown.

    The choice takes at most the high end of its interval, another one that may keep the limits
    at least the low end of its own: the greatest high / low - 1 over these others, never below
    0. True whenever every value lies in its interval, whatever the errors have in common.
    """
    objective = values.objective(wanted.minimise)
    high: float = objective.high[at]
    others: Array = objective.low[_without(may_be, at)]
    rows = may_be.copy()
    rows[at] = True
    if (objective.interval[rows] == "roof").any():
        return None, "some predictions are roofs alone: the network takes at best that"
    if np.isnan(high) or np.isnan(others).any():
        return None, "some predictions have no interval"
    return max(0.0, float(np.max(high / others, initial=1.0)) - 1.0), ""


def _without(mask: Mask, at: int) -> Mask:
    rest: Mask = mask.copy()
    rest[at] = False
    return rest
