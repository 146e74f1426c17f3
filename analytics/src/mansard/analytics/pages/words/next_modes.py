"""Why a mode is to be measured next, and what the choice of modes left out."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from mansard.analytics.data.model_frames import SETTING_WORDS
from mansard.analytics.data.names import first_names
from mansard.analytics.decisions.modes import PlanningData, SettingGap
from mansard.analytics.decisions.next_modes import (
    DESIGN_SIZE,
    OF_THE_MODEL,
    ChosenMode,
    NextModes,
    Pick,
    Plan,
)
from mansard.analytics.decisions.records import Objective
from mansard.core.hardware import SETTINGS
from mansard.core.text import printable

_NOUNS: dict[Objective, str] = {
    "energy": "energy",
    "latency": "time",
    "edp": "energy times time",
    "power": "power",
}
_NO_BEST = "no measured mode has a known objective within the limits"


def plan_in_words(chosen: NextModes) -> Plan:
    """The plan as it is printed: each pick with its reason, and the notes."""
    return Plan(
        picks=tuple(
            _pick(chosen, step, is_designed=number < chosen.n_designed)
            for number, step in enumerate(chosen.steps)
        ),
        n_designed=chosen.n_designed,
        minimise=chosen.minimise,
        networks=chosen.networks,
        n_candidates=chosen.modes.height,
        n_measured=chosen.n_measured,
        notes=tuple(_notes(chosen)),
    )


def modelled_notes(data: PlanningData) -> tuple[str, ...]:
    """That networks were not run on the device; empty where all were."""
    if not data.modelled:
        return ()
    names = ", ".join(printable(name) for name in data.modelled[:8])
    more = ", …" if len(data.modelled) > 8 else ""
    return (f"not measured: {names}{more}; what the roofs allow is used instead",)


def _pick(chosen: NextModes, step: ChosenMode, *, is_designed: bool) -> Pick:
    row, place = chosen.modes.row(step.at, named=True), _place(chosen.modes, step.at)
    # Before anything is measured the expected error is of no network: it only ranks modes.
    reason = f"part of the set: {place}" if is_designed else _reason(step, place, chosen.minimise)
    return Pick(
        device=row["device"],
        mode=row["mode"],
        settings={name: float(row[name]) for name in SETTINGS if row[name] is not None},
        reason=reason,
        improvement=step.improvement,
        error_before=step.error_before,
        error_after=step.error_after,
        unknown={} if step.improvement is not None else {"improvement": _NO_BEST},
    )


def _place(modes: pl.DataFrame, at: int) -> str:
    """Where a mode lies among the others: "lowest GPU clock, middle memory clock"."""
    parts = []
    for name in SETTINGS:
        levels = modes.get_column(name).drop_nulls().unique().sort().to_list()
        value = modes.get_column(name)[at]
        if len(levels) > 1 and value is not None:
            rank = levels.index(value) / (len(levels) - 1)
            parts.append(f"{_rank_word(rank)} {SETTING_WORDS[name]}")
    return ", ".join(parts) or "one of many alike"


def _reason(step: ChosenMode, place: str, minimise: Objective) -> str:
    """The largest expected benefit of measuring a mode, and where the mode lies."""
    noun = _NOUNS[minimise]
    error_drop = OF_THE_MODEL * (step.error_before - step.error_after)
    if step.chance is not None and step.chance > max(error_drop, step.improvement or 0.0):
        return f"within the limits with a chance of {_percent(step.chance)}: {place}"
    if step.improvement is not None and step.improvement > error_drop:
        return f"may lower the {noun} by {_percent(step.improvement)}: {place}"
    before, after = _percent(step.error_before), _percent(step.error_after)
    return f"expected error of {noun} {before} → {after}: {place}"


def _rank_word(rank: float) -> str:
    if rank in (0.0, 1.0):
        return "highest" if rank else "lowest"
    return "low" if rank < 1 / 3 else "high" if rank > 2 / 3 else "middle"


def _percent(share: float) -> str:
    """In two digits; a share above 99.5 % is written as 100 %."""
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"


def _notes(chosen: NextModes) -> Iterator[str]:
    yield from map(_gap_note, chosen.gaps)
    if chosen.n_alike:
        alike = "1 mode" if chosen.n_alike == 1 else f"{chosen.n_alike} modes"
        yield f"taken for another mode of the same settings: {alike}"
    yield from chosen.fit_notes
    for reason, networks in chosen.unpredicted.items():
        yield f"{chosen.minimise} of {', '.join(networks)} cannot be predicted: {reason}"
    if chosen.n_wanted > chosen.n_free:
        yield _all_left(chosen.n_free, chosen.modes.height)
    elif chosen.n_measured + chosen.n_wanted < DESIGN_SIZE:
        yield _too_few(chosen)
    if chosen.is_limit_unused:
        yield "the limits are not used yet: nothing can be predicted"
    yield from (lower.text for lower in chosen.lower_settings)


def _all_left(n_free: int, n_modes: int) -> str:
    """That fewer modes are planned than were asked for, and why."""
    if n_free == n_modes:
        return "there is only 1 mode" if n_modes == 1 else f"there are only {n_modes} modes"
    are = "is" if n_free == 1 else "are"
    return f"{n_free} of {n_modes} modes {are} left to measure"


def _too_few(chosen: NextModes) -> str:
    """How many modes to ask for, never more than there are."""
    n_modes = chosen.modes.height
    if n_modes <= DESIGN_SIZE:
        return f"there are only {n_modes} modes, too few for predictions: measure all of them"
    return (
        f"fewer than {DESIGN_SIZE} measured modes predict the others badly: "
        f"use --next {DESIGN_SIZE - chosen.n_measured}"
    )


def _gap_note(gap: SettingGap) -> str:
    setting = SETTING_WORDS[gap.setting]
    if not gap.is_ignored:
        names = first_names([printable(name) for name in gap.without])
        return f"left out, their {setting} is unknown: {names}"
    why = {
        "measured": "no measured mode names it",
        "candidates": "no mode to choose from names it",
        None: f"{len(gap.without)} of {gap.n_modes} modes do not name it",
    }[gap.unnamed_by]
    return f"the {setting} is not used: {why}"
