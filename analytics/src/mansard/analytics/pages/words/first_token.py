"""What a recommendation says of the first token of a language model."""

from __future__ import annotations

from msgspec.structs import replace

from mansard.analytics.data.quantities import counted, seconds
from mansard.analytics.decisions.first_token import FirstToken
from mansard.analytics.decisions.records import Candidate, Recommendation, Verdict
from mansard.analytics.pages.words.comparisons import figure, figures, mode_words, network_words


def with_first_token(answer: Recommendation, first: FirstToken | None) -> Recommendation:
    """``answer`` with the time of its first token, and what the limit on it left out.

    Where no mode meets that limit, the answer is that of the nearest, and infeasible.
    """
    if first is None:
        return answer
    prefill = first.prefill
    if prefill is None:
        return replace(answer, notes=(*answer.notes, "the time to the first token is unknown"))
    if first.holds == "broken" and answer.choice is not None:
        return _none_in_time(answer, answer.choice, prefill, first)
    notes = [f"prefill takes {_energy(prefill)}"] if prefill.energy_j is not None else []
    notes += [_left_out(first)] if first.left_out else []
    verdict: Verdict = answer.verdict
    if first.holds == "unknown" and verdict == "feasible":
        verdict = "uncertain"
        notes.append(f"the first token may come later than {seconds(first.limit_s)}")
    return replace(
        answer,
        sentence=f"{answer.sentence} {_said(prefill, first)}",
        prefill=(prefill,),
        verdict=verdict,
        notes=(*answer.notes, *notes),
    )


def _none_in_time(
    answer: Recommendation, choice: Candidate, prefill: Candidate, first: FirstToken
) -> Recommendation:
    """The answer where no mode meets the limit on the first token: the mode that is nearest."""
    sentence = (
        f"No mode makes the first token of a prompt of {first.n_tokens:,} tokens within "
        f"{seconds(first.limit_s)} for {network_words(choice)}; {mode_words(choice)} comes "
        f"nearest with {figure(prefill, 'latency')} ({prefill.source}); then "
        f"{figures(choice)} ({choice.source})."
    )
    return replace(
        answer,
        sentence=sentence,
        prefill=(prefill,),
        verdict="infeasible",
        claim="is the nearest",
        nearest=(choice,),
        neighbours=(),
        equals=(),
        why=(),
    )


def _said(prefill: Candidate, first: FirstToken) -> str:
    size = f" for each of {prefill.batch}" if prefill.batch > 1 else ""
    limit = f", limit {seconds(first.limit_s)}" if first.limit_s is not None else ""
    return (
        f"The first token of a prompt of {first.n_tokens:,} tokens{size} comes after "
        f"{figure(prefill, 'latency')} ({prefill.source}{limit})."
    )


def _energy(prefill: Candidate) -> str:
    return f"{figure(prefill, 'energy')} a prompt"


def _left_out(first: FirstToken) -> str:
    slowest = max(first.left_out.values())
    return (
        f"{counted(len(first.left_out), 'mode')} left out, whose first token may not come "
        f"within {seconds(first.limit_s)}: expected after up to {seconds(slowest)}"
    )
