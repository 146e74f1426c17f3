"""A mix of networks on one device: the best mode for all of them, or modes in turn.

With r items per second of a network, each of τ seconds and E joules, the device is busy for
Σ r τ of every second and draws Σ r E + (1 − Σ r τ) π₀ on average, where π₀ is the constant power
of the mode that it idles in. It keeps up where Σ r τ ≤ 1. No queue is modelled: items that
arrive while another network runs wait, and that wait is in no latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from msgspec.structs import replace as replace_fields

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP, digits, percent, relative
from mansard.analytics.data.unknown_modes import UnknownModes, unknown_modes
from mansard.analytics.decisions.records import Objective, Wanted
from mansard.analytics.decisions.time_sharing import (
    Mix,
    MixAnswer,
    MixPlan,
    Options,
    cost_of,
    find_options,
    is_better,
    least_time,
    objective_of,
    solve,
)
from mansard.core.errors import UsageError


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
            f"No mode {keeps} up with the {networks}: {percent(keeps_up)} of the rates can be kept "
            "as likely as asked."
        )
    parts = []
    if one_mode is not None:
        parts.append(f"One mode for all {networks}: {_words(one_mode)}.")
    else:
        parts.append(f"No single mode is known to keep up with the {networks}.")
    if schedule is not None:
        parts.append(f"Modes in turn: {_words(schedule)}{_gain(one_mode, schedule)}.")
        parts.append(_switching(schedule))
    else:
        parts.append("Modes in turn are not predicted to be better.")
    return " ".join(parts)


def hopeless_sentence(networks: Sequence[str], *, may_fit: bool) -> str:
    """That some networks keep their limits in no mode, or in none that is known."""
    names = ", ".join(display_name(name) for name in networks)
    if may_fit:
        return (
            f"No mode is known to run {names} within the limits as likely as asked: loosen them, "
            "or measure more."
        )
    return f"No mode runs {names} within the limits, whatever else runs: loosen them."


def _words(plan: MixPlan) -> str:
    modes = ", ".join(display_name(mode) for mode in plan.modes)
    power_w = plan.power_w if plan.power_w is not None else plan.active_w
    drawn = "" if power_w is None else f", {digits(power_w, 3)}{NBSP}W on average"
    beside = " without what idles" if power_w is not None and plan.power_w is None else ""
    if plan.roofed():
        return f"{modes}, busy for at least {percent(plan.busy)} of the time"
    if plan.is_bounded():
        return f"{modes}, busy for at most {percent(plan.busy_high)} of the time"
    return f"{modes}, busy for {percent(plan.busy)} of the time{drawn}{beside}"


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
        f"{percent(left)} of it, no more."
    )


NO_QUEUE = "no queue is modelled: the wait while another network runs is in no latency"
IDLE_IS_AWAKE = "idle is counted at the mode's constant power; a board that sleeps draws less"


def on_roofs(networks: Sequence[str], device: str) -> str:
    """That nothing tells how much longer than their roofs some networks take."""
    names = ", ".join(display_name(name) for name in networks)
    return (
        f"{names}: not measured on {display_name(device)}, so the times are at best these: whether "
        "it keeps up, and any limit of time, is not known. Time them there and import the table"
    )


def constant_powers(coefficients: pl.DataFrame, device: str) -> dict[str, float]:
    """The constant power of each mode of ``device``, W, where COEFFICIENT_SCHEMA has it."""
    rows = coefficients.filter(
        pl.col("device") == device,
        pl.col("quantity") == "constant_power",
        pl.col("value").is_finite() & (pl.col("value") > 0),
    )
    return dict(zip(rows["mode"].to_list(), rows["value"].to_list(), strict=True))


def plan_mixes(
    predictions: pl.DataFrame,
    mix: Mix,
    wanted: Wanted,
    coefficients: pl.DataFrame,
    refused: Mapping[tuple[str, str], str] | None = None,
    modes: pl.DataFrame | None = None,
) -> tuple[MixAnswer, ...]:
    """``plan_mix`` for every device; constant powers are those of ``coefficients``.

    ``refused``: by device and network, why nothing is recommended. ``modes``: MODE_SCHEMA of those
    to choose from, where some may have no prediction.
    """
    whys = {device: why for (device, _), why in (refused or {}).items()}
    answers: list[MixAnswer] = []
    errors: list[UsageError] = []
    for (device,), rows in predictions.group_by("device", maintain_order=True):
        if (why := whys.get(str(device))) is not None:
            sentence = f"Nothing can be recommended for {display_name(str(device))}: {why}."
            answers.append(_cannot(str(device), sentence, why, 0.0))
            continue
        try:
            found = plan_mix(rows, mix, wanted, constant_powers(coefficients, str(device)))
            answers.append(_with_unknown(found, rows, mix, wanted, modes))
        except UsageError as error:  # another device may well have what this one lacks
            errors.append(error)
            answers.append(_cannot(str(device), f"{error}.", "it cannot be planned", 0.0))
    if errors and len(errors) == len(answers):
        raise errors[0]
    return tuple(answers)


def _with_unknown(
    found: MixAnswer, rows: pl.DataFrame, mix: Mix, wanted: Wanted, modes: pl.DataFrame | None
) -> MixAnswer:
    """The answer with the modes that it does not know, and what they leave open."""
    asked: list[str] = []
    if modes is not None:
        asked = modes.filter(pl.col("device") == found.device)["mode"].to_list()
    reasons: dict[str, str] = {}
    for task in mix.tasks:
        own = rows.filter(pl.col("network") == task.network)
        batches = wanted.batches if task.batch is None else (task.batch,)
        for mode, why in unknown_modes(own, asked, batches).reasons.items():
            reasons.setdefault(mode, f"{display_name(task.network)} there: {why}")
    if not reasons:
        return found
    sentence = found.sentence
    if found.one_mode is None and found.schedule is None:
        sentence = f"Whether a mode keeps up is not known. Of those that are known: {sentence}"
    return replace_fields(
        found,
        sentence=f"{sentence}{UnknownModes(reasons).sentence()}",
        modes_unknown=reasons,
    )


def plan_mix(
    predictions: pl.DataFrame, mix: Mix, wanted: Wanted, idle_w: Mapping[str, float]
) -> MixAnswer:
    """How one device keeps up with ``mix``, by PREDICTION_SCHEMA rows of that device.

    Minimises the mean power (of energy and power alike), or the time in which it is busy (of
    latency). ``idle_w``: the constant power of each mode; without it what idles is in no sum.
    A schedule is only given where it is better than the best single mode, or the only way.
    Raises UsageError as ``find_options``, and for the energy-delay product, which a mix does not
    have.
    """
    if wanted.minimise == "edp":
        raise UsageError("a mix has no energy-delay product", fix="minimise energy or latency")
    if predictions["device"].n_unique() != 1:
        raise UsageError("a mix runs on one device", fix="ask for each device alone")
    options = find_options(predictions, mix, wanted)
    device = str(predictions["device"][0])
    hopeless = [each for each in options if not each.rows]
    if hopeless:
        lost = [each for each in hopeless if np.isinf(each.least_busy)]
        names = [each.task.network for each in lost or hopeless]
        sentence = hopeless_sentence(names, may_fit=not lost)
        return _cannot(device, sentence, "no mode is known to keep the limits", 0.0)
    notes = [NO_QUEUE]
    if wanted.falls_back and any(np.isnan(each.active_w).all() for each in options):
        wanted = replace(wanted, minimise="latency")
        notes.append("energies are unknown: what is busy for the least time is the best")
    if wanted.minimise != "latency":
        options = _with_energy(options)
        notes.append(IDLE_IS_AWAKE if idle_w else "the constant power is unknown: idle is not in")
    one_mode = _best_single(options, wanted.minimise, idle_w)
    schedule = _best_schedule(options, mix, wanted.minimise, idle_w)
    if one_mode is not None and schedule is not None:
        schedule = schedule if is_better(schedule, one_mode, wanted.minimise) else None
    roofed = {name: None for plan in (one_mode, schedule) if plan for name in plan.roofed()}
    if roofed:
        notes.append(on_roofs(tuple(roofed), device))
    keeps_up = min(1.0, 1.0 / least_time([each.busy_high for each in options]))
    may_keep_up = sum(each.least_busy for each in options) <= 1.0
    sentence = mix_sentence(one_mode, schedule, len(mix.tasks), keeps_up, may_keep_up=may_keep_up)
    if one_mode is None and schedule is None:
        return _cannot(device, sentence, "no mode keeps up", keeps_up, tuple(notes))
    return MixAnswer(
        device=device,
        one_mode=one_mode,
        schedule=schedule,
        keeps_up=keeps_up,
        sentence=sentence,
        notes=tuple(notes),
        unknown=_which_missing(one_mode, schedule),
    )


def _cannot(
    device: str, sentence: str, why: str, keeps_up: float, notes: tuple[str, ...] = ()
) -> MixAnswer:
    return MixAnswer(
        device=device,
        one_mode=None,
        schedule=None,
        keeps_up=keeps_up,
        sentence=sentence,
        notes=notes,
        unknown={"one_mode": why, "schedule": why},
    )


def _which_missing(one_mode: MixPlan | None, schedule: MixPlan | None) -> dict[str, str]:
    if one_mode is None:
        return {"one_mode": "no single mode keeps up"}
    return {} if schedule is not None else {"schedule": "modes in turn would not be better"}


def _with_energy(options: Sequence[Options]) -> tuple[Options, ...]:
    known = tuple(each.known() for each in options)
    for each in known:
        if not each.rows:
            raise UsageError(
                f"the energy of {each.task.network} is unknown in every mode",
                fix="measure with a power meter, or minimise latency",
            )
    return known


def _best_single(
    options: Sequence[Options], minimise: Objective, idle_w: Mapping[str, float]
) -> MixPlan | None:
    """The best mode that runs all tasks: exact, the most promising first.

    Each task at its cheapest, whatever it takes, costs no more than any solution of the mode
    does: once the best solution is no worse than that bound, no later mode can be better.
    """
    by_mode = [each.by_mode() for each in options]
    common = set(by_mode[0]).intersection(*by_mode[1:])
    # A mode that seems to idle for nothing would look like the best.
    common = common & idle_w.keys() or common
    bounds = []
    for mode in common:
        inside = [each.keep(rows[mode]) for each, rows in zip(options, by_mode, strict=True)]
        constant_w = idle_w.get(mode, 0.0)
        least = sum(float(np.min(cost_of(each, minimise, constant_w))) for each in inside)
        bounds.append((least + (0.0 if minimise == "latency" else constant_w), mode, inside))
    best: MixPlan | None = None
    for bound, mode, inside in sorted(bounds, key=lambda one: one[:2]):
        if best is not None and bound >= objective_of(best, minimise):
            break
        plan = solve(inside, minimise, mode if mode in idle_w else None, idle_w, 1.0)
        if plan is not None and (best is None or is_better(plan, best, minimise)):
            best = plan
    return best


def _best_schedule(
    options: Sequence[Options], mix: Mix, minimise: Objective, idle_w: Mapping[str, float]
) -> MixPlan | None:
    """Modes in turn, idling in the mode of the least constant power.

    Where a switch and a round have their lengths, the time left shrinks with each mode more;
    every count of modes is tried, and a plan counts if it has no more modes than its count.
    """
    idle = min(idle_w, key=lambda mode: (idle_w[mode], mode)) if idle_w else None
    best: MixPlan | None = None
    for n_modes in range(2, len(options) + 3):
        lost = _lost(mix, n_modes)
        if lost is not None and lost >= 1.0:
            break
        plan = solve(options, minimise, idle, idle_w, 1.0 - (lost or 0.0), lost)
        if plan is None or len(plan.modes) > n_modes:
            continue
        if best is None or is_better(plan, best, minimise):
            best = plan
    return best


def _lost(mix: Mix, n_modes: int) -> float | None:
    """The share of a round that goes into switching: each mode is entered once."""
    if mix.switch_s is None or mix.period_s is None:
        return None
    return n_modes * mix.switch_s / mix.period_s
