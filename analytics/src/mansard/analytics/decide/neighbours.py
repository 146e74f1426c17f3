"""Who else was near: neighbours on the Pareto front, and those that cannot be told apart."""

from __future__ import annotations

import numpy as np

from mansard.analytics.decide.pareto import pareto_mask
from mansard.analytics.decide.probability import Array
from mansard.analytics.decide.records import Candidate, Neighbour, Wanted
from mansard.analytics.decide.screening import Mask, check_limits
from mansard.analytics.decide.values import Values
from mansard.analytics.decide.wording import lost_words

_SHOWN = 5


def find_neighbours(values: Values, wanted: Wanted, at: int, usable: Mask) -> tuple[Neighbour, ...]:
    """For time, power and energy: who on the front needs less of it, at the least objective.

    So each neighbour shows what the next step in that direction costs; the same one may be the
    answer for several of them and is named once.
    """
    choice = values.candidate(at)
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
    return tuple(_neighbour(values.candidate(row), choice, wanted) for row in found)


def _neighbour(other: Candidate, choice: Candidate, wanted: Wanted) -> Neighbour:
    checks = check_limits(other, wanted)
    return Neighbour(candidate=other, why_lost=lost_words(other, choice, checks, wanted))


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
    equal = feasible & (distance <= reach)
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
    if np.isnan(high) or np.isnan(others).any():
        return None, "some predictions have no interval"
    return max(0.0, float(np.max(high / others, initial=1.0)) - 1.0), ""


def _without(mask: Mask, at: int) -> Mask:
    rest: Mask = mask.copy()
    rest[at] = False
    return rest
