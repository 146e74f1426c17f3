"""A decision in sentences: the answer that people and programs read."""

from __future__ import annotations

from typing import Any

import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.decisions.limits import check_limits
from mansard.analytics.decisions.missing import missing_quantity
from mansard.analytics.decisions.recommend import Decision, Question
from mansard.analytics.decisions.records import (
    Candidate,
    MeasureNext,
    Neighbour,
    Recommendation,
    Wanted,
)
from mansard.analytics.pages.words.accuracy import accuracy_sentence, open_note
from mansard.analytics.pages.words.comparisons import lost_words, measured_words
from mansard.analytics.pages.words.missing import fallback_note, lacking_note, what_is_missing
from mansard.analytics.pages.words.sentences import (
    NEARNESS_WORDS,
    chosen_sentence,
    claim_words,
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

_NO_COMMANDS = "which commands set a mode is the board's matter, not the prediction's"
_NO_LIMITS_KEPT = "no mode is known to keep the limits"


def in_words(decision: Decision) -> Recommendation:
    """The recommendation: what was decided, with its sentence, its reasons and its notes."""
    asked, choice = decision.question, decision.choice
    if asked is None:
        return _nothing(decision, decision.refused)
    if choice is None:
        return _unanswered(decision, asked)
    if decision.nearness is not None:
        return _nearest(decision, asked, choice)
    return _chosen(decision, asked, choice)


def _chosen(decision: Decision, asked: Question, choice: Candidate) -> Recommendation:
    """The answer that recommends a candidate which keeps every limit or may."""
    assert decision.claim is not None  # noqa: S101 - a choice has one
    wanted, claim, counts = decision.wanted, decision.claim, asked.counts
    is_kept = decision.verdict == "feasible"
    sentence = (
        chosen_sentence(choice, wanted, decision.savings, claim)
        if is_kept
        else likeliest_sentence(
            choice,
            wanted,
            decision.savings,
            decision.checks,
            is_likeliest=decision.is_likeliest,
        )
    )
    accuracy, why_no_accuracy = asked.accuracy(choice)
    unknown = {
        "accuracy": why_no_accuracy,
        "commands": _NO_COMMANDS,
        "most_excess": decision.why_no_excess if decision.most_excess is None else "",
        "measured": _why_not_measured(decision, choice),
        "measure_next": "no further measurement is expected to change the answer"
        if decision.decisive is None
        else "",
    }
    return Recommendation(
        device=choice.device,
        network=choice.network,
        minimise=wanted.minimise,
        verdict=decision.verdict,
        choice=choice,
        sentence=sentence + asked.timeless.sentence() + accuracy_sentence(accuracy),
        claim=claim_words(claim)
        if is_kept
        else likeliest_words(wanted, is_likeliest=decision.is_likeliest),
        accuracy=accuracy,
        **_numbers(asked),
        most_excess=decision.most_excess,
        measured=_measured(decision, choice),
        measure_next=_measure_next(decision, choice),
        why=(
            *why_chosen(choice, wanted, counts, claim),
            *how_many_measured(counts, choice),
            *([equal_words(decision.n_equals)] if decision.n_equals else []),
            *relaxed_words(decision.relaxations),
        ),
        checks=decision.checks,
        savings=decision.savings,
        neighbours=tuple(_neighbour(other, choice, wanted) for other in decision.neighbours),
        equals=decision.equals,
        relaxations=decision.relaxations,
        notes=_notes(decision, asked),
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


def _neighbour(other: Candidate, choice: Candidate, wanted: Wanted) -> Neighbour:
    checks = check_limits(other, wanted)
    return Neighbour(candidate=other, why_lost=lost_words(other, choice, checks, wanted))


def _why_not_measured(decision: Decision, choice: Candidate) -> str:
    """Why no measured candidate stands beside the choice; empty where one does."""
    if choice.is_measured:
        return "the choice was measured itself"
    return "" if decision.measured else "the network was measured in none of these modes"


def _measured(decision: Decision, choice: Candidate) -> Neighbour | None:
    other = decision.measured
    if other is None:
        return None
    checks = check_limits(other, decision.wanted)
    words = measured_words(other, choice, checks, decision.wanted)
    return Neighbour(candidate=other, why_lost=words)


def _measure_next(decision: Decision, choice: Candidate) -> MeasureNext | None:
    """What to measure next, and what that would tell."""
    candidate, wanted = decision.decisive, decision.wanted
    if candidate is None:
        return None
    checks = check_limits(candidate, wanted)
    return MeasureNext(
        candidate=candidate,
        what=decisive_words(candidate, choice, checks, wanted),
        unknown={"command": how_to_measure(candidate, open_quantity(checks, wanted))},
    )


def _nearest(decision: Decision, asked: Question, nearest: Candidate) -> Recommendation:
    """The answer where every row of which it is known breaks a limit.

    The nearest of them, and which limit would have to give.
    """
    assert decision.nearness is not None  # noqa: S101 - the caller has looked
    wanted, counts = decision.wanted, asked.counts
    open_words = _open_words(asked)
    accuracy, why_no_accuracy = asked.accuracy(nearest)
    sentence = nearest_sentence(
        nearest,
        wanted,
        decision.relaxations,
        counts,
        open_words,
        rank=decision.nearness,
        is_all_known=decision.is_all_known,
    )
    lacking = ("most_excess", "measured", "measure_next")
    return Recommendation(
        device=nearest.device,
        network=nearest.network,
        minimise=wanted.minimise,
        verdict=decision.verdict,
        choice=nearest,
        accuracy=accuracy,
        sentence=sentence,
        claim=NEARNESS_WORDS[decision.nearness],
        **_numbers(asked),
        why=(why_none(counts, open_words), *how_many_measured(counts)),
        checks=decision.checks,
        savings=decision.savings,
        nearest=decision.nearest,
        relaxations=decision.relaxations,
        notes=_notes(decision, asked),
        unknown={"commands": _NO_COMMANDS, **dict.fromkeys(lacking, _NO_LIMITS_KEPT)}
        | ({"accuracy": why_no_accuracy} if accuracy is None else {}),
    )


def _open_words(asked: Question) -> str:
    """Of which candidates it is not known whether they keep the limits; empty for none."""
    parts = [asked.timeless.words()] if asked.timeless else []
    if asked.unknown.any():
        lacks = missing_quantity(asked.values, asked.screened, asked.wanted, asked.unknown)
        parts.insert(0, f"of {int(asked.unknown.sum())} {unknown_words(lacks)}")
    return "; ".join(parts)


def _unanswered(decision: Decision, asked: Question) -> Recommendation:
    """There is nothing to compare: what is missing, and how to get it."""
    values, wanted = asked.values, decision.wanted
    if len(values) == 0:
        what = values.notes[0] if values.notes else "there are no predictions"
        if asked.left_out:
            what = "; ".join(asked.left_out)
        if wanted.batches is not None and decision.device:
            what = f"nothing was predicted at batch {', '.join(map(str, wanted.batches))}"
    else:
        what = what_is_missing(values, asked.screened, wanted)
    notes = tuple(note for note in values.notes if note != what)
    return _nothing(decision, what, **_numbers(asked), notes=notes)


def _nothing(decision: Decision, why: str, **fields: Any) -> Recommendation:
    """No recommendation, and ``why``."""
    missing = ("choice", "commands", "most_excess", "measured", "measure_next", "accuracy")
    return Recommendation(
        device=decision.device,
        network=decision.network,
        minimise=decision.wanted.minimise,
        verdict="unknown",
        choice=None,
        sentence=f"Nothing can be recommended for {display_name(decision.network)}: {why}.",
        unknown=dict.fromkeys(missing, why),
        **({"n_candidates": 0} | fields),
    )


def _notes(decision: Decision, asked: Question) -> tuple[str, ...]:
    """What was left out, and what the numbers of the row that was taken do not hold."""
    assert decision.at is not None  # noqa: S101 - the callers have a row
    values, wanted = asked.values, decision.wanted
    notes = [*asked.left_out, *values.notes]
    if asked.fallback is not None:
        notes.append(fallback_note(asked.fallback))
    note = values.frame["notes"][decision.at]
    if note is not None:
        notes.append(str(note))
    precisions = values.frame["precision"].filter(pl.Series(asked.compared)).unique().sort()
    if len(precisions) > 1:
        notes.append(open_note(precisions.to_list(), asked.accuracies))
    lacking = lacking_note(values, asked.screened, wanted, asked.unknown)
    if lacking:
        notes.append(lacking)
    if values.latency.interval[decision.at] == "roof":
        notes.append(roof_note(values.candidate(decision.at)))
    return tuple(notes)
