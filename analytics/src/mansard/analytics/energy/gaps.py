"""What a set of energy points lacks, so that coefficients could be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mansard.analytics.energy.least_squares import Array

if TYPE_CHECKING:
    from mansard.analytics.energy.fit import EnergyPoint

_NEAR = 0.8  # a point with this share of the best rate is bound by it
_SAME_INTENSITY = 1.5  # intensities within this factor are one


def missing_points(points: Sequence[EnergyPoint]) -> tuple[str, ...]:
    """What kinds of points are not there, in words; they would make the fit better."""
    loaded = [point for point in points if not point.is_idle]
    found = [] if len(loaded) < len(points) else ["no idle point"]
    if not loaded:
        return (*found, "no point under load")
    work = np.array([sum(point.work_flop.values()) for point in loaded])
    traffic = np.array([sum(point.traffic_bytes.values()) for point in loaded])
    if not work.any():
        found.append("no point computes")
    elif not traffic.any():
        found.append("no point moves bytes")
    else:
        with np.errstate(divide="ignore"):
            intensities = work / traffic
        if intensities.max() <= _SAME_INTENSITY * intensities.min():
            found.append("one intensity only")
    times_s = np.array([point.window_s for point in loaded])
    for kinds, unit in (
        ([point.work_flop for point in loaded], "arithmetic"),
        ([point.traffic_bytes for point in loaded], "memory"),
    ):
        if (_shares(kinds, times_s) >= _NEAR).all():
            found.append(f"all points are bound by {unit}")
    return tuple(found)


def _shares(amounts: Sequence[dict[str, float]], times_s: Array) -> Array:
    """How near each point comes to the best rate of its kinds; they share its time."""
    shares = np.zeros(len(times_s))
    for name in sorted({name for kinds in amounts for name in kinds}):
        rates = np.array([kinds.get(name, 0.0) for kinds in amounts]) / times_s
        if rates.any():
            shares += rates / rates.max()
    return shares
