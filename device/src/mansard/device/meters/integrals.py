"""Integrals and differences of sampled curves, with interpolated ends.

``points`` are (seconds, value) in the order of time; the first lies at or before the start,
the last at or after the end, and all others in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Points = Sequence[tuple[float, float]]


def difference(points: Points, start_s: float, end_s: float) -> float:
    """What a counter went up by."""
    return _between(points[-2], points[-1], end_s) - _between(points[0], points[1], start_s)


def _between(before: tuple[float, float], after: tuple[float, float], time_s: float) -> float:
    (before_s, first), (after_s, second) = before, after
    if after_s == before_s:
        return second
    return first + (second - first) * (time_s - before_s) / (after_s - before_s)


def trapezoid(points: Points, start_s: float, end_s: float) -> float:
    """The area under the straight lines between the points."""
    first = (start_s, _between(points[0], points[1], start_s))
    last = (end_s, _between(points[-2], points[-1], end_s))
    curve = [first, *points[1:-1], last]
    return sum((b_s - a_s) * (a + b) / 2 for (a_s, a), (b_s, b) in pairwise(curve))
