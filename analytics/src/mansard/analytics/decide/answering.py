"""The three answers of a recommendation: a choice, the nearest one, or what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from mansard.analytics.data.names import shown
from mansard.analytics.decide import wording
from mansard.analytics.decide.baselines import Baseline, find_savings
from mansard.analytics.decide.neighbours import find_equals, find_neighbours, most_excess
from mansard.analytics.decide.records import Recommendation, Wanted
from mansard.analytics.decide.relaxing import find_nearest, find_relaxations
from mansard.analytics.decide.screening import Mask, Screen, check_limits, limits_of
from mansard.analytics.decide.values import Values

_METER = "measure with a power meter ('mansard doctor' says what is missing)"
_NO_COMMANDS = "which commands set a mode is the board's matter, not the prediction's"


def answer_chosen(
    values: Values,
    screened: Screen,
    wanted: Wanted,
    baselines: Sequence[Baseline],
    found: tuple[int, Mask, Mask],
) -> Recommendation:
    """The answer that recommends a row: ``found`` is it, those it was the best of, and all."""
    at, feasible, usable = found
    choice = values.candidate(at)
    savings = find_savings(values, choice, baselines)
    n_all, n_likely = int(usable.sum()), int((usable & screened.is_likely).sum())
    excess, why_no_excess = most_excess(values, wanted, at, usable & screened.may_be)
    why = wording.why_chosen(choice, wanted, n_all, n_likely)
    is_likely = bool(screened.is_likely[at])
    equals, n_equals = find_equals(values, wanted, at, feasible) if is_likely else ((), 0)
    say = wording.chosen_sentence if is_likely else wording.likeliest_sentence
    return Recommendation(
        device=choice.device,
        network=choice.network,
        minimise=wanted.minimise,
        verdict="feasible" if is_likely else "uncertain",
        choice=choice,
        sentence=say(choice, wanted, savings),
        n_candidates=n_all,
        n_feasible=n_likely,
        most_excess=excess,
        commands=None,
        why=(*why, wording.equal_words(n_equals)) if n_equals else why,
        checks=check_limits(choice, wanted),
        savings=savings,
        neighbours=find_neighbours(values, wanted, at, usable),
        equals=equals,
        notes=_notes(values, usable, wanted, at),
        unknown=_reasons(None if excess is not None else why_no_excess),
    )


def answer_infeasible(
    values: Values, screened: Screen, wanted: Wanted, baselines: Sequence[Baseline], usable: Mask
) -> Recommendation:
    """The answer where no row keeps the limits: the nearest, and which limit would have to give."""
    rows = find_nearest(values, screened, wanted, usable)
    nearest = tuple(values.candidate(at) for at in rows)
    relaxations = find_relaxations(values, screened, wanted, usable)
    return Recommendation(
        device=nearest[0].device,
        network=nearest[0].network,
        minimise=wanted.minimise,
        verdict="infeasible",
        choice=nearest[0],
        sentence=wording.nearest_sentence(nearest[0], wanted, relaxations),
        n_candidates=int(usable.sum()),
        n_feasible=0,
        most_excess=None,
        commands=None,
        why=(f"none of {int(usable.sum())} candidates keeps every limit",),
        checks=check_limits(nearest[0], wanted),
        savings=find_savings(values, nearest[0], baselines),
        nearest=nearest,
        relaxations=relaxations,
        notes=_notes(values, usable, wanted, rows[0]),
        unknown=_reasons("no mode keeps the limits"),
    )


def answer_nothing(predictions: pl.DataFrame, values: Values, wanted: Wanted) -> Recommendation:
    """There is nothing to compare: what is missing, and how to get it."""
    network, device = _first(predictions, "network"), _first(predictions, "device")
    if len(values) == 0:
        what = values.notes[0] if values.notes else "there are no predictions"
        if wanted.batches is not None and not predictions.is_empty():
            what = f"nothing was predicted at batch {', '.join(map(str, wanted.batches))}"
    else:
        what = _what_is_missing(values, wanted)
    return Recommendation(
        device=device,
        network=network,
        minimise=wanted.minimise,
        verdict="unknown",
        choice=None,
        sentence=f"Nothing can be recommended for {shown(network)}: {what}.",
        n_candidates=0,
        n_feasible=0,
        most_excess=None,
        commands=None,
        notes=values.notes,
        unknown={"choice": what, "commands": what, "most_excess": what},
    )


def _what_is_missing(values: Values, wanted: Wanted) -> str:
    """The energy or power that the question needs, why it is unknown, and what helps."""
    is_limited = wanted.max_energy_j is not None or wanted.max_power_w is not None
    is_power = wanted.minimise == "power" or (
        wanted.minimise == "latency" and wanted.max_energy_j is None
    )
    needed = "power" if is_power else "energy"
    reasons = values.frame["reason"].drop_nulls().unique().sort()
    why = f" ({reasons[0]})" if len(reasons) else ""
    ways = ["minimise latency"] if wanted.minimise != "latency" else []
    ways += ["leave out limits of power and energy"] if is_limited else []
    return f"the {needed} of every mode is unknown{why}: {_METER}, or {' and '.join(ways)}"


def _first(predictions: pl.DataFrame, column: str) -> str:
    return "" if predictions.is_empty() else str(predictions[column][0])


def _reasons(why_no_excess: str | None) -> dict[str, str]:
    missing = {} if why_no_excess is None else {"most_excess": why_no_excess}
    return {"commands": _NO_COMMANDS, **missing}


def _notes(values: Values, usable: Mask, wanted: Wanted, at: int) -> tuple[str, ...]:
    """What was left out, and what the numbers of row ``at`` do not hold."""
    notes = list(values.notes)
    own = values.frame["notes"][at]
    if own is not None:
        notes.append(str(own))
    precisions = values.frame["precision"].filter(pl.Series(usable)).unique().sort()
    if len(precisions) > 1:
        notes.append(
            f"{', '.join(precisions)} were open: what each does to the results is not known here"
        )
    n_out = len(values) - int(usable.sum())
    if n_out:
        notes.append(
            f"{n_out} of {len(values)} candidates have no energy or power to compare by and are "
            f"left out: {_METER}"
        )
    if limits_of(wanted) and np.isnan(values.latency.high[usable]).any():
        notes.append("some predictions have no interval: how likely they keep a limit is unknown")
    return tuple(notes)
