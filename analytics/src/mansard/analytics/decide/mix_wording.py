"""What a mix comes to, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.data.names import shown
from mansard.analytics.data.quantities import NBSP, digits, percent, relative
from mansard.analytics.decide.mix_records import MixPlan


def mix_sentence(
    one_mode: MixPlan | None, schedule: MixPlan | None, n_tasks: int, keeps_up: float
) -> str:
    """One mode for all, modes in turn, or that nothing keeps up and by how much."""
    networks = f"{n_tasks} network{'s' if n_tasks > 1 else ''}"
    if one_mode is None and schedule is None:
        if keeps_up >= 1.0:
            return f"No mode keeps up with the {networks}: switching between modes takes too long."
        return (
            f"No mode keeps up with the {networks}: with each in the mode that runs it fastest, "
            f"{percent(keeps_up)} of the rates can be kept."
        )
    parts = []
    if one_mode is not None:
        parts.append(f"One mode for all {networks}: {_words(one_mode)}.")
    else:
        parts.append(f"No single mode keeps up with the {networks}.")
    if schedule is not None:
        parts.append(f"Modes in turn: {_words(schedule)}{_gain(one_mode, schedule)}.")
        parts.append(_switching(schedule))
    else:
        parts.append("Modes in turn would not be better.")
    return " ".join(parts)


def hopeless_sentence(networks: Sequence[str]) -> str:
    """That some networks keep their limits in no mode."""
    names = ", ".join(shown(name) for name in networks)
    return f"No mode runs {names} within the limits, whatever else runs: loosen them."


def _words(plan: MixPlan) -> str:
    modes = ", ".join(shown(mode) for mode in plan.modes)
    power_w = plan.power_w if plan.power_w is not None else plan.active_w
    drawn = "" if power_w is None else f", {digits(power_w, 3)}{NBSP}W on average"
    beside = " without what idles" if power_w is not None and plan.power_w is None else ""
    return f"{modes}, busy for {percent(plan.busy)} of the time{drawn}{beside}"


def _gain(one_mode: MixPlan | None, schedule: MixPlan) -> str:
    if one_mode is None or one_mode.power_w is None or schedule.power_w is None:
        return ""
    less = 1 - schedule.power_w / one_mode.power_w
    return f", {digits(100 * less, 2)}{NBSP}% less power" if less > 0 else ""


def _switching(schedule: MixPlan) -> str:
    if schedule.lost is not None:
        return f"Switching takes {relative(schedule.lost)} of the time."
    left = max(0.0, 1.0 - schedule.busy_high)
    n_modes = len(schedule.modes)
    return (
        f"How long a switch takes is unknown: {n_modes} switches in a round may take "
        f"{percent(left)} of it, no more."
    )
