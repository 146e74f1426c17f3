"""Energy of a window from raw samples: pure functions, no clock and no hardware.

A meter either reads power, whose trapezoid over time is energy, or counts
energy, whose difference it is. In both cases the ends of the window are
interpolated between the samples around them, and samples that do not cover the
window are an error: half a window never passes for a whole one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mansard.core.errors import MeasurementError
from mansard.core.records import PowerSample, RailEnergy


def window_energy(
    samples: Sequence[PowerSample], start_s: float, end_s: float
) -> tuple[RailEnergy, ...]:
    """Energy of each rail between two monotonic times, in the rails' first order.

    Raises MeasurementError if the samples of a rail do not reach from ``start_s``
    to ``end_s`` or the window is empty.
    """
    if not end_s > start_s:
        raise MeasurementError(f"the energy window from {start_s} s to {end_s} s is empty")
    rails = dict.fromkeys(sample.rail for sample in samples)
    return tuple(
        _rail_energy([sample for sample in samples if sample.rail == rail], start_s, end_s)
        for rail in rails
    )


def windows_energy(
    samples: Sequence[PowerSample], windows_s: Sequence[tuple[float, float]]
) -> tuple[RailEnergy, ...]:
    """Energy of each rail over several windows together: joules and lengths add up.

    Raises MeasurementError as ``window_energy`` does, or where there is no window.
    """
    if not windows_s:
        raise MeasurementError("there is no window to take the energy of")
    rows = zip(*(window_energy(samples, *window) for window in windows_s), strict=True)
    return tuple(
        RailEnergy(
            rail=parts[0].rail,
            energy_j=sum(part.energy_j for part in parts),
            window_s=sum(part.window_s for part in parts),
            n_samples=sum(part.n_samples for part in parts),
        )
        for parts in rows
    )


def _rail_energy(samples: list[PowerSample], start_s: float, end_s: float) -> RailEnergy:
    ordered = sorted(samples, key=lambda sample: sample.monotonic_s)
    counted = [(s.monotonic_s, s.energy_j) for s in ordered if s.energy_j is not None]
    powers = [(s.monotonic_s, s.power_w) for s in ordered if s.power_w is not None]
    times_s = [time_s for time_s, _ in counted or powers]
    if not times_s or times_s[0] > start_s or times_s[-1] < end_s:
        reach = f"from {times_s[0]:.3f} s to {times_s[-1]:.3f} s " if times_s else ""
        raise MeasurementError(
            f"the readings {reach}do not cover the window from {start_s:.3f} s to {end_s:.3f} s",
            where=f"rail {ordered[0].rail}",
        )
    if counted:
        energy_j = _value_at(counted, end_s) - _value_at(counted, start_s)
    else:
        energy_j = _trapezoid(powers, start_s, end_s)
    inside = [sample for sample in ordered if start_s <= sample.monotonic_s <= end_s]
    return RailEnergy(
        rail=ordered[0].rail,
        energy_j=energy_j,
        window_s=end_s - start_s,
        n_samples=len(inside),
    )


def _value_at(points: list[tuple[float, float]], time_s: float) -> float:
    """Linear interpolation in points ordered by time that reach around ``time_s``."""
    for (before_s, before), (after_s, after) in pairwise(points):
        if before_s <= time_s <= after_s:
            if after_s == before_s:
                return after
            return before + (after - before) * (time_s - before_s) / (after_s - before_s)
    return points[0][1]  # a single sample, at the very time asked for


def _trapezoid(points: list[tuple[float, float]], start_s: float, end_s: float) -> float:
    inside = [point for point in points if start_s < point[0] < end_s]
    first = (start_s, _value_at(points, start_s))
    last = (end_s, _value_at(points, end_s))
    curve = [first, *inside, last]
    return sum((b_s - a_s) * (a + b) / 2 for (a_s, a), (b_s, b) in pairwise(curve))
