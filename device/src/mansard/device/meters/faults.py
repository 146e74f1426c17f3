"""Readings that cannot be true: a sensor that fell silent, jumped, or went below zero.

Such a reading is found here and makes the energy of its window unknown, with the reason;
it is never left out, because nobody knows what it stood for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mansard.core.records import PowerSample

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
    """What is wrong with a rail's samples, in words; None where nothing is.

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
