"""The mode, batch and precision for a network: the best by an objective that keeps the limits.

There are three answers: a choice, the nearest candidate where no mode keeps the limits, or what is
missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.names import display_name
from mansard.analytics.decide.alternatives import (
    DEFAULT,
    HIGHEST,
    Baseline,
    find_equals,
    find_neighbours,
    find_savings,
    highest_mode,
    most_excess,
)
from mansard.analytics.decide.limits import (
    Mask,
    Screen,
    check_limits,
    find_nearest,
    find_relaxations,
    limits_of,
    screen,
)
from mansard.analytics.decide.records import Recommendation, Wanted
from mansard.analytics.decide.values import Array, Values, read_values
from mansard.analytics.decide.wording import (
    chosen_sentence,
    equal_words,
    likeliest_sentence,
    nearest_sentence,
    why_chosen,
)
from mansard.core.errors import UsageError

_METER = "measure with a power meter ('mansard doctor' says what is missing)"
_NO_COMMANDS = "which commands set a mode is the board's matter, not the prediction's"


def answer_chosen(
    values: Values,
    screened: Screen,
    wanted: Wanted,
    baselines: Sequence[Baseline],
    at: int,
    *,
    feasible: Mask,
    usable: Mask,
) -> Recommendation:
    """The answer that recommends row ``at``: the best of ``feasible``, a part of ``usable``."""
    choice = values.candidate(at)
    savings = find_savings(values, choice, baselines)
    n_all, n_likely = int(usable.sum()), int((usable & screened.is_likely).sum())
    excess, why_no_excess = most_excess(values, wanted, at, usable & screened.may_be)
    why = why_chosen(choice, wanted, n_all, n_likely)
    is_likely = bool(screened.is_likely[at])
    equals, n_equals = find_equals(values, wanted, at, feasible) if is_likely else ((), 0)
    say = chosen_sentence if is_likely else likeliest_sentence
    unknown = {"commands": _NO_COMMANDS}
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
        why=(*why, equal_words(n_equals)) if n_equals else why,
        checks=check_limits(choice, wanted),
        savings=savings,
        neighbours=find_neighbours(values, wanted, at, usable),
        equals=equals,
        notes=_notes(values, usable, wanted, at),
        unknown=unknown if excess is not None else unknown | {"most_excess": why_no_excess},
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
        sentence=nearest_sentence(nearest[0], wanted, relaxations),
        n_candidates=int(usable.sum()),
        why=(f"none of {int(usable.sum())} candidates keeps every limit",),
        checks=check_limits(nearest[0], wanted),
        savings=find_savings(values, nearest[0], baselines),
        nearest=nearest,
        relaxations=relaxations,
        notes=_notes(values, usable, wanted, rows[0]),
        unknown={"commands": _NO_COMMANDS, "most_excess": "no mode keeps the limits"},
    )


def answer_nothing(predictions: pl.DataFrame, values: Values, wanted: Wanted) -> Recommendation:
    """There is nothing to compare: what is missing, and how to get it."""
    is_empty = predictions.is_empty()
    device, network = (
        "" if is_empty else str(predictions[name][0]) for name in ("device", "network")
    )
    if len(values) == 0:
        what = values.notes[0] if values.notes else "there are no predictions"
        if wanted.batches is not None and not is_empty:
            what = f"nothing was predicted at batch {', '.join(map(str, wanted.batches))}"
    else:
        what = _what_is_missing(values, wanted)
    return answer_unknown(device, network, wanted, what, values.notes)


def answer_unknown(
    device: str, network: str, wanted: Wanted, why: str, notes: Sequence[str] = ()
) -> Recommendation:
    """No recommendation, and ``why``."""
    return Recommendation(
        device=device,
        network=network,
        minimise=wanted.minimise,
        verdict="unknown",
        choice=None,
        sentence=f"Nothing can be recommended for {display_name(network)}: {why}.",
        n_candidates=0,
        notes=tuple(notes),
        unknown={"choice": why, "commands": why, "most_excess": why},
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


def recommend_each(
    predictions: pl.DataFrame,
    modes: pl.DataFrame,
    wanted: Wanted,
    defaults: Mapping[str, str] | None = None,
    refused: Mapping[tuple[str, str], str] | None = None,
) -> tuple[Recommendation, ...]:
    """One recommendation for each device, network and phase of ``predictions``.

    The highest of ``modes`` (MODE_SCHEMA) and the mode that ``defaults`` names for the device
    are what the choice is compared with. ``refused``: by device and network, why there is none.
    """
    found = []
    keys = ("device", "network", "phase")
    for rows in predictions.sort(*keys).partition_by(*keys, maintain_order=True):
        device = str(rows["device"][0])
        why = (refused or {}).get((device, str(rows["network"][0])))
        if why is not None:
            found.append(answer_unknown(device, str(rows["network"][0]), wanted, why))
            continue
        highest = highest_mode(modes.filter(pl.col("device") == device))
        baselines = [] if highest is None else [Baseline(HIGHEST, highest)]
        default = (defaults or {}).get(device)
        if default is not None and default != highest:
            baselines.append(Baseline(DEFAULT, default))
        elif default is not None:
            baselines = [Baseline(f"{HIGHEST} and its default", default)]
        found.append(recommend(rows, wanted, baselines))
    return tuple(found)


def recommend(
    predictions: pl.DataFrame, wanted: Wanted, baselines: Sequence[Baseline] = ()
) -> Recommendation:
    """The best of ``predictions`` (PREDICTION_SCHEMA), which are of one network on one device.

    Among those that keep every limit with the probability that was asked for, the one with the
    least objective; where there is none, the likeliest of those that keep them as predicted;
    where there is none of these either, the one that breaks them least. Ties go to the shorter
    time, then to less energy and power, then by name. Raises UsageError for a limit that bounds
    nothing, or for predictions of several networks, devices or phases.
    """
    _check_single(predictions)
    values = read_values(predictions, wanted)
    screened = screen(values, wanted)
    objective = values.objective(wanted.minimise).value
    usable = screened.is_known & ~np.isnan(objective)
    if not usable.any():
        return answer_nothing(predictions, values, wanted)
    likely, kept = usable & screened.is_likely, usable & screened.is_kept
    if likely.any():
        at = int(_ranked(values, objective, likely)[0])
        return answer_chosen(
            values, screened, wanted, baselines, at, feasible=likely, usable=usable
        )
    if kept.any():
        at = _likeliest(values, screened, objective, kept)
        return answer_chosen(values, screened, wanted, baselines, at, feasible=kept, usable=usable)
    return answer_infeasible(values, screened, wanted, baselines, usable)


def _check_single(predictions: pl.DataFrame) -> None:
    for column in ("device", "network", "phase"):
        names = predictions[column].unique().sort()
        if len(names) > 1:
            raise UsageError(
                f"a recommendation is for one {column}, there are {len(names)}: "
                f"{', '.join(str(name) for name in names.head(3))}",
                fix="ask for each of them alone",
            )


def _ranked(values: Values, objective: Array, among: Mask) -> NDArray[np.int64]:
    """Rows of ``among``, the best first; rows are in order of their names already."""
    rows = np.flatnonzero(among)
    keys = (values.power.value, values.energy.value, values.latency.value, objective)
    order = np.lexsort([np.nan_to_num(key[rows], nan=np.inf) for key in keys])
    return rows[order].astype(np.int64)


def _likeliest(values: Values, screened: Screen, objective: Array, kept: Mask) -> int:
    """Of those that keep the limits as predicted, the one whose least likely limit is likeliest."""
    ranked = _ranked(values, objective, kept)
    return int(ranked[np.argmax(screened.margin[ranked])])
