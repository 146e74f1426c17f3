"""How a device keeps up with a mix of networks, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import (
    NBSP,
    counted,
    digits,
    fixed,
    percent_bound,
    relative,
    seconds,
)
from mansard.analytics.decisions.mix_records import BatteryLife, MixAnswer, MixPlan
from mansard.analytics.decisions.workload import MixDecision
from mansard.analytics.pages.words.comparisons import (
    NO_COMMANDS,
    equal_sentence,
    unknown_modes_sentence,
)

NOT_MEASURED = "whether the mode keeps up is known by its roofs alone: measure it first"
_NO_QUEUE = "no queue is modelled: latencies exclude the wait for other networks"
_CONSTANT = "constant power of the energy fit: clocks held at the mode's caps, no work"
_MEASURE_IDLE = (
    "idle time counts at the constant power. An idle board lowers its clocks and draws less: "
    "measure its idle power with 'mansard board watch' and add [idle] to the workload file"
)
_NO_IDLE = "the idle power is unknown, so it is excluded: add [idle] to the workload file"


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
    if is_single and one_mode is not None and one_mode.roofed():
        unknown["commands"] = NOT_MEASURED
    unknown["battery"] = "no battery was given"
    return MixAnswer(
        device=decision.device,
        one_mode=one_mode,
        schedule=schedule,
        others=decision.others,
        equals=decision.equals,
        keeps_up=decision.keeps_up,
        sentence=f"{sentence}{unknown_modes_sentence(reasons)}",
        notes=_notes(decision) if decision.n_tasks else (),
        modes_unknown=reasons,
        unknown=unknown,
    )


def _answer(decision: MixDecision) -> tuple[str, str]:
    """The sentence, and the reason if there is no plan."""
    device = display_name(decision.device)
    if decision.refused:
        return f"Nothing can be recommended for {device}: {decision.refused}.", decision.refused
    if decision.error:
        return f"Nothing can be recommended for {device}: {decision.error}.", decision.error
    if decision.hopeless:
        return _hopeless_sentence(decision), "no mode is known to meet the limits"
    if decision.one_mode is None and decision.schedule is None:
        return _too_much_sentence(decision), "no mode keeps up"
    return _plan_sentence(decision), ""


def _notes(decision: MixDecision) -> tuple[str, ...]:
    notes = [_NO_QUEUE]
    if decision.is_by_time:
        notes.append("energies are unknown: the plan with the least busy time is the best")
    if decision.idle_counts is not None:
        notes += _idle_notes(decision)
    if roofed := decision.roofed():
        plans = (decision.one_mode, decision.schedule)
        is_expected = any(plan is not None and plan.is_expected for plan in plans)
        notes.append(on_roofs(roofed, decision.device, is_expected=is_expected))
    notes += [lower.text for lower in decision.lower_settings]
    return tuple(notes)


def _idle_notes(decision: MixDecision) -> Iterator[str]:
    """Which idle power counts."""
    plans = (decision.one_mode, decision.schedule)
    if any(plans) and not decision.idle_counts:
        yield _NO_IDLE
    if any(plan is not None and plan.idle_source == "constant power" for plan in plans):
        yield _MEASURE_IDLE


def _plan_sentence(decision: MixDecision) -> str:
    """One mode for all, or modes in turn; and how clearly that is the best."""
    one_mode, schedule = decision.one_mode, decision.schedule
    networks = _networks(decision)
    parts = []
    if one_mode is not None:
        whom = f" for {networks}" if decision.n_tasks > 1 else ""
        parts.append(f"One mode{whom}: {_words(one_mode)}.")
    else:
        parts.append(f"No single mode is known to keep up with the {networks}.")
    equals = equal_sentence([*map(display_name, decision.equals)], len(decision.equals))
    parts += [equals.strip()] if equals else []
    if schedule is not None:
        gain = _gain(one_mode, schedule)
        doubt = ", no clear difference" if decision.is_equal else ""
        parts.append(f"Modes in turn: {_words(schedule)}{gain}{doubt}.")
        parts.append(_switching(schedule))
    else:
        parts.append("Switching between modes is not expected to help.")
    if decision.idle_counts is False and decision.others:
        parts.append(
            "Idle power is unknown and may change the choice: add [idle] to the workload file."
        )
    if fitted := _fitted_beside_given(decision):
        names = ", ".join(map(display_name, fitted))
        parts.append(f"The idle power of {names} is a constant power, an upper estimate.")
    if decision.not_compared:
        names = ", ".join(map(display_name, decision.not_compared))
        parts.append(f"Not compared as single modes, since their idle power is unknown: {names}.")
    return " ".join(parts)


def _fitted_beside_given(decision: MixDecision) -> list[str]:
    """The single modes that idle at a constant power, where others have a given idle power."""
    best = () if decision.one_mode is None else (decision.one_mode,)
    sources = {plan.shares[0].mode: plan.idle_source for plan in (*best, *decision.others)}
    fitted = [mode for mode, source in sources.items() if source == "constant power"]
    return fitted if "given" in sources.values() else []


def _networks(decision: MixDecision) -> str:
    return counted(decision.n_tasks, "network")


def _too_much_sentence(decision: MixDecision) -> str:
    """That nothing keeps up, and by how much."""
    networks = f"the {_networks(decision)} on {display_name(decision.device)}"
    if decision.keeps_up >= 1.0:
        return f"No mode keeps up with {networks}: switching between modes takes too long."
    # By what the networks may take at least it may, though not as likely as asked.
    keeps = "is known to keep" if decision.may_keep_up else "keeps"
    return (
        f"No mode {keeps} up with {networks}: {percent_bound(decision.keeps_up)} of the rates can "
        "be met with the requested probability."
    )


def _hopeless_sentence(decision: MixDecision) -> str:
    """Networks that meet their limits in no mode, or in no known one."""
    names = ", ".join(display_name(name) for name in decision.hopeless)
    device = display_name(decision.device)
    if decision.may_fit:
        return (
            f"No mode is known to run {names} within the limits on {device} with the "
            "requested probability: loosen them, or measure more."
        )
    return f"No mode runs {names} within the limits on {device}, whatever else runs: loosen them."


def _words(plan: MixPlan) -> str:
    modes = ", ".join(display_name(mode) for mode in plan.modes)
    power_w = plan.power_w if plan.power_w is not None else plan.active_w
    drawn = "" if power_w is None else f", {digits(power_w, 3)}{NBSP}W on average"
    idles = relative(max(0.0, 1.0 - plan.busy))
    beside = f" plus idle power for the other {idles}" if drawn and plan.power_w is None else ""
    if plan.roofed():
        is_all = all(share.interval == "roof" for share in plan.shares)
        who = "" if is_all else f" for {', '.join(map(display_name, plan.roofed()))}"
        hope = "expected to keep up, " if plan.is_expected else ""
        busy = f"busy for {busy_words(plan)} of the time"
        return f"{modes}, {hope}{busy} (by the roofs alone{who})"
    if plan.is_bounded():
        return f"{modes}, busy for {busy_words(plan)} of the time"
    return f"{modes}, busy for {relative(plan.busy)} of the time{drawn}{beside}"


def busy_words(plan: MixPlan) -> str:
    """The share of time in which something runs: ``9.2 % to 68 %``, ``at most 68 %``."""
    high = percent_bound(plan.busy_high, up=True)
    if plan.is_expected:
        return f"{percent_bound(plan.busy)} to {high}"
    if plan.roofed():
        return f"at least {percent_bound(plan.busy)}"
    return f"at most {high}" if plan.is_bounded() else relative(plan.busy)


def _gain(one_mode: MixPlan | None, schedule: MixPlan) -> str:
    if one_mode is None or one_mode.power_w is None or schedule.power_w is None:
        return ""
    if any(plan.roofed() or plan.is_bounded() for plan in (one_mode, schedule)):
        return ""
    less = 1 - schedule.power_w / one_mode.power_w
    return f", {digits(100 * less, 2)}{NBSP}% less power" if less > 0 else ""


def _switching(schedule: MixPlan) -> str:
    known = [share.wait_s for share in schedule.shares if share.wait_s is not None]
    wait = " How long items wait for their mode is unknown: add period to the workload file."
    if len(known) == len(schedule.shares):
        wait = f" Items wait up to {seconds(max(known))} for their mode."
    if schedule.lost is not None:
        return f"Switching takes {relative(schedule.lost)} of the time.{wait}"
    left = percent_bound(max(0.0, 1.0 - schedule.busy_high))
    return (
        f"How long a switch takes is unknown: the {len(schedule.modes)} switches of a period must "
        f"take less than {left} of it.{wait}"
    )


def on_roofs(networks: Sequence[str], device: str, *, is_expected: bool = False) -> str:
    """Networks with roofs but no known error of them."""
    names = ", ".join(display_name(name) for name in networks)
    whether = "it is unknown whether it keeps up and meets limits of time"
    if is_expected:
        whether = "it keeps up, and meets limits of time, at the longest recorded with TensorRT"
    return (
        f"{names}: not measured on {display_name(device)}, so the times are lower bounds: "
        f"{whether}. Time them there and import the table"
    )


def idle_words(plan: MixPlan) -> str:
    """``idle power 4.40 W (workload file)``: and where it comes from."""
    if plan.idle_w is None:
        return "idle power unknown"
    source = "workload file" if plan.idle_source == "given" else _CONSTANT
    return f"idle power {digits(plan.idle_w, 3)}{NBSP}W ({source})"


def mean_power_words(plan: MixPlan) -> str:
    """The mean power of a plan with its interval, or why it is unknown."""
    if plan.is_bounded():
        return "undetermined: only bounds of the times are known"
    if plan.power_w is None:
        return f"unknown, {plan.unknown.get('power_w')}"
    if plan.roofed():
        return f"at least {digits(plan.power_w, 3)}{NBSP}W"
    return fixed(plan.power_w, "W", plan.power_low_w, plan.power_high_w)


def battery_words(life: BatteryLife, plan: MixPlan | None) -> str:
    """``battery: 6.23 ± 0.14 h: 85 % of 99 Wh at 9.5 W and 4 W``, or why that is unknown."""
    if life.duration_s is None or plan is None or plan.power_w is None:
        return f"battery: unknown, {life.unknown.get('duration_s')}"
    hours, low, high = (
        None if one is None else one / 3600
        for one in (life.duration_s, life.duration_low_s, life.duration_high_s)
    )
    by = "" if low is None else " (± of the mean power only)"
    rest = f" and {digits(life.rest_w, 3)}{NBSP}W for the rest" if life.rest_w else ""
    return (
        f"battery: {fixed(hours, 'h', low, high)}{by}: "
        f"{relative(life.efficiency)} of "
        f"{life.capacity_j / 3600:,.4g}{NBSP}Wh at {digits(plan.power_w, 3)}{NBSP}W{rest}"
    )
