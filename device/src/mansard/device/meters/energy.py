"""Energy of a window from raw samples: pure functions, no clock and no hardware.

A meter either reads power, whose trapezoid over time is energy, or counts energy, whose
difference it is, in steps (``counters``). In both cases the ends of the window are interpolated
between the samples around them. Samples that do not cover the window are an error: half a window
never passes for a whole one. A rail whose readings say too little, or cannot be true, has
no energy but a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

from mansard.core.records import EnergyWindow, PowerSample, RailEnergy
from mansard.device.meters.meter import RailFacts
from mansard.device.meters.readings import RailReading, around, counted_near, read_rail
from mansard.device.totals import Total, total_power

NOT_SETTLED = "only a kernel or network that repeats without pause can settle"
NOT_JUDGED = "only repetitions of a kernel or network are watched for it"
N_CHANGED_MIN = 20  # changed readings of the sensor that an energy needs
_STUCK_STEPS = 4  # that a part moves while the whole stays: more than rounding explains
_PAUSE_SHARE = 0.1  # share of a window that may be gaps; beyond it a trapezoid would be a guess


def window_energy(
    samples: Sequence[PowerSample],
    start_s: float,
    end_s: float,
    facts: RailFacts,
    *,
    repetitions: int = 0,
    n_changed_min: int = N_CHANGED_MIN,
) -> EnergyWindow:
    """Energy of each rail and of the total between two monotonic times.

    ``samples`` stand in the order of time. A sensor that changed less often than
    ``n_changed_min`` is not measurable in this window; rails of one chip are renewed
    together, so that a rail which stays at one value while its neighbours change is constant
    to within a step. Raises MeasurementError if samples do not cover the window.
    """
    window_s = end_s - start_s
    inside = around(samples, start_s, end_s)
    is_counted = any(series[0].energy_j is not None for series in inside.values())
    near = counted_near(samples, start_s, end_s) if is_counted else {}
    readings = {
        rail: read_rail(rail, series, near.get(rail, ()), (start_s, end_s), facts)
        for rail, series in inside.items()
    }
    changes = _sensor_changes(readings, facts)
    why = {
        rail: reading.fault
        or _stood_still(reading, window_s)
        or _stuck(rail, readings, facts.total)
        or _paused(reading, window_s)
        or _too_few(reading, changes[rail], n_changed_min, window_s, facts.period_s)
        for rail, reading in readings.items()
    }
    rails = tuple(_rail_energy(rail, reading, why[rail]) for rail, reading in readings.items())
    total_j, reason = _total(rails, readings, window_s, facts)
    unknown = {} if total_j is not None else {"total_j": reason}
    error_j, why_no_error = _total_error(rails, total_j, reason, facts)
    if error_j is None:
        unknown["error_j"] = why_no_error
    return EnergyWindow(
        start_s=start_s,
        window_s=window_s,
        repetitions=repetitions,
        rails=rails,
        total_j=total_j,
        error_j=error_j,
        is_settled=None,
        disturbed_s=None,
        unknown={
            **unknown,
            "is_settled": NOT_SETTLED,
            "disturbed_s": NOT_JUDGED,
        },
    )


def _sensor_changes(readings: dict[str, RailReading], facts: RailFacts) -> dict[str, int]:
    """For each rail how many of its chip's readings brought a change on any of its rails."""
    chips: dict[str, list[RailReading]] = {}
    for rail, reading in readings.items():
        chips.setdefault(facts.sensors.get(rail, rail), []).append(reading)
    # The rails of a chip are read within a fraction of the period: changes closer than half
    # a period belong to one reading.
    counts = {}
    for chip, rails in chips.items():
        times_s = sorted(time_s for reading in rails for time_s in reading.changed_s)
        apart = sum(b - a > facts.period_s / 2 for a, b in pairwise(times_s))
        most = max(len(reading.changed_s) for reading in rails)
        counts[chip] = max(most, apart + 1 if times_s else 0)
    return {rail: counts[facts.sensors.get(rail, rail)] for rail in readings}


def _stood_still(reading: RailReading, window_s: float) -> str | None:
    if not reading.is_counter or reading.changed_s:
        return None  # a rail at a constant power is one thing, no energy in a window another
    return (
        f"not measurable: the energy counter did not change for {window_s:.3g} s, in "
        f"{reading.n_samples} readings; run it longer, in a loop, unless the counter has "
        "stopped"
    )


