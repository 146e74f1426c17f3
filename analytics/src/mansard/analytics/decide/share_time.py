"""Which option each task takes when all of them share one second: an exact linear programme.

Minimise Σ cost over tasks with Σ time ≤ capacity, each task on one option or split between two:
the linear relaxation of the multiple-choice knapsack problem, which a greedy walk along the
lower convex hulls of (time, cost) solves exactly (P. Sinha, A. A. Zoltners, The multiple-choice
knapsack problem, Operations Research 27(3), 1979). At most one task is split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mansard.analytics.decide.probability import Array

_SLACK = 1e-12  # of the capacity: rounding must not make a second too long


@dataclass(frozen=True)
class Part:
    """Option number ``option`` of a task does ``share`` of its work."""

    option: int
    share: float


def lower_hull(time: Array, cost: Array) -> list[int]:
    """Options on the lower convex hull, from the cheapest to the quickest.

    Each is quicker than the one before and costs more; the extra cost of a second saved grows.
    Equal options count once, the first of them.
    """
    order = sorted(range(len(time)), key=lambda at: (cost[at], time[at], at))
    hull: list[int] = []
    for at in order:
        if hull and time[at] >= time[hull[-1]]:
            continue  # no quicker than a cheaper one
        while len(hull) > 1 and _is_above(hull[-1], hull[-2], at, time, cost):
            hull.pop()
        hull.append(at)
    return hull


def _is_above(middle: int, first: int, last: int, time: Array, cost: Array) -> bool:
    """Whether ``middle`` lies on or above the line from ``first`` to ``last``."""
    rise = (cost[middle] - cost[first]) * (time[first] - time[last])
    line = (cost[last] - cost[first]) * (time[first] - time[middle])
    return bool(rise >= line)


def share_time(
    times: Sequence[Array], costs: Sequence[Array], capacity: float
) -> tuple[tuple[Part, ...], ...] | None:
    """The cheapest parts of each task that fit into ``capacity``; None where nothing fits.

    ``times`` and ``costs`` hold an array for each task, with an element for each option; finite,
    and at least one each.
    """
    hulls = [lower_hull(time, cost) for time, cost in zip(times, costs, strict=True)]
    at = [0] * len(hulls)
    used = sum(float(time[hull[0]]) for time, hull in zip(times, hulls, strict=True))
    split: dict[int, float] = {}
    for task in _steps(hulls, times, costs):
        if used <= capacity * (1 + _SLACK):
            break
        here, there = hulls[task][at[task]], hulls[task][at[task] + 1]
        saved = float(times[task][here] - times[task][there])
        at[task] += 1
        if used - saved < capacity:
            split[task] = (used - capacity) / saved
            used = capacity
            break
        used -= saved
    if used > capacity * (1 + _SLACK):
        return None
    return tuple(_parts(hull, at[task], split.get(task)) for task, hull in enumerate(hulls))


def _steps(
    hulls: Sequence[Sequence[int]], times: Sequence[Array], costs: Sequence[Array]
) -> list[int]:
    """Tasks in the order in which they take their next quicker option: least cost per second."""
    slopes = [
        (
            float((costs[task][after] - costs[task][before])
                  / (times[task][before] - times[task][after])),
            task,
            number,
        )
        for task, hull in enumerate(hulls)
        for number, (before, after) in enumerate(pairwise(hull))
    ]  # fmt: skip
    # Within a task slopes grow along the hull, rounding apart: its own order comes before.
    greatest: dict[int, float] = {}
    ordered = []
    for slope, task, number in sorted(slopes, key=lambda one: (one[1], one[2])):
        greatest[task] = max(slope, greatest.get(task, slope))
        ordered.append((greatest[task], task, number))
    return [task for _, task, _ in sorted(ordered)]


def _parts(hull: Sequence[int], at: int, share: float | None) -> tuple[Part, ...]:
    if share is None or share >= 1.0:
        return (Part(hull[at], 1.0),)
    return (Part(hull[at - 1], 1.0 - share), Part(hull[at], share))


def least_time(times: Sequence[Array]) -> float:
    """What all tasks take at the very least, each on its quickest option."""
    return float(sum(np.min(time) for time in times))
