"""How a device keeps up with a mix of networks, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP, digits, percent_bound, relative
from mansard.analytics.decisions.time_sharing import MixAnswer, MixPlan
from mansard.analytics.decisions.workload import MixDecision
from mansard.analytics.pages.words.comparisons import NO_COMMANDS, unknown_modes_sentence

_NO_QUEUE = "no queue is modelled: latencies exclude the wait for other networks"
_IDLE_IS_AWAKE = "idle counts at the mode's constant power; a sleeping board draws less"


def mix_in_words(decision: MixDecision) -> MixAnswer:
    """The answer for a device: what was decided, with its sentence and its notes."""
    one_mode, schedule = decision.one_mode, decision.schedule
    reasons = dict(decision.modes_unknown)
    sentence, why = _answer(decision)
    if reasons and why:
        sentence = f"Whether a mode keeps up is unknown. Of the known ones: {sentence}"
    unknown = {"one_mode": why, "schedule": why} if why else {}
    if one_mode is None and schedule is not None:
        unknown = {"one_mode": "no single mode keeps up"}
    elif one_mode is not None and schedule is None:
        unknown = {"schedule": "modes in turn would not be better"}
    is_single = one_mode is not None and schedule is None
    unknown["commands"] = NO_COMMANDS if is_single else "no single mode is recommended"
    return MixAnswer(
        device=decision.device,
        one_mode=one_mode,
        schedule=schedule,
        keeps_up=decision.keeps_up,
        sentence=f"{sentence}{unknown_modes_sentence(reasons)}",
        notes=_notes(decision) if decision.n_tasks else (),
        modes_unknown=reasons,
        unknown=unknown,
    )


def _answer(decision: MixDecision) -> tuple[str, str]:
    """The sentence, and the reason if there is no plan."""
    if decision.refused:
        device = display_name(decision.device)
        return f"Nothing can be recommended for {device}: {decision.refused}.", decision.refused
    if decision.error:
        return f"{decision.error}.", "it cannot be planned"
    if decision.hopeless:
        sentence = hopeless_sentence(decision.hopeless, may_fit=decision.may_fit)
        return sentence, "no mode is known to meet the limits"
    sentence = mix_sentence(
        decision.one_mode,
        decision.schedule,
        decision.n_tasks,
        decision.keeps_up,
        may_keep_up=decision.may_keep_up,
    )
    has_plan = decision.one_mode is not None or decision.schedule is not None
    return sentence, "" if has_plan else "no mode keeps up"


def _notes(decision: MixDecision) -> tuple[str, ...]:
    notes = [_NO_QUEUE]
    if decision.is_by_time:
        notes.append("energies are unknown: the plan with the least busy time is the best")
    if decision.idle_counts is not None:
        unknown = "the constant power is unknown: idle power is excluded"
        notes.append(_IDLE_IS_AWAKE if decision.idle_counts else unknown)
    if roofed := decision.roofed():
        notes.append(on_roofs(roofed, decision.device))
    notes += [lower.text for lower in decision.lower_settings]
    return tuple(notes)


def mix_sentence(
    one_mode: MixPlan | None,
    schedule: MixPlan | None,
    n_tasks: int,
    keeps_up: float,
    *,
    may_keep_up: bool,
) -> str:
    """One mode for all, modes in turn, or that nothing keeps up and by how much.

    ``may_keep_up``: by what the networks may take at least, though not as likely as asked.
    """
    networks = f"{n_tasks} network{'s' if n_tasks > 1 else ''}"
    if one_mode is None and schedule is None:
        if keeps_up >= 1.0:
            return f"No mode keeps up with the {networks}: switching between modes takes too long."
        keeps = "is known to keep" if may_keep_up else "keeps"
        return (
            f"No mode {keeps} up with the {networks}: {percent_bound(keeps_up)} of the rates can "
            "be kept with the probability asked for."
        )
    parts = []
    if one_mode is not None:
        parts.append(f"One mode for {networks}: {_words(one_mode)}.")
    else:
        parts.append(f"No single mode is known to keep up with the {networks}.")
    if schedule is not None:
        parts.append(f"Modes in turn: {_words(schedule)}{_gain(one_mode, schedule)}.")
        parts.append(_switching(schedule))
    else:
        parts.append("Switching between modes is not expected to help.")
    return " ".join(parts)


def hopeless_sentence(networks: Sequence[str], *, may_fit: bool) -> str:
    """Networks that meet their limits in no mode, or in no known one."""
    names = ", ".join(display_name(name) for name in networks)
    if may_fit:
        return (
            f"No mode is known to run {names} within the limits with the probability asked for: "
            "loosen them, or measure more."
        )
    return f"No mode runs {names} within the limits, whatever else runs: loosen them."


def _words(plan: MixPlan) -> str:
    modes = ", ".join(display_name(mode) for mode in plan.modes)
    power_w = plan.power_w if plan.power_w is not None else plan.active_w
    drawn = "" if power_w is None else f", {digits(power_w, 3)}{NBSP}W on average"
    beside = " excluding idle power" if power_w is not None and plan.power_w is None else ""
    if plan.roofed():
        is_all = all(share.interval == "roof" for share in plan.shares)
        who = "" if is_all else f" for {', '.join(map(display_name, plan.roofed()))}"
        least = percent_bound(plan.busy)
        return f"{modes}, busy for at least {least} of the time (by the roofs alone{who})"
    if plan.is_bounded():
        return f"{modes}, busy for at most {percent_bound(plan.busy_high, up=True)} of the time"
    return f"{modes}, busy for {relative(plan.busy)} of the time{drawn}{beside}"


def _gain(one_mode: MixPlan | None, schedule: MixPlan) -> str:
    if one_mode is None or one_mode.power_w is None or schedule.power_w is None:
        return ""
    if any(plan.roofed() or plan.is_bounded() for plan in (one_mode, schedule)):
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
        f"{percent_bound(left)} of it, no more."
    )


def on_roofs(networks: Sequence[str], device: str) -> str:
    """Networks with roofs but no known error of them."""
    names = ", ".join(display_name(name) for name in networks)
    return (
        f"{names}: not measured on {display_name(device)}, so the times are lower bounds: it is "
        "unknown whether it keeps up and meets limits of time. Time them there and import the table"
    )