def _stuck(rail: str, readings: dict[str, RailReading], total: Total | None) -> str | None:
    """Whether a rail that holds others stood still while one of them moved by several steps."""
    reading = readings[rail]
    if total is None or total.rails != (rail,) or reading.changed_s or reading.is_counter:
        return None
    for part in total.parts:
        moved = readings.get(part)
        if moved is not None and moved.span_w > _STUCK_STEPS * max(
            moved.step_w or 0.0, reading.step_w or 0.0
        ):
            moved_w = f"{moved.span_w:.3g} W"
            return f"the sensor is stuck: it stayed the same while {part} moved by {moved_w}"
    return None


def _paused(reading: RailReading, window_s: float) -> str | None:
    paused_s = sum(reading.gaps_s)
    if reading.is_counter or paused_s <= _PAUSE_SHARE * window_s:
        return None  # a counter goes on between two readings
    return f"not measurable: no reading for {paused_s:.3g} s of {window_s:.3g} s"


def _too_few(
    reading: RailReading, n_changed: int, n_changed_min: int, window_s: float, period_s: float
) -> str | None:
    if n_changed >= n_changed_min:
        return None
    if n_changed:
        seen = f"{n_changed} changed values of {n_changed_min} in {window_s:.3g} s"
        enough_s = window_s * n_changed_min / n_changed
        return f"not measurable: {seen}; run it for {_round_up(enough_s):g} s, in a loop"
    if reading.n_samples < n_changed_min:
        seen = f"{reading.n_samples} readings in {window_s:.3g} s"
        return (
            f"not measurable: {seen}, and no change among them; run it for "
            f"{_round_up(n_changed_min * period_s):g} s, in a loop"
        )
    return (
        f"not measurable: all {reading.n_samples} readings in {window_s:.3g} s are the same; the "
        "sensor is stuck, or its steps are too coarse for this load; a longer run does not help"
    )


def _round_up(seconds_s: float) -> float:
    # Not more than 0.1 s too much; the tiny amount takes back what binary fractions add.
    return ceil(seconds_s * 10 - 1e-9) / 10


def _rail_energy(rail: str, reading: RailReading, why: str | None) -> RailEnergy:
    unknown = {"energy_j": why} if why else {}
    if why or reading.error_j is None:
        unknown["error_j"] = why or reading.why_no_error
    if reading.step_w is None:
        unknown["step_w"] = reading.why_no_step
    return RailEnergy(
        rail=rail,
        energy_j=None if why else reading.energy_j,
        error_j=None if why else reading.error_j,
        n_samples=reading.n_samples,
        n_changed=len(reading.changed_s),
        n_gaps=len(reading.gaps_s),
        step_w=reading.step_w,
        unknown=unknown,
    )


def _total(
    rails: tuple[RailEnergy, ...],
    readings: dict[str, RailReading],
    window_s: float,
    facts: RailFacts,
) -> tuple[float | None, str]:
    if facts.total is None:
        return None, facts.why_no_total
    powers_w = {
        rail: reading.energy_j / window_s for rail, reading in readings.items() if not reading.fault
    }
    # A part need not be measurable to show that labels are swapped; what is added must be.
    for rail in rails:
        if rail.energy_j is None and rail.rail in facts.total.rails:
            powers_w.pop(rail.rail, None)
    steps_w = {rail: reading.step_w or 0.0 for rail, reading in readings.items()}
    why = {rail.rail: rail.unknown.get("energy_j", "") for rail in rails}
    total = total_power(powers_w, facts.total, steps_w, why)
    if total.power_w is None:
        return None, total.reason
    # Not power times length: one rail that is the total has its very energy.
    return sum(readings[rail].energy_j for rail in facts.total.rails), ""


def _total_error(
    rails: tuple[RailEnergy, ...], total_j: float | None, why_no_total: str, facts: RailFacts
) -> tuple[float | None, str]:
    """The errors of the rails of the total together, at most."""
    if total_j is None or facts.total is None:
        return None, why_no_total
    added = [rail for rail in rails if rail.rail in facts.total.rails]
    errors_j = [rail.error_j for rail in added if rail.error_j is not None]
    if len(errors_j) < len(added):
        return None, next(rail.unknown["error_j"] for rail in added if rail.error_j is None)
    return sum(errors_j), ""
