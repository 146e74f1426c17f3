"""The mode, batch and precision for a network: the best by an objective that keeps the limits.

There are three answers: a choice, the nearest candidate where none keeps the limits, or what is
missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from msgspec import structs

from mansard.analytics.data.accuracies import NetworkAccuracy, by_precision
from mansard.analytics.data.names import display_name
from mansard.analytics.data.unknown_modes import UnknownModes, unknown_modes
from mansard.analytics.decisions.accuracy_limit import (
    Accuracies,
    accuracy_sentence,
    open_note,
    without_drops,
)
from mansard.analytics.decisions.alternatives import find_equals, find_neighbours, most_excess
from mansard.analytics.decisions.baselines import Baseline, find_baselines, find_savings
from mansard.analytics.decisions.choice import (
    best_measured,
    choose,
    choose_likeliest,
    find_decisive,
    is_likeliest,
)
from mansard.analytics.decisions.claims import find_claim
from mansard.analytics.decisions.comparisons import measured_words
from mansard.analytics.decisions.limits import (
    Mask,
    Screen,
    check_limits,
    find_nearest,
    find_relaxations,
    nearest_words,
    screen,
)
from mansard.analytics.decisions.missing import (
    lacking_note,
    missing_quantity,
    remedy,
    what_is_missing,
    why_missing,
)
from mansard.analytics.decisions.records import (
    Candidate,
    Counts,
    MeasureNext,
    Neighbour,
    Recommendation,
    Wanted,
)
from mansard.analytics.decisions.values import Values, read_values
from mansard.analytics.decisions.wording import (
    chosen_sentence,
    decisive_words,
    equal_words,
    how_many_measured,
    how_to_measure,
    likeliest_sentence,
    likeliest_words,
    nearest_sentence,
    open_quantity,
    relaxed_words,
    roof_note,
    unknown_words,
    why_chosen,
    why_none,
)
from mansard.core.errors import UsageError

_NO_COMMANDS = "which commands set a mode is the board's matter, not the prediction's"
_NO_LIMITS_KEPT = "no mode is known to keep the limits"


@dataclass(frozen=True, eq=False)
class Question:
    """What was asked, of which values, and what is known of each of them.

    ``kept`` and ``open`` can be compared, and keep every limit or may; ``broken`` break one;
    ``unknown`` may keep them, but have no energy or power to tell by.
    """

    values: Values
    wanted: Wanted
    screened: Screen
    baselines: Sequence[Baseline]
    kept: Mask
    open: Mask
    broken: Mask
    unknown: Mask
    accuracies: Accuracies  # by precision; empty: none was measured
    left_out: tuple[str, ...]  # precisions that may not be recommended, and why
    timeless: UnknownModes  # modes that were asked for and have no time
    fallback: str  # that the least time is wanted instead of the least energy, and why

    @property
    def counts(self) -> Counts:
        """How many there are of each kind."""
        masks = {"kept": self.kept, "open": self.open, "broken": self.broken}
        numbers = {f"n_{name}": int(mask.sum()) for name, mask in masks.items()}
        return Counts(
            n_all=len(self.values),
            n_unknown=int(self.unknown.sum()),
            n_measured=int(self.values.is_measured.sum()),
            n_timeless=len(self.timeless),
            are_modes=self.values.frame["mode"].n_unique() == len(self.values),
            **numbers,
        )

    def accuracy(self, choice: Candidate) -> tuple[NetworkAccuracy | None, str]:
        """How often the network is right in the precision of ``choice``; else why none is known."""
        found = self.accuracies.get(choice.precision)
        return found, "" if found is not None else "it was not measured"

    @property
    def compared(self) -> Mask:
        """Those whose objective and limits are known."""
        objective = self.values.objective(self.wanted.minimise).value
        return np.asarray(self.screened.is_known & ~np.isnan(objective))


def read_question(
    predictions: pl.DataFrame,
    wanted: Wanted,
    baselines: Sequence[Baseline],
    accuracies: Accuracies,
    asked: Sequence[str],
) -> Question:
    """Sort the candidates by what is known of them; raises UsageError as ``screen``.

    ``asked``: the modes to choose from; those that have no prediction stay in the question.
    """
    timeless = unknown_modes(predictions, asked, wanted.batches)
    predictions, left_out = without_drops(predictions, wanted, accuracies)
    values = read_values(predictions, wanted)
    # A mode without a row has no time either.
    values = replace(values, n_timeless=max(values.n_timeless, len(timeless)))
    fallback = ""
    if wanted.falls_back and wanted.minimise == "energy":
        wanted, fallback = _fall_back(values, wanted)
    screened = screen(values, wanted)
    objective = values.objective(wanted.minimise).value
    is_comparable = screened.is_known & ~np.isnan(objective)
    is_broken = screened.is_broken
    return Question(
        values,
        wanted,
        screened,
        baselines,
        kept=is_comparable & screened.is_kept,
        open=is_comparable & ~screened.is_kept & ~is_broken,
        broken=is_broken,
        unknown=~is_comparable & ~is_broken,
        accuracies=accuracies,
        left_out=left_out,
        timeless=timeless,
        fallback=fallback,
    )


def _fall_back(values: Values, wanted: Wanted) -> tuple[Wanted, str]:
    """The least time instead of the least energy where that cannot be compared, and a note.

    It can where it is known in several modes, or in the only one there is: else the mode that
    happens to have an energy would be called the best.
    """
    has_energy = ~np.isnan(values.energy.value)
    modes = values.frame["mode"]
    n_all, n_with = modes.n_unique(), modes.filter(pl.Series(has_energy)).n_unique()
    if n_with >= min(2, n_all):
        return wanted, ""
    reason = why_missing(values, ~has_energy)
    why = f" ({reason})" if reason else ""
    way = remedy(reason)
    of_modes = f"{n_with or 'none'} of {n_all} modes" if n_all > 1 else "no mode"
    note = (
        f"energy is known in {of_modes}{why}: modes are compared by their times, not by their "
        f"energies{'; to compare energies, ' * bool(way)}{way}"
    )
    return replace(wanted, minimise="latency"), note


def answer_chosen(asked: Question, at: int) -> Recommendation:
    """The answer that recommends row ``at``, which keeps every limit or may."""
    values, wanted, screened = asked.values, asked.wanted, asked.screened
    counts = asked.counts
    choice = values.candidate(at)
    is_kept = bool(asked.kept[at])
    savings = find_savings(values, choice, asked.baselines)
    checks = check_limits(choice, wanted)
    excess, why_no_excess = most_excess(values, wanted, at, asked.compared & screened.may_be)
    equals, n_equals = find_equals(values, wanted, at, asked.kept) if is_kept else ((), 0)
    measured, why_no_measured = _beside(asked, choice)
    next_one = _next(asked, at, choice)
    noun = "mode" if counts.are_modes and counts.n_asked > 1 else "candidate"
    claim = find_claim(values, screened, wanted, at, asked.kept, noun)
    likeliest = is_likeliest(values, screened, at, asked.open) and not (
        asked.unknown.any() or values.n_timeless
    )
    relaxations = () if is_kept else find_relaxations(values, screened, wanted, asked.compared)
    sentence = (
        chosen_sentence(choice, wanted, savings, claim)
        if is_kept
        else likeliest_sentence(choice, wanted, savings, checks, is_likeliest=likeliest)
    )
    accuracy, why_no_accuracy = asked.accuracy(choice)
    unknown = {
        "accuracy": why_no_accuracy,
        "commands": _NO_COMMANDS,
        "most_excess": why_no_excess if excess is None else "",
        "measured": why_no_measured,
        "measure_next": "no further measurement is expected to change the answer"
        if next_one is None
        else "",
    }
    why = why_chosen(choice, wanted, counts, claim)
    return Recommendation(
        device=choice.device,
        network=choice.network,
        minimise=wanted.minimise,
        verdict="feasible" if is_kept else "uncertain",
        choice=choice,
        sentence=sentence + asked.timeless.sentence() + accuracy_sentence(accuracy),
        claim=claim.words() if is_kept else likeliest_words(wanted, is_likeliest=likeliest),
        accuracy=accuracy,
        **_numbers(asked),
        most_excess=excess,
        measured=measured,
        measure_next=next_one,
        why=(
            *why,
            *how_many_measured(counts, choice),
            *([equal_words(n_equals)] if n_equals else []),
            *relaxed_words(relaxations),
        ),
        checks=checks,
        savings=savings,
        neighbours=find_neighbours(values, wanted, at, asked.compared),
        equals=equals,
        relaxations=relaxations,
        notes=_notes(asked, at),
        unknown={name: reason for name, reason in unknown.items() if reason},
    )


def _numbers(asked: Question) -> dict[str, Any]:
    """The counts of an answer, and the modes of which nothing is known."""
    counts = asked.counts
    return {
        "n_candidates": counts.n_asked,
        "n_feasible": counts.n_kept,
        "n_broken": counts.n_broken,
        "n_unknown": counts.n_unknown + counts.n_timeless,
        "n_measured": counts.n_measured,
        "modes_unknown": dict(asked.timeless.reasons),
    }


def _open_words(asked: Question) -> str:
    """Of which candidates it is not known whether they keep the limits; empty for none."""
    parts = [asked.timeless.words()] if asked.timeless else []
    if asked.unknown.any():
        lacks = missing_quantity(asked.values, asked.screened, asked.wanted, asked.unknown)
        parts.insert(0, f"of {int(asked.unknown.sum())} {unknown_words(lacks)}")
    return "; ".join(parts)


def _beside(asked: Question, choice: Candidate) -> tuple[Neighbour | None, str]:
    """The best measured candidate beside a choice that was not measured; else the reason."""
    if choice.is_measured:
        return None, "the choice was measured itself"
    at = best_measured(asked.values, asked.screened, asked.wanted, asked.compared)
    if at is None:
        return None, "the network was measured in none of these modes"
    other = asked.values.candidate(at)
    checks = check_limits(other, asked.wanted)
    return Neighbour(
        candidate=other, why_lost=measured_words(other, choice, checks, asked.wanted)
    ), ""


def _next(asked: Question, at: int, choice: Candidate) -> MeasureNext | None:
    """What to measure next, and what that would tell."""
    row = find_decisive(asked.values, asked.screened, asked.wanted, at, asked.kept | asked.open)
    if row is None:
        return None
    candidate = asked.values.candidate(row)
    checks = check_limits(candidate, asked.wanted)
    return MeasureNext(
        candidate=candidate,
        what=decisive_words(candidate, choice, checks, asked.wanted),
        unknown={"command": how_to_measure(candidate, open_quantity(checks, asked.wanted))},
    )


def answer_infeasible(asked: Question) -> Recommendation:
    """The answer where every row of which it is known breaks a limit.

    The nearest of them, and which limit would have to give.
    """
    values, screened, wanted = asked.values, asked.screened, asked.wanted
    counts = asked.counts
    rows = find_nearest(values, screened, wanted, asked.broken)
    nearest = tuple(values.candidate(at) for at in rows)
    relaxations = find_relaxations(values, screened, wanted, asked.compared)
    open_words = _open_words(asked)
    accuracy, why_no_accuracy = asked.accuracy(nearest[0])
    rank = nearest_words(values, screened, rows[0], asked.broken)
    is_all_known = bool(asked.compared.all() and _has_ends(values).all() and not values.n_timeless)
    sentence = nearest_sentence(
        nearest[0], wanted, relaxations, counts, open_words, rank=rank, is_all_known=is_all_known
    )
    return Recommendation(
        device=nearest[0].device,
        network=nearest[0].network,
        minimise=wanted.minimise,
        verdict="unknown" if open_words else "infeasible",
        choice=nearest[0],
        accuracy=accuracy,
        sentence=sentence,
        claim=rank,
        **_numbers(asked),
        why=(why_none(counts, open_words), *how_many_measured(counts)),
        checks=check_limits(nearest[0], wanted),
        savings=find_savings(values, nearest[0], asked.baselines),
        nearest=nearest,
        relaxations=relaxations,
        notes=_notes(asked, rows[0]),
        unknown={
            "commands": _NO_COMMANDS,
            "most_excess": _NO_LIMITS_KEPT,
            "measured": _NO_LIMITS_KEPT,
            "measure_next": _NO_LIMITS_KEPT,
        }
        | ({"accuracy": why_no_accuracy} if accuracy is None else {}),
    )


def _has_ends(values: Values) -> Mask:
    """Which rows can keep a limit, if it is loose enough: those with an interval."""
    interval = values.latency.interval
    return np.asarray((interval == "spread") | (interval == "bounds"))


def answer_nothing(predictions: pl.DataFrame, asked: Question) -> Recommendation:
    """There is nothing to compare: what is missing, and how to get it."""
    values, wanted = asked.values, asked.wanted
    is_empty = predictions.is_empty()
    device, network = (
        "" if is_empty else str(predictions[name][0]) for name in ("device", "network")
    )
    if len(values) == 0:
        what = values.notes[0] if values.notes else "there are no predictions"
        if asked.left_out:
            what = "; ".join(asked.left_out)
        if wanted.batches is not None and not is_empty:
            what = f"nothing was predicted at batch {', '.join(map(str, wanted.batches))}"
    else:
        what = what_is_missing(values, asked.screened, wanted)
    return structs.replace(
        answer_refused(device, network, wanted, what),
        **_numbers(asked),
        notes=tuple(note for note in values.notes if note != what),
    )


def answer_refused(device: str, network: str, wanted: Wanted, why: str) -> Recommendation:
    """No recommendation, and ``why``."""
    fields = ("choice", "commands", "most_excess", "measured", "measure_next", "accuracy")
    return Recommendation(
        device=device,
        network=network,
        minimise=wanted.minimise,
        verdict="unknown",
        choice=None,
        sentence=f"Nothing can be recommended for {display_name(network)}: {why}.",
        n_candidates=0,
        unknown=dict.fromkeys(fields, why),
    )


def _notes(asked: Question, at: int) -> tuple[str, ...]:
    """What was left out, and what the numbers of row ``at`` do not hold."""
    values, wanted = asked.values, asked.wanted
    notes = [*asked.left_out, *values.notes, *([asked.fallback] if asked.fallback else [])]
    own = values.frame["notes"][at]
    if own is not None:
        notes.append(str(own))
    precisions = values.frame["precision"].filter(pl.Series(asked.compared)).unique().sort()
    if len(precisions) > 1:
        notes.append(open_note(precisions.to_list(), asked.accuracies))
    lacking = lacking_note(values, asked.screened, wanted, asked.unknown)
    if lacking:
        notes.append(lacking)
    if values.latency.interval[at] == "roof":
        notes.append(roof_note(values.candidate(at)))
    return tuple(notes)


def recommend_each(
    predictions: pl.DataFrame,
    modes: pl.DataFrame,
    wanted: Wanted,
    defaults: Mapping[str, str] | None = None,
    refused: Mapping[tuple[str, str], str] | None = None,
    *,
    accuracies: Sequence[NetworkAccuracy] = (),
    observations: pl.DataFrame | None = None,
) -> tuple[Recommendation, ...]:
    """One recommendation for each device, network and phase of ``predictions``.

    The highest of ``modes`` (MODE_SCHEMA) and the mode that ``defaults`` names for the device
    are what the choice is compared with. ``refused``: by device and network, why there is none.
    ``accuracies``: how often networks are right, of several engines on those of ``observations``
    (OBSERVATION_SCHEMA).
    """
    found = []
    keys = ("device", "network", "phase")
    for rows in predictions.sort(*keys).partition_by(*keys, maintain_order=True):
        device = str(rows["device"][0])
        why = (refused or {}).get((device, str(rows["network"][0])))
        if why is not None:
            found.append(answer_refused(device, str(rows["network"][0]), wanted, why))
            continue
        own = modes.filter(pl.col("device") == device)
        baselines = find_baselines(own, rows, (defaults or {}).get(device))
        known = by_precision(accuracies, device, str(rows["network"][0]), observations)
        found.append(recommend(rows, wanted, baselines, known, own["mode"].to_list()))
    return tuple(found)


def recommend(
    predictions: pl.DataFrame,
    wanted: Wanted,
    baselines: Sequence[Baseline] = (),
    accuracies: Accuracies | None = None,
    asked: Sequence[str] = (),
) -> Recommendation:
    """The best of ``predictions`` (PREDICTION_SCHEMA), which are of one network on one device.

    Among those that keep every limit the one of the least risk-adjusted objective, where what was
    measured is preferred (``choice.choose``); where there is none, of those that may keep them the
    likeliest; where each breaks one, the one that breaks them least. ``accuracies``: how often the
    network is right, by precision. ``asked``: the modes to choose from; one that has no time may
    change the answer, which says so. Raises UsageError for a limit that bounds nothing, or for
    predictions of several networks, devices or phases.
    """
    _check_single(predictions)
    question = read_question(predictions, wanted, baselines, accuracies or {}, asked)
    values, wanted = question.values, question.wanted
    if question.kept.any():
        return answer_chosen(question, choose(values, wanted, question.kept))
    if question.open.any():
        at = choose_likeliest(values, question.screened, wanted, question.open)
        return answer_chosen(question, at)
    if question.broken.any():
        return answer_infeasible(question)
    return answer_nothing(predictions, question)


def _check_single(predictions: pl.DataFrame) -> None:
    for column in ("device", "network", "phase"):
        names = predictions[column].unique().sort()
        if len(names) > 1:
            raise UsageError(
                f"a recommendation is for one {column}, there are {len(names)}: "
                f"{', '.join(str(name) for name in names.head(3))}",
                fix="ask for each of them alone",
            )
