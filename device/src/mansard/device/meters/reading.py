"""What the samples of one rail say about a window, whether or not it is believed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from mansard.core.records import PowerSample
from mansard.device.meters.faults import find_fault
from mansard.device.meters.integrals import difference, trapezoid
from mansard.device.meters.meter import RailFacts

GAP_PERIODS = 3  # a longer pause between two samples is a gap


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One rail in one window."""

    energy_j: float
    n_samples: int
    changed_s: tuple[float, ...]  # when a sample differed from the one before
    gaps_s: tuple[float, ...]
    is_counter: bool
    step_w: float | None
    why_no_step: str
    span_w: float  # between the least and the greatest power; of a counter 0
    fault: str | None


def read_rail(
    rail: str, samples: Sequence[PowerSample], start_s: float, end_s: float, facts: RailFacts
) -> Reading:
    """What ``samples`` of one rail say, of which only the first and last are outside the window."""
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
    return Reading(
        energy_j=difference(points, start_s, end_s)
        if counted
        else trapezoid(points, start_s, end_s),
        n_samples=sum(start_s <= time_s <= end_s for time_s, _ in points),
        changed_s=tuple(time_s for time_s, _ in changes),
        gaps_s=tuple(pause_s for pause_s in pauses if pause_s > 0),
        is_counter=counted,
        step_w=step_w,
        why_no_step=why_no_step,
        span_w=0.0 if counted else max(w for _, w in points) - min(w for _, w in points),
        fault=find_fault(samples, step_w, is_total=is_total),
    )


def _step(
    known_w: float | None, counted: bool, changes: list[tuple[float, float]]
) -> tuple[float | None, str]:
    """The step the meter knows, else the smallest change seen."""
    if counted:
        return None, "the meter counts energy, which has no step of power"
    if known_w is None and not changes:
        return None, "the meter does not say, and no reading changed"
    return known_w if known_w is not None else min(change for _, change in changes), ""
