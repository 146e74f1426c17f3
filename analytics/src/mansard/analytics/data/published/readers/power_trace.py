"""Power of a board over time: samples of the rails that make its total, and energies of windows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_MOST_GAP = 0.5  # of a window may lie between two samples
_USUAL_GAPS = 3  # steps of the log; a longer gap is a pause of the logger

Points = Sequence[tuple[float, float]]  # seconds and watts


@dataclass(frozen=True)
class PowerTrace:
    """Samples by rail, in the order of their times; the total is the sum of all rails."""

    rails: Mapping[str, Points]

    @property
    def span_s(self) -> tuple[float, float]:
        """From when to when every rail has samples."""
        return (
            max(points[0][0] for points in self.rails.values()),
            min(points[-1][0] for points in self.rails.values()),
        )

    def energy_j(self, start_s: float, end_s: float) -> float | None:
        """Of all rails together from ``start_s`` to ``end_s``; None where samples do not tell.

        Trapezoids, with the power at both ends interpolated between the samples around them.
        """
        energies = [_energy_j(points, start_s, end_s) for points in self.rails.values()]
        known = [each for each in energies if each is not None]
        return sum(known) if len(known) == len(energies) else None


def _energy_j(points: Points, start_s: float, end_s: float) -> float | None:
    if len(points) < 2 or not points[0][0] <= start_s < end_s <= points[-1][0]:
        return None
    times = [time_s for time_s, _ in points]
    first, last = bisect_right(times, start_s), bisect_left(times, end_s)
    inside = [
        (start_s, _power_at(points, first, start_s)),
        *points[first:last],
        (end_s, _power_at(points, max(last, 1), end_s)),
    ]
    around = times[max(first - 1, 0) : last + 1]
    longest = max(later - earlier for earlier, later in pairwise(around))
    usual = (times[-1] - times[0]) / (len(times) - 1)
    if longest > max(_MOST_GAP * (end_s - start_s), _USUAL_GAPS * usual):
        return None
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(inside))


def _power_at(points: Points, after: int, time_s: float) -> float:
    """Between the samples before and at ``after``."""
    (t0, w0), (t1, w1) = points[after - 1], points[min(after, len(points) - 1)]
    return w0 if t1 == t0 else w0 + (w1 - w0) * (time_s - t0) / (t1 - t0)
