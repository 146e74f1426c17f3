"""Counters of energy that move in steps: the energy between two moments, and its error at most.

A counter holds the energy up to the moment it was last renewed, which no reading tells: the first
reading of a new value shows that it was renewed since the reading before. Between two steps the
energy rises by no more than the highest power that the steps around show, and never falls. Both
together bound it at any moment, and so the energy of a window (docs/understand/metering.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

NEAR_S = 1.0  # before and after a window, in which steps still tell of its ends
# A span of steps is long against what is not known of the times at its ends: its power is too
# high by a quarter at most.
_LONG = 8.0


class Step(NamedTuple):
    """A counter was renewed to ``energy_j`` after one moment and no later than another."""

    after_s: float
    by_s: float
    energy_j: float


def find_steps(points: Sequence[tuple[float, float]], pace_s: float | None = None) -> list[Step]:
    """The values of a counter from its readings, each a time (s) and a value (J), by time.

    ``pace_s``: how often it is renewed at least, where that is known.
    """
    known_s = inf if pace_s is None else pace_s
    first_s, first_j = points[0]
    steps = [Step(first_s - known_s, first_s, first_j)]
    for (before_s, before_j), (now_s, now_j) in pairwise(points):
        if now_j != before_j:
            steps.append(Step(max(before_s, now_s - known_s), now_s, now_j))
    return steps


def highest_power_w(steps: Sequence[Step]) -> float | None:
    """The highest power over any span of steps that is long enough to tell; None without one."""
    known = [step for step in steps if step.after_s > -inf]
    powers_w = []
    first = 0
    for last, end in enumerate(known):
        while first < last and _is_long(known[first + 1], end):
            first += 1
        if _is_long(known[first], end):
            powers_w.append(_power_w(known[first], end))
    if not powers_w and len(known) > 1 and known[-1].after_s > known[0].by_s:
        powers_w.append(_power_w(known[0], known[-1]))
    return max(powers_w, default=None)


def _is_long(first: Step, last: Step) -> bool:
    doubt_s = max(first.by_s - first.after_s, last.by_s - last.after_s)
    return last.after_s - first.by_s >= max(_LONG * doubt_s, 1e-9)


def _power_w(first: Step, last: Step) -> float:
    """The highest mean power between two steps: over the shortest time between them."""
    return (last.energy_j - first.energy_j) / (last.after_s - first.by_s)


def count_energy(steps: Sequence[Step], start_s: float, end_s: float) -> tuple[float, float] | None:
    """The energy between two moments, J, and its error at most; None where ``steps`` are too few.

    ``steps``: those of the window, and those near it.
    """
    power_w = highest_power_w(steps)
    if power_w is None:
        return None
    start_low_j, start_high_j = _counted(steps, power_w, start_s)
    end_low_j, end_high_j = _counted(steps, power_w, end_s)
    energy_j = (end_low_j + end_high_j - start_low_j - start_high_j) / 2
    error_j = (end_high_j - end_low_j + start_high_j - start_low_j) / 2
    return energy_j, error_j


def _counted(steps: Sequence[Step], power_w: float, time_s: float) -> tuple[float, float]:
    """What a counter without steps would show at a moment: at least, at most."""
    low_j = max(step.energy_j - power_w * max(0.0, step.by_s - time_s) for step in steps)
    high_j = min(step.energy_j + power_w * max(0.0, time_s - step.after_s) for step in steps)
    return min(low_j, high_j), max(low_j, high_j)
