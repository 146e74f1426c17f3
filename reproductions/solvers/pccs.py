"""The rule by which the reference implementation of PCCS finds its parameters.

Source: https://github.com/processorcentricmodel/PCCS, model_construction. It reads the parameters
off the matrix and minimises no error. Two details are kept as they are there: the contention
balance point lies one external demand further than where the slope ends, and its mean divides by
one row too many.
"""

from __future__ import annotations

import msgspec
import numpy as np

from mansard.core.errors import InputError
from mansard.core.records.schedule import ContentionSurface, PccsFit
from mansard.scheduler.contention import error_points, losses

_GREATEST_MINOR_POINTS = 10.0


def reference_fit(surface: ContentionSurface, peak_byte_per_s: float) -> PccsFit:
    """Its parameters for a surface; ``peak_byte_per_s`` is the memory's, from a data sheet.

    Raises InputError where the rule finds no minor or no normal region.
    """
    own, external, lost = losses(surface)
    threshold = 2 * lost[0, -1]
    first = _first(lost[:, -1] > threshold)
    if lost[0, -1] > _GREATEST_MINOR_POINTS or first == len(own):
        raise InputError(
            "the rule of the PCCS implementation finds no minor or no normal region",
            where=f"the least own demand loses {lost[0, -1]:.1f} points",
            fix="use fit_pccs",
        )
    last = first + _first(lost[first:, 0] >= threshold)
    rows = range(first, last)
    if not rows:
        raise InputError(
            "the rule of the PCCS implementation finds no normal region",
            where=f"an own demand of {own[first]:g} B/s loses at once",
            fix="use fit_pccs",
        )
    final = len(external) - 1
    total = np.mean([own[r] + external[min(_first(lost[r] >= threshold), final)] for r in rows])
    slopes = np.diff(lost, axis=1) / np.diff(external)  # [row][column − 1]
    ends = []
    for r in rows:
        taken: list[float] = []
        column = len(external)
        for c in range(1, len(external)):
            if own[r] + external[c] < total:
                continue
            if taken and 3 * slopes[r, c - 1] < np.mean(taken):
                column = c
                break
            taken.append(float(slopes[r, c - 1]))
        ends.append(external[min(column + 1, final)])
    limit = sum(ends) / (len(rows) + 1)
    inside = external[1:] <= limit
    fit = PccsFit(
        normal_byte_per_s=float(own[first - 1]),
        intensive_byte_per_s=float(
            own[last] if last < len(own) else np.max(surface.achieved_byte_per_s)
        ),
        peak_byte_per_s=peak_byte_per_s,
        minor_points=float(lost[first - 1, -1]),
        contention_byte_per_s=float(limit),
        total_byte_per_s=float(total),
        points_per_byte_per_s=float(slopes[first:last, inside].mean()),
        error_points=0.0,
        left_out_points=None,
        unknown={"left_out_points": "the rule has no error of its own"},
    )
    return msgspec.structs.replace(fit, error_points=error_points(fit, surface))


def _first(holds: np.typing.NDArray[np.bool_]) -> int:
    """The place of the first that holds, else how many there are."""
    return int(np.argmax(holds)) if holds.any() else len(holds)
