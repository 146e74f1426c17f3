"""The power and energy of one rail in a window from its samples, and checks of the samples.

Some meters count energy in steps. A counter holds the energy up to the moment it was last renewed,
which no reading tells: the first reading of a new value shows that it was renewed since the reading
before. Between two steps the energy rises by no more than the highest power that the steps around
show, and never falls. Both together bound it at any moment, and so the energy of a window
(docs/understand/metering.md).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

import msgspec

from mansard.core.errors import MeasurementError
from mansard.core.records import PowerSample
from mansard.device.meters.meter import RailFacts

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
    """The highest power over any span of steps long enough to measure it; None without one."""
    bounded = [step for step in steps if step.after_s > -inf]
    powers_w = []
    first = 0
    for last, end in enumerate(bounded):
        while first < last and _is_long(bounded[first + 1], end):
            first += 1
        if _is_long(bounded[first], end):
            powers_w.append(_power_w(bounded[first], end))
    if not powers_w and len(bounded) > 1 and bounded[-1].after_s > bounded[0].by_s:
        powers_w.append(_power_w(bounded[0], bounded[-1]))
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
    """The lowest and highest value that a counter without steps could show at a moment."""
    low_j = max(step.energy_j - power_w * max(0.0, step.by_s - time_s) for step in steps)
    high_j = min(step.energy_j + power_w * max(0.0, time_s - step.after_s) for step in steps)
    return min(low_j, high_j), max(low_j, high_j)


_MOST_RAILS = 64  # of all meters together; no board comes near


def around(
    samples: Sequence[PowerSample], start_s: float, end_s: float
) -> dict[str, list[PowerSample]]:
    """Per rail the samples inside the window, one at or before it, one at or after it.

    ``samples`` stand in the order of time, as a sampler keeps them; the window is found by
    bisection. Rails come in their first order. Raises MeasurementError if the samples of a
    rail do not reach from ``start_s`` to ``end_s``, or the window is empty.
    """
    if not end_s > start_s:
        raise MeasurementError(f"the energy window from {start_s} s to {end_s} s is empty")
    n = len(samples)  # another thread may be appending to the list
    first = bisect_right(samples, start_s, hi=n, key=_time_s)
    last = bisect_left(samples, end_s, lo=first, hi=n, key=_time_s)
    inside = samples[first:last]
    rails = _first_round(samples[:_MOST_RAILS])
    rails.update(dict.fromkeys(sample.rail for sample in inside))
    before = _nearest((samples[i] for i in range(first - 1, -1, -1)), rails)
    after = _nearest((samples[i] for i in range(last, n)), rails)
    series: dict[str, list[PowerSample]] = {rail: [] for rail in rails}
    for sample in inside:
        series[sample.rail].append(sample)
    for rail, of_rail in series.items():
        if rail not in before or rail not in after:
            raise _uncovered(samples, rail, start_s, end_s)
        of_rail.insert(0, before[rail])
        of_rail.append(after[rail])
        if any(b.monotonic_s < a.monotonic_s for a, b in pairwise(of_rail)):
            raise MeasurementError("the samples are not in the order of time", where=f"rail {rail}")
    return series


def counted_near(
    samples: Sequence[PowerSample], start_s: float, end_s: float
) -> dict[str, list[tuple[float, float]]]:
    """Per counter its readings (s, J) within the window and ``NEAR_S`` before and after it."""
    n = len(samples)
    first = bisect_left(samples, start_s - NEAR_S, hi=n, key=_time_s)
    last = bisect_right(samples, end_s + NEAR_S, lo=first, hi=n, key=_time_s)
    return counter_points(samples[first:last])


def counter_points(samples: Iterable[PowerSample]) -> dict[str, list[tuple[float, float]]]:
    """Per counter its readings (s, J); rails that read power alone are left out."""
    counted: dict[str, list[tuple[float, float]]] = {}
    for sample in samples:
        if sample.energy_j is not None:
            counted.setdefault(sample.rail, []).append((sample.monotonic_s, sample.energy_j))
    return counted


def _time_s(sample: PowerSample) -> float:
    return sample.monotonic_s


def _first_round(samples: Sequence[PowerSample]) -> dict[str, None]:
    """The rails of the first reading: those before one is there again."""
    rails: dict[str, None] = {}
    for sample in samples:
        if sample.rail in rails:
            break
        rails[sample.rail] = None
    return rails


def _nearest(samples: Iterable[PowerSample], rails: Collection[str]) -> dict[str, PowerSample]:
    """The first sample of each rail."""
    nearest: dict[str, PowerSample] = {}
    for sample in samples:
        if sample.rail in rails:
            nearest.setdefault(sample.rail, sample)
        if len(nearest) == len(rails):
            break
    return nearest


def _uncovered(
    samples: Sequence[PowerSample], rail: str, start_s: float, end_s: float
) -> MeasurementError:
    times_s = [sample.monotonic_s for sample in samples if sample.rail == rail]
    reach = f"from {times_s[0]:.3f} s to {times_s[-1]:.3f} s " if times_s else ""
    return MeasurementError(
        f"the readings {reach}do not cover the window from {start_s:.3f} s to {end_s:.3f} s",
        where=f"rail {rail}",
        fix="start the sampler before the window and read once more after it",
    )


# Integrals and differences of sampled curves, with interpolated ends.
#
# points are (seconds, value) in the order of time; the first lies at or before the start,
# the last at or after the end, and all others in between.

Points = Sequence[tuple[float, float]]


def difference(points: Points, start_s: float, end_s: float) -> float:
    """The increase of a counter."""
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


# Readings that cannot be true: a sensor that fell silent, jumped, or went below zero.
#
# Such a reading is found here and makes the energy of its window unknown, with the reason;
# it is never left out, because what it stood for is not known.

# A reading beyond this many times those around it has jumped: a slipped decimal is ten times,
# less what the readings around it waver.
_FACTOR = 8.0
_LONGEST = 3  # readings that a jump may last; what stays longer is a load
# Below this a rail counts as this much: that a small rail blinks from 0.04 W to 0.4 W is a
# display that refreshes, not a fault. Chosen here, as is the factor.
_FLOOR_W = 0.5


def find_fault(
    samples: Sequence[PowerSample], step_w: float | None, *, is_total: bool = False
) -> str | None:
    """The fault in a rail's samples, in words; None without one.

    ``is_total``: the rail is the whole board, which cannot read below zero at all; others
    may by one step of their sensor, as AGX Thor's VDD_GPU does when idle.
    """
    for sample in samples:
        if sample.power_w is None and sample.energy_j is None:
            why = sample.unknown.get("power_w") or sample.unknown["energy_j"]
            return f"the meter stopped answering at {sample.monotonic_s:.3f} s: {why}"
    if samples and samples[0].energy_j is not None:
        return _backwards(samples)
    points = [(sample.monotonic_s, sample.power_w or 0.0) for sample in samples]
    return _negative(points, step_w, is_total) or _jump(points)


def _backwards(samples: Sequence[PowerSample]) -> str | None:
    for before, after in pairwise(samples):
        if before.energy_j is None or after.energy_j is None:
            return f"the meter stopped counting energy at {after.monotonic_s:.3f} s"
        if after.energy_j < before.energy_j:
            return f"the energy counter went back at {after.monotonic_s:.3f} s"
    return None


def _negative(
    points: Sequence[tuple[float, float]], step_w: float | None, is_total: bool
) -> str | None:
    lowest_s, lowest_w = min(points, key=lambda point: point[1], default=(0.0, 0.0))
    # One step and a half: a reading is rounded, and so is the step.
    allowed_w = 0.0 if is_total else 1.5 * (step_w or 0.0)
    if lowest_w >= -allowed_w:
        return None
    return f"the sensor read {lowest_w:.3f} W at {lowest_s:.3f} s, which this rail cannot be"


def _jump(points: Sequence[tuple[float, float]]) -> str | None:
    for start in range(1, len(points) - 1):
        before_w = points[start - 1][1]
        limit_w = _FACTOR * max(abs(before_w), _FLOOR_W)
        if points[start][1] <= limit_w:
            continue
        for end in range(start + 1, min(start + 1 + _LONGEST, len(points))):
            after_w = points[end][1]
            if points[start][1] > _FACTOR * max(abs(after_w), _FLOOR_W):
                return (
                    f"the sensor jumped to {points[start][1]:.3f} W at {points[start][0]:.3f} s, "
                    f"between {before_w:.3f} W and {after_w:.3f} W"
                )
    return None


NO_STEPS = "the meter reads power: its step, step_w, bounds each reading"
GAP_PERIODS = 3  # a longer pause between two samples is a gap


class RailReading(msgspec.Struct, frozen=True, kw_only=True):
    """One rail in one window."""

    energy_j: float
    error_j: float | None  # at most; of a counter that moves in steps
    why_no_error: str
    n_samples: int
    changed_s: tuple[float, ...]  # when a sample differed from the one before
    gaps_s: tuple[float, ...]
    is_counter: bool
    step_w: float | None
    why_no_step: str
    span_w: float  # maximum minus minimum power; 0 for a counter
    fault: str | None


def read_rail(
    rail: str,
    samples: Sequence[PowerSample],
    near: Points,
    window: tuple[float, float],
    facts: RailFacts,
) -> RailReading:
    """The reading of one rail; only the first and last of ``samples`` lie outside the window.

    ``near``: what its counter showed within the window and near it; empty of one that reads power.
    """
    start_s, end_s = window
    counted = all(sample.energy_j is not None for sample in samples)
    points = [
        (sample.monotonic_s, (sample.energy_j if counted else sample.power_w) or 0.0)
        for sample in samples
    ]
    changes = [
        (after_s, abs(after - before))
        for (_, before), (after_s, after) in pairwise(points)
        if after != before and start_s < after_s <= end_s
    ]
    gap_s = GAP_PERIODS * facts.period_s
    pauses = [
        min(after_s, end_s) - max(before_s, start_s)
        for (before_s, _), (after_s, _) in pairwise(points)
        if after_s - before_s > gap_s * (1 + 1e-9)
    ]
    step_w, why_no_step = _step(facts.steps_w.get(rail), counted, changes)
    is_total = facts.total is not None and facts.total.rails == (rail,)
    if counted:
        pace_s = facts.paces_s.get(rail)
        energy_j, error_j, why_no_error = _count(points, near, window, pace_s)
    else:
        energy_j, error_j, why_no_error = trapezoid(points, start_s, end_s), None, NO_STEPS
    return RailReading(
        energy_j=energy_j,
        error_j=error_j,
        why_no_error=why_no_error,
        n_samples=sum(start_s <= time_s <= end_s for time_s, _ in points),
        changed_s=tuple(time_s for time_s, _ in changes),
        gaps_s=tuple(pause_s for pause_s in pauses if pause_s > 0),
        is_counter=counted,
        step_w=step_w,
        why_no_step=why_no_step,
        span_w=0.0 if counted else max(w for _, w in points) - min(w for _, w in points),
        fault=find_fault(samples, step_w, is_total=is_total),
    )


def _count(
    points: Points, near: Points, window: tuple[float, float], pace_s: float | None
) -> tuple[float, float | None, str]:
    """The energy of a window by a counter, its error at most, and why that is not known."""
    before = [point for point in near if point[0] < points[0][0]]
    after = [point for point in near if point[0] > points[-1][0]]
    all_points = [*before, *points, *after]
    if any(later[1] < sooner[1] for sooner, later in pairwise(all_points)):
        all_points = list(points)  # a counter that was reset nearby
    steps = find_steps(all_points, pace_s)
    counted = count_energy(steps, *window)
    if counted is not None:
        return *counted, ""
    seen = f"(steps seen: {len(steps) - 1})"
    why = f"the counter moved too seldom near the window to tell its pace {seen}"
    return difference(points, *window), None, why


def _step(
    known_w: float | None, counted: bool, changes: list[tuple[float, float]]
) -> tuple[float | None, str]:
    """The step the meter knows, else the smallest change seen."""
    if counted:
        return None, "the meter counts energy, which has no step of power"
    if known_w is None and not changes:
        return None, "the meter does not say, and no reading changed"
    return known_w if known_w is not None else min(change for _, change in changes), ""
