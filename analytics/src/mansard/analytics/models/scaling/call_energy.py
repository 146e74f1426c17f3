"""Time, energy and power of a call, from samples and windows of its own, and whether they agree.

Samples that other work disturbed do not count for the time, but a meter cannot leave out a part of
its window. So a window that was disturbed for longer than ``MOST_DISTURBED`` of its length gives no
energy, only a bound of it: a call that waits takes no less. In a calmer one, of length T with n
calls, energy E and disturbed for D,

    power = E / T,   time of a call t = (T − D) / n,   its energy = power · t.

The power while it was disturbed is not known: between none and twice that of the window, the energy
is off by D / (T − D) at most. Where t is outside of the interval of the call's time, by more than
``_AGREES``, something else is different, and no energy is known either. Where it is inside, its
distance from the time is an error of the energy: power · time always lies within the energy's ends.
Of several calm windows those whose calls agree with the time count, where any does: the others hold
calls that the time does not, such as the first ones after a switch of the mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

import numpy as np

from mansard.analytics.data.quantities import percent, seconds
from mansard.analytics.data.statistics import RUN_LATENCY, repetition_deviation, single_half
from mansard.analytics.data.totals import known_totals, why_no_total
from mansard.core.records import EnergyWindow

_AGREES = 0.05  # between the samples of the time and the windows, beyond the interval of the time


class CallTime(NamedTuple):
    """The median, and the ends between which that of the next measurement will be."""

    time_s: float | None
    low_s: float | None
    high_s: float | None


class CallEnergy(NamedTuple):
    """Of one call; the ends are those that disturbances, time and steps of a counter leave open.

    Where the energy is not known, ``high_j`` is the most that it may be, or None as well.
    """

    energy_j: float | None
    low_j: float | None
    high_j: float | None
    above_idle_j: float | None  # without what the machine draws when idle
    power_w: float | None
    reason: str  # why it is not known; empty where it is


class _Metered(NamedTuple):
    """One window of calls."""

    power_w: float
    call_s: float  # undisturbed
    most_j: float  # of a call: with all that ran beside it
    error: float  # relative, at most
    window: EnergyWindow


def timed(seconds_s: Sequence[float]) -> CallTime:
    """The time of a call by samples in their order."""
    if not seconds_s:
        return CallTime(None, None, None)
    value = float(np.median(seconds_s))
    deviation = repetition_deviation(seconds_s)
    if deviation is None:
        return CallTime(value, None, None)
    factor = exp(single_half(RUN_LATENCY, deviation))
    return CallTime(value, value / factor, value * factor)


def call_energy(
    windows: Sequence[EnergyWindow],
    seconds_s: Sequence[float],
    idle_w: float | None = None,
    *,
    is_program: bool = False,
) -> CallEnergy:
    """The energy of a call by ``windows`` of calls, whose times are ``seconds_s``.

    ``is_program``: each window is one run of a program, or of a part that it named.
    """
    metered = [
        _metered(total_j, window, 1 if is_program else window.repetitions)
        for total_j, window in known_totals(windows)
        if is_program or window.repetitions > 0
    ]
    if not metered:
        return _unknown(why_no_total(windows))
    most_j = min(window.most_j for window in metered)
    calm = [each for each in metered if not each.window.is_disturbed]
    if not calm:
        share = percent(min(each.window.disturbed_share for each in metered))
        return _unknown(f"other work disturbed {share} of its energy windows", most_j)
    time_s = timed(seconds_s).time_s
    if time_s is None:
        return _unknown("no time is known that it could be compared with", most_j)
    if not is_program:
        calm = [each for each in calm if agrees(each.call_s, seconds_s)] or calm
    power_w = float(np.median([window.power_w for window in calm]))
    energy_j = float(np.median([window.power_w * window.call_s for window in calm]))
    call_s, error = energy_j / power_w, max(window.error for window in calm)
    if not agrees(call_s, seconds_s):
        why = f"a call took {seconds(call_s)} in its energy windows, not {seconds(time_s)}"
        return _unknown(why, most_j if call_s > time_s else None)
    error += abs(time_s / call_s - 1)
    above_j = None if idle_w is None else energy_j - idle_w * call_s
    return CallEnergy(
        energy_j, energy_j * max(0.0, 1 - error), energy_j * (1 + error), above_j, power_w, ""
    )


def agrees(call_s: float, seconds_s: Sequence[float]) -> bool:
    """Whether a call of ``call_s`` is one of those that took ``seconds_s``, by their interval.

    A window of other calls, as after a switch of the mode, has another energy.
    """
    _, low_s, high_s = timed(seconds_s)
    low_s, high_s = low_s or min(seconds_s), high_s or max(seconds_s)
    return low_s / (1 + _AGREES) <= call_s <= high_s * (1 + _AGREES)


def _metered(total_j: float, window: EnergyWindow, n_calls: int) -> _Metered:
    disturbed_s = window.disturbed_share * window.window_s
    calm_s, error_j = window.window_s - disturbed_s, window.error_j or 0.0
    return _Metered(
        power_w=total_j / window.window_s,
        call_s=calm_s / n_calls,
        most_j=(total_j + error_j) / n_calls,
        error=(disturbed_s / calm_s if calm_s > 0 else 0.0) + error_j / total_j,
        window=window,
    )


def _unknown(why: str, most_j: float | None = None) -> CallEnergy:
    return CallEnergy(None, None, most_j, None, None, why)
