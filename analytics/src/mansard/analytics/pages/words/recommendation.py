"""A decision in sentences: the answer that people and programs read.

It includes the accuracy of the network, what a decision is missing, why, and how to get it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl

from mansard.analytics.data.accuracies import REFERENCE, NetworkAccuracy, share_text
from mansard.analytics.data.names import display_name
from mansard.analytics.decisions.choice import Claim
from mansard.analytics.decisions.limits import (
    Accuracies,
    Mask,
    Screen,
    check_limits,
    missing_quantity,
    why_missing,
)
from mansard.analytics.decisions.recommend import Decision, FallBack, Question
from mansard.analytics.decisions.records import (
    Basis,
    Candidate,
    CandidateCounts,
    MeasureNext,
    Neighbour,
    Recommendation,
    Wanted,
)
from mansard.analytics.decisions.values import Values
from mansard.analytics.pages.words.comparisons import (
    NO_COMMANDS,
    drop_notes,
    equal_sentence,
    left_out_sentence,
    lost_words,
    lowest_sentence,
    measured_words,
    mode_words,
    omitted_notes,
    unknown_modes_sentence,
    unknown_modes_words,
)
from mansard.analytics.pages.words.sentences import (
    NEARNESS_WORDS,
    ample_sentence,
    chosen_sentence,
    claim_words,
    decisive_words,
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
from mansard.core.text import listed


def accuracy_sentence(known: NetworkAccuracy | None) -> str:
    """The accuracy of the choice; empty if unknown."""
    words = _words(known)
    if known is None or not words:
        return ""
    drop = "" if known.drop is None else f", a drop of {share_text(known.drop)} from {REFERENCE}"
    return (
        f" In {known.precision} it is {words} of {known.n_samples:,} samples of {known.dataset}, "
        f"on {known.engine_words}{drop}."
    )


def open_note(precisions: list[str], known: Accuracies) -> str:
    """The accuracy of each of several precisions to choose from."""
    rights = {name: words for name in precisions if (words := _words(known.get(name)))}
    others = [name for name in precisions if name not in rights]
    if not rights:
        return f"chosen among {listed(others)}: their accuracy is unknown"
    words = ", ".join(f"{name} is {what}" for name, what in rights.items())
    rest = f"; the accuracy of {', '.join(others)} is unknown" if others else ""
    return f"chosen among {listed(precisions)}: {words}{rest}"


def _words(known: NetworkAccuracy | None) -> str:
    """Its accuracy, or the one in fp32; empty if both are unknown."""
    if known is None or (known.top1 is None and known.agreement is None):
        return ""
    if known.top1 is not None:
        return f"right for {share_text(known.top1)}"
    return f"as in {REFERENCE} for {share_text(known.agreement)}"


_METER = "measure with a power meter ('mansard doctor' says what is missing)"
# By what the reasons of the models say, the first that matches.
_REMEDIES = (
    (r"too few points", "measure more of it: 'mansard bench --profile full'"),
    (
        r"not identifiable",
        "the meter was read, but the fit is too noisy: measure longer windows and more "
        "repetitions ('mansard bench --profile full')",
    ),
    (r"no such column|leaves it empty", "import its power or energy with the times"),
    (
        r"power was measured in no mode",
        "measure its power in 4 modes: 'mansard board plan' picks them",
    ),
    (
        r"\bits .* (is|are) unknown|unknown in this mode|mode of this network says its",
        "give the modes all their clocks",
    ),
    (r"no clock is known of all", "give the modes all their clocks"),
    (r"meter|no energy|no power|power was not recorded", _METER),
)


def remedy(reason: str | None) -> str:
    """A remedy for ``reason``; a meter if it names none."""
    if not reason:
        return _METER
    ways = (way for pattern, way in _REMEDIES if re.search(pattern, reason))
    return next(ways, "")


def what_is_missing(values: Values, screened: Screen, wanted: Wanted) -> str:
    """The energy or power that the question needs, why it is unknown, and what helps."""
    everything = np.ones(len(values), dtype=np.bool_)
    needed = missing_quantity(values, screened, wanted, everything)
    reason = why_missing(values, everything)
    why = f" ({reason})" if reason else ""
    ways = [way] if (way := remedy(reason)) else []
    if wanted.minimise != "latency":
        ways.append("minimise latency")
    if wanted.max_energy_j is not None or wanted.max_power_w is not None:
        last = "leave out limits of power and energy"
        is_first = wanted.minimise == "latency"
        ways = [*ways, last] if is_first else [*ways[:-1], f"{ways[-1]} and {last}"]
    return f"{unknown_words(needed, 'every mode')}{why}: {', or '.join(ways)}"


def lacking_note(values: Values, screened: Screen, wanted: Wanted, rows: Mask) -> str:
    """How many candidates cannot be compared, why, and what helps; empty for none."""
    n_rows = int(rows.sum())
    if not n_rows:
        return ""
    needed = missing_quantity(values, screened, wanted, rows)
    reason = why_missing(values, rows)
    why = f" ({reason})" if reason else ""
    way = remedy(reason)
    of = f"{n_rows} of {len(values)} candidates"
    return f"{unknown_words(needed, of)}{why}, so they are left out{': ' * bool(way)}{way}"


def fallback_note(fallback: FallBack) -> str:
    """That modes are compared by their times, because too few have an energy, and what helps."""
    why = f" ({fallback.reason})" if fallback.reason else ""
    way = remedy(fallback.reason)
    n_modes = fallback.n_modes
    modes = f"{fallback.n_known or 'none'} of {n_modes} modes" if n_modes > 1 else "no mode"
    return (
        f"energy is known in {modes}{why}: modes are compared by their times, not by their "
        f"energies{'; to compare energies, ' * bool(way)}{way}"
    )


_NO_LIMITS_KEPT = "no mode is known to meet the limits"


def in_words(decision: Decision) -> Recommendation:
    """The recommendation: what was decided, with its sentence, its reasons and its notes."""
    question, choice = decision.question, decision.choice
    if question is None:
        return _nothing(decision, decision.refused)
    if choice is None:
        return _unanswered(decision, question)
    if decision.nearness is not None:
        return _nearest(decision, question, choice)
    return _chosen(decision, question, choice)


def _chosen(decision: Decision, question: Question, choice: Candidate) -> Recommendation:
    """The answer that recommends a candidate, which meets, or may meet, every limit."""
    assert decision.claim is not None  # noqa: S101 - a choice has one
    wanted, claim, counts = decision.wanted, decision.claim, question.counts
    is_kept = decision.verdict == "feasible"
    sentence = _sentence(decision, counts, claim, choice) + lowest_sentence(
        decision.lowest, choice, wanted
    )
    sentence += equal_sentence([*map(mode_words, decision.equals)], decision.n_equals)
    accuracy, why_no_accuracy = question.accuracy(choice)
    unknown = {
        "accuracy": why_no_accuracy,
        "commands": NO_COMMANDS,
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
        basis=_basis(choice),
        sentence=sentence + unknown_modes_sentence(question.timeless) + accuracy_sentence(accuracy),
        claim=claim_words(claim)
        if is_kept
        else likeliest_words(
            wanted, is_likeliest=decision.is_likeliest, is_ample=decision.n_ample > 0
        ),
        accuracy=accuracy,
        **_numbers(question),
        most_excess=decision.most_excess,
        measured=_measured(decision, choice),
        measure_next=_measure_next(decision, choice),
        why=(
            *why_chosen(choice, wanted, counts, claim),
            *how_many_measured(counts, choice),
            *relaxed_words(decision.relaxations),
        ),
        checks=decision.checks,
        savings=decision.savings,
        neighbours=tuple(_neighbour(other, choice, decision) for other in decision.neighbours),
        equals=decision.equals,
        relaxations=decision.relaxations,
        notes=_notes(decision, question),
        unknown={name: reason for name, reason in unknown.items() if reason},
    )


def _sentence(decision: Decision, counts: CandidateCounts, claim: Claim, choice: Candidate) -> str:
    """Which candidate is recommended, and why."""
    wanted, savings = decision.wanted, decision.savings
    if decision.verdict == "feasible":
        return chosen_sentence(choice, wanted, savings, claim)
    if decision.n_ample:
        return ample_sentence(choice, wanted, savings, counts, decision.n_ample)
    return likeliest_sentence(
        choice, wanted, savings, decision.checks, is_likeliest=decision.is_likeliest
    )


def _basis(choice: Candidate) -> Basis:
    return "roofs" if choice.interval == "roof" else choice.source


def _numbers(question: Question) -> dict[str, Any]:
    """The counts of an answer, and the modes without a time."""
    counts = question.counts
    return {
        "n_candidates": counts.n_asked,
        "n_feasible": counts.n_kept,
        "n_broken": counts.n_broken,
        "n_unknown": counts.n_unknown + counts.n_timeless,
        "n_measured": counts.n_measured,
        "modes_unknown": dict(question.timeless),
    }


def _neighbour(other: Candidate, choice: Candidate, decision: Decision) -> Neighbour:
    wanted = decision.wanted
    # Those that are expected to meet the limits too are compared by what they cost.
    checks = () if other in decision.ample else check_limits(other, wanted)
    return Neighbour(candidate=other, why_lost=lost_words(other, choice, checks, wanted))


def _why_not_measured(decision: Decision, choice: Candidate) -> str:
    """Why there is no measured candidate to compare with; empty if there is one."""
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
    """What to measure next, and what it would decide."""
    candidate, wanted = decision.decisive, decision.wanted
    if candidate is None:
        return None
    checks = check_limits(candidate, wanted)
    return MeasureNext(
        candidate=candidate,
        what=decisive_words(candidate, choice, checks, wanted),
        unknown={"command": how_to_measure(candidate, open_quantity(checks, wanted))},
    )


def _nearest(decision: Decision, question: Question, nearest: Candidate) -> Recommendation:
    """The answer if every row that can be compared breaks a limit.

    It has the nearest row, and the limit that would have to be loosened.
    """
    assert decision.nearness is not None  # noqa: S101 - the caller has looked
    wanted, counts = decision.wanted, question.counts
    open_words = _open_words(question)
    accuracy, why_no_accuracy = question.accuracy(nearest)
    sentence = nearest_sentence(
        nearest,
        wanted,
        decision.relaxations,
        counts,
        open_words,
        rank=decision.nearness,
        is_all_known=decision.is_all_known,
        may_be=bool((question.broken & question.screened.may_be).any()),
    )
    lacking = ("most_excess", "measured", "measure_next")
    return Recommendation(
        device=nearest.device,
        network=nearest.network,
        minimise=wanted.minimise,
        verdict=decision.verdict,
        choice=nearest,
        basis=_basis(nearest),
        accuracy=accuracy,
        sentence=sentence + left_out_sentence(decision.left_out),
        claim=NEARNESS_WORDS[decision.nearness],
        **_numbers(question),
        why=(why_none(counts, open_words), *how_many_measured(counts)),
        checks=decision.checks,
        savings=decision.savings,
        nearest=decision.nearest,
        relaxations=decision.relaxations,
        notes=_notes(decision, question),
        unknown={"commands": NO_COMMANDS, **dict.fromkeys(lacking, _NO_LIMITS_KEPT)}
        | ({"accuracy": why_no_accuracy} if accuracy is None else {}),
    )


def _open_words(question: Question) -> str:
    """The candidates that may or may not meet the limits; empty for none."""
    parts = [unknown_modes_words(question.timeless)] if question.timeless else []
    if question.unknown.any():
        lacks = missing_quantity(
            question.values, question.screened, question.wanted, question.unknown
        )
        parts.insert(0, f"of {int(question.unknown.sum())} {unknown_words(lacks)}")
    return "; ".join(parts)


def _unanswered(decision: Decision, question: Question) -> Recommendation:
    """The answer without candidates: what is missing, and how to get it."""
    values, wanted = question.values, decision.wanted
    if len(values) == 0:
        what = next(iter(omitted_notes(values.omitted)), "there are no predictions")
        if precisions := drop_notes(question.drops):
            what = "; ".join(precisions)
        if wanted.batches is not None and decision.device:
            what = f"nothing was predicted at batch {', '.join(map(str, wanted.batches))}"
    else:
        what = what_is_missing(values, question.screened, wanted)
    notes = tuple(note for note in omitted_notes(values.omitted) if note != what)
    return _nothing(decision, what, **_numbers(question), notes=notes)


def _nothing(decision: Decision, why: str, **fields: Any) -> Recommendation:
    """No recommendation, and ``why``."""
    missing = ("choice", "basis", "commands", "most_excess", "measured", "measure_next", "accuracy")
    return Recommendation(
        device=decision.device,
        network=decision.network,
        minimise=decision.wanted.minimise,
        verdict="unknown",
        choice=None,
        sentence=f"Nothing can be recommended for {display_name(decision.network)}: {why}."
        + lowest_sentence(decision.lowest, None, decision.wanted),
        unknown=dict.fromkeys(missing, why),
        **({"n_candidates": 0} | fields),
    )


def _notes(decision: Decision, question: Question) -> tuple[str, ...]:
    """What was left out, and what the numbers of the chosen row do not include."""
    assert decision.at is not None  # noqa: S101 - the callers have a row
    values, wanted = question.values, decision.wanted
    notes = [*drop_notes(question.drops), *omitted_notes(values.omitted)]
    if question.fallback is not None:
        notes.append(fallback_note(question.fallback))
    note = values.frame["notes"][decision.at]
    if note is not None:
        notes.append(str(note))
    precisions = values.frame["precision"].filter(pl.Series(question.compared)).unique().sort()
    if len(precisions) > 1:
        notes.append(open_note(precisions.to_list(), question.accuracies))
    lacking = lacking_note(values, question.screened, wanted, question.unknown)
    if lacking:
        notes.append(lacking)
    if values.latency.interval[decision.at] == "roof":
        candidate = values.candidate(decision.at)
        notes.append(roof_note(candidate))
    notes += [lower.text for lower in decision.lower_settings]
    return tuple(notes)
