"""The sentences of a recommendation: what was chosen, why, and what others would give."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.analytics.data.names import display_name, stage_of
from mansard.analytics.decisions.choice import Claim
from mansard.analytics.decisions.limits import Nearness, limits_of
from mansard.analytics.decisions.records import (
    Candidate,
    CandidateCounts,
    Holds,
    LimitCheck,
    Objective,
    Quantity,
    Relaxation,
    Saving,
    Wanted,
)
from mansard.analytics.pages.words.comparisons import (
    QUANTITY_WORDS,
    asked_words,
    compared_facts,
    expected_time,
    figure,
    figures,
    item_word,
    likely,
    limit_text,
    limit_word,
    limit_words,
    mode_words,
    named_limits,
    network_words,
)
from mansard.core.units import ROOF_FACTORS

_BOUND_WORDS = {
    "compute": "the largest part of its time is limited by arithmetic",
    "memory": "the largest part of its time is limited by main memory",
    "launch": "the largest part of its time is kernel launches: a larger batch would help",
    "power": "its time is limited by the mode's power limit",
}


# Times of whole networks tell which clock they follow, not whether it is arithmetic.
_CLOCK_WORDS = _BOUND_WORDS | {
    "compute": "its time follows the processor's clock more than the memory's",
    "memory": "its time follows the memory's clock more than the processor's",
    "launch": "its time follows neither the processor's clock nor the memory's",
}


_SUPERLATIVES: dict[Objective, tuple[str, str]] = {  # as it is, and as it may be
    "energy": ("uses the least energy", "use the least energy"),
    "latency": ("is fastest", "be fastest"),
    "edp": (
        "has the least product of energy and time",
        "have the least product of energy and time",
    ),
    "power": ("draws the least power", "draw the least power"),
}


def claim_words(claim: Claim, *, with_limits: bool = True) -> str:
    """``uses the least energy of the measured modes that meet the limit``."""
    noun = f"{'measured ' * claim.is_measured}{claim.noun}{'' if claim.is_only else 's'}"
    group = ["known by more than bounds"] if claim.is_beyond_bounds else []
    group += [_limits_text(claim)] if claim.limits and with_limits else []
    group += [f"whose {claim.missing} is known"] if claim.missing else []
    if claim.is_only:
        return f"is the only {' '.join([noun, ' and '.join(group)]).strip()}"
    plain, bare = _SUPERLATIVES[claim.minimise]
    says = {"is": plain, "predicted": f"is predicted to {bare}", "may": f"may {bare}"}
    counted = " with its uncertainty counted" if claim.is_counted else ""
    of = f" of the {' '.join([noun, ' and '.join(group)]).strip()}"
    is_of_all = not group and not claim.is_measured
    return f"{says[claim.certainty]}{counted}{'' if is_of_all else of}"


def _limits_text(claim: Claim) -> str:
    noun = "limit" if claim.n_limits == 1 else "limits"
    if claim.limits == "known":
        return f"known to meet the {noun}"
    return f"that meet{'s' * claim.is_only} the {noun}"


def chosen_sentence(
    choice: Candidate, wanted: Wanted, savings: Sequence[Saving], claim: Claim
) -> str:
    """``MAXN is fastest for net in fp16 (4.76 ms; limit 40 ms; modelled); it is also …``."""
    by_roofs = "By the roofline bounds alone " if choice.interval == "roof" else ""
    return f"{by_roofs}{mode_words(choice)} {claim_words(claim)}{_facts(choice, wanted, savings)}"


def likeliest_sentence(
    choice: Candidate,
    wanted: Wanted,
    savings: Sequence[Saving],
    checks: Sequence[LimitCheck],
    *,
    is_likeliest: bool,
) -> str:
    """The sentence if candidates may meet the limits, but none with the requested probability.

    ``is_likeliest``: every candidate has a probability to meet them, and none a greater one.
    """
    limits, mode = named_limits(wanted, item_word(choice.network)), mode_words(choice)
    network = network_words(choice)
    facts = compared_facts(f" ({figures(choice)}; {choice.source})", choice, savings)
    if all(check.probability is not None for check in checks):
        chance = _chance_words(checks)
        does = "is likeliest to" if is_likeliest else f"may meet {_them(wanted)}"
        claim = f"{mode} {does}{chance and f', {chance}'}"
        return (
            f"No mode is known to meet the {limits} for {network} with a "
            f"probability of {asked_words(wanted)}. {claim}{facts}"
        )
    why = {
        "bounds": f"only bounds are known of {mode}",
        "roof": f"only roofline bounds are known on {display_name(choice.device)}",
    }.get(choice.certainty or "", f"{mode} has a value without an interval")
    return (
        f"It is uncertain whether any mode meets the {limits} for {network}: {why}. {mode} may "
        f"meet {_them(wanted)}{facts}"
    )


def ample_sentence(
    choice: Candidate,
    wanted: Wanted,
    savings: Sequence[Saving],
    counts: CandidateCounts,
    n_ample: int,
) -> str:
    """The sentence if modes meet the limits at the longest expected time; ``choice`` is one."""
    limits = named_limits(wanted, item_word(choice.network))
    plain, _ = _SUPERLATIVES[wanted.minimise]
    noun = "modes" if counts.are_modes else "candidates"
    best = f"; of {n_ample} such {noun} it {plain} by the roofs" if n_ample > 1 else ""
    facts = compared_facts(f" ({figures(choice)}; {choice.source})", choice, savings)
    return (
        f"{mode_words(choice)} is expected to meet the {limits} for {network_words(choice)}: "
        f"{expected_time(choice)}, as recorded networks suggest{best}{facts}"
    )


def _them(wanted: Wanted) -> str:
    return "it" if len(limits_of(wanted)) == 1 else "them"


def likeliest_words(wanted: Wanted, *, is_likeliest: bool, is_ample: bool = False) -> str:
    """A short verdict on a choice that may meet the limits."""
    limits = "limit" if len(limits_of(wanted)) == 1 else "limits"
    if is_ample:
        return f"expected to meet the {limits}"
    return f"{'is likeliest to' if is_likeliest else 'may'} meet the {limits}"


def _chance_words(checks: Sequence[LimitCheck]) -> str:
    """``with 54 %``, the probability of the only limit; empty for several limits."""
    chances = [check.probability for check in checks if check.probability is not None]
    return f"with {likely(chances[0])}" if len(chances) == len(checks) == 1 else ""


def _facts(choice: Candidate, wanted: Wanted, savings: Sequence[Saving]) -> str:
    """The network of the choice, its figures, and how it compares with other modes."""
    limits = limit_words(wanted, item_word(choice.network))
    facts = "; ".join(filter(None, (figures(choice), limits, choice.source)))
    return compared_facts(f" for {network_words(choice)} ({facts})", choice, savings)


NEARNESS_WORDS: dict[Nearness, str] = {
    "sure": "is nearest",
    "known": "is nearest of the known modes",
    "bounds": "may be nearest",
    "roof": "is nearest by the roofs",
}


def nearest_sentence(
    nearest: Candidate,
    wanted: Wanted,
    relaxations: Sequence[Relaxation],
    counts: CandidateCounts,
    open_words: str,
    *,
    rank: Nearness,
    is_all_known: bool,
    may_be: bool = False,
) -> str:
    """That no mode is known to meet the limits, which one is nearest, and which limit to loosen.

    ``is_all_known``: no unknown value hides a looser limit that would be enough. ``may_be``: some
    interval contains the limits, less likely than asked.
    """
    limits = named_limits(wanted, item_word(nearest.network))
    network = display_name(nearest.network)
    meets = "is likely to meet" if may_be else "meets"
    claim = f"No mode {meets} the {limits} for {network}"
    if open_words:
        known = "1 candidate" if counts.n_broken == 1 else f"{counts.n_broken} candidates"
        claim = (
            f"It is unknown whether any mode meets the {limits} for {network}: {known} of "
            f"{counts.n_asked} cannot, and {open_words}"
        )
    ways = "; or ".join(map(_relaxed, relaxations))
    relax = f"One looser limit is enough: {ways}." if ways else "One looser limit is not enough."
    if not ways and not is_all_known:
        relax = "It is unknown whether one looser limit is enough."
    if nearest.interval == "roof":
        relax = "The limit that it can meet is unknown: the network was not measured."
    place = f"{mode_words(nearest)} {NEARNESS_WORDS[rank]}"
    return f"{claim}. {place} ({figures(nearest)}; {nearest.source}). {relax}"


def _relaxed(way: Relaxation) -> str:
    item = item_word(way.candidate.network)
    limits = (_rounded_limit(way), way.asked)
    loosened, limit = (limit_text(way.quantity, at, item) for at in limits)
    mode = mode_words(way.candidate)
    return f"{QUANTITY_WORDS[way.quantity]} {loosened} instead of {limit} ({mode})"


def _rounded_limit(way: Relaxation) -> float:
    """The loosened limit in three digits, rounded to the loose side, so that it still holds."""
    digit = 10.0 ** (math.floor(math.log10(way.limit)) - 2)
    is_least = way.quantity == "rate"
    return (math.floor(way.limit / digit) if is_least else math.ceil(way.limit / digit)) * digit


def relaxed_words(relaxations: Sequence[Relaxation]) -> tuple[str, ...]:
    """The looser limits that would be met with the required probability."""
    return tuple(f"a looser limit would be met: {_relaxed(way)}" for way in relaxations)


def unknown_words(quantities: str, of: str = "") -> str:
    """``the energy and power of every mode are unknown``; ``of``: of what, if it is to be said."""
    verb = "are" if " and " in quantities else "is"
    return f"the {quantities}{of and f' of {of}'} {verb} unknown"


def why_none(counts: CandidateCounts, open_words: str) -> str:
    """The reason if every candidate with known costs breaks a limit."""
    if not open_words:
        who = f"each of {counts.n_all} candidates" if counts.n_all > 1 else "the only candidate"
        return f"{who} breaks a limit"
    return f"of {counts.n_asked} candidates {counts.n_broken} break a limit, and {open_words}"


def why_chosen(
    choice: Candidate, wanted: Wanted, counts: CandidateCounts, claim: Claim
) -> tuple[str, ...]:
    """Reasons for the choice, and how many candidates meet the limits."""
    n_all, n_kept = counts.n_asked, counts.n_kept
    if not limits_of(wanted):
        n_compared = counts.n_all - counts.n_unknown
        who = f"of {n_compared} candidates it" if n_compared > 1 else "it"
        lines = [f"{who} {claim_words(claim)}"]
    elif n_kept:
        keep = f"of {n_all} candidate{'s' * (n_all > 1)} meet{'s' * (n_kept == 1)}"
        best = f"; of these it {claim_words(claim, with_limits=False)}" if n_kept > 1 else ""
        lines = [
            f"{n_kept} {keep} each limit with a probability of at least "
            f"{asked_words(wanted)}{_rest(counts)}{best}"
        ]
    else:
        who = f"none of {n_all} candidates" if n_all > 1 else "not even the only candidate"
        lines = [
            f"{who} is known to meet each limit with a probability of {asked_words(wanted)}"
            f"{_rest(counts)}"
        ]
    if choice.bound in _BOUND_WORDS and choice.certainty != "bounds":
        is_roof = choice.interval == "roof"
        words = f"at its roof {_BOUND_WORDS[choice.bound]}"
        lines.append(words if is_roof else _CLOCK_WORDS[choice.bound])
    if choice.is_extrapolated:
        lines.append("its clocks are beyond those that were measured: measure it before you use it")
    return tuple(lines)


def _rest(counts: CandidateCounts) -> str:
    """``, 2 break one, 1 is uncertain``: the candidates that do not surely meet the limits."""
    parts = []
    if counts.n_broken:
        parts.append(f"{counts.n_broken} break{'s' if counts.n_broken == 1 else ''} one")
    n_unknown = counts.n_open + counts.n_unknown + counts.n_timeless
    if n_unknown:
        parts.append(f"{n_unknown} {'is' if n_unknown == 1 else 'are'} uncertain")
    return "".join(f", {part}" for part in parts)


def roof_note(choice: Candidate) -> str:
    """Times are roofs here; how to get a time with a known error."""
    return (
        f"{display_name(choice.network)} was not measured on {display_name(choice.device)}: times "
        f"are at best those of its roofs, {ROOF_FACTORS}. --calibrate scales them to networks that "
        "were measured there (docs/understand/calibration.md)"
    )


def open_quantity(checks: Sequence[LimitCheck], wanted: Wanted) -> Quantity:
    """The quantity to measure: of the first limit that may be broken, else the objective's."""
    open_one = next((check for check in checks if check.holds != "kept"), None)
    return _MEASURED[wanted.minimise] if open_one is None else open_one.quantity


def decisive_words(
    candidate: Candidate, choice: Candidate, checks: Sequence[LimitCheck], wanted: Wanted
) -> str:
    """What a measurement of ``candidate`` would decide; ``checks``: its limits."""
    where = f"{display_name(candidate.network)} in {mode_words(candidate)}"
    is_open = any(check.holds != "kept" for check in checks)
    kind = open_quantity(checks, wanted)
    word, amount = QUANTITY_WORDS[kind], figure(candidate, kind)
    if candidate.is_measured:
        return f"measuring {where} again would show whether it meets the limit on {word} ({amount})"
    if is_open:
        chance = next(check.probability for check in checks if check.holds != "kept")
        odds = "" if chance is None else f"; it does with {likely(chance)}"
        tells = f"whether it meets the limit on {word} (modelled as {amount}{odds})"
    elif candidate == choice:
        tells = f"its {word} (modelled as {amount})"
    else:
        mine = figure(choice, kind)
        tells = f"whether its {word} is less (modelled as {amount}; {mode_words(choice)}: {mine})"
    return f"measuring {where} would show {tells}"


def how_to_measure(candidate: Candidate, kind: Quantity) -> str:
    """How to measure the open quantity where no command of Mansard can."""
    if candidate.is_measured:
        return "more repetitions narrow its interval"
    if stage_of(candidate.network) is not None and not candidate.is_calibrated:
        return f"measure its server in {display_name(candidate.mode)}: mansard measure --server URL"
    in_table = " and add a row to the imported table" if candidate.is_calibrated else ""
    return f"measure its {_TO_MEASURE[kind]} in that mode{in_table}"


_TO_MEASURE: dict[Quantity, str] = {
    "latency": "time",
    "rate": "time",
    "power": "power",
    "energy": "time and power",
}


def how_many_measured(counts: CandidateCounts, choice: Candidate | None = None) -> tuple[str, ...]:
    """In how many candidates the network was measured, and whether the choice is one of them.

    Nothing is said where none was: the sentence says that the choice is modelled.
    """
    if not counts.n_measured:
        return ()
    kind = "mode" if counts.are_modes else "candidate"
    if counts.n_measured == counts.n_asked:
        several = f"all {counts.n_all} {kind}s" if counts.n_all > 2 else f"both {kind}s"
        return (f"measured in {several if counts.n_all > 1 else f'the only {kind}'}",)
    share = f"measured in {counts.n_measured} of {counts.n_asked} {kind}s"
    if choice is None:
        return (share,)
    return (f"{share}, {'this one included' if choice.is_measured else 'not in this one'}",)


_MEASURED: dict[Objective, Quantity] = {
    "energy": "energy",
    "latency": "latency",
    "edp": "energy",
    "power": "power",
}


_HOLDS_WORDS: dict[Holds, str] = {"kept": "met", "unknown": "uncertain", "broken": "broken"}


def chances_words(checks: Sequence[LimitCheck]) -> str:
    """``probability of meeting the limit: time more than 99 %``; empty without probabilities."""
    chances = [
        f"{QUANTITY_WORDS[check.quantity]} {likely(check.probability)}"
        for check in checks
        if check.probability is not None
    ]
    return f"probability of meeting the limit: {', '.join(chances)}" if chances else ""


def check_words(check: LimitCheck, candidate: Candidate) -> str:
    """A limit of ``candidate``, and whether it holds: ``time 4.76 ms, limit 40 ms: …``."""
    word, item = QUANTITY_WORDS[check.quantity], item_word(candidate.network)
    limit = limit_text(check.quantity, check.limit, item)
    kind = limit_word(check.quantity)
    if check.value is None:
        return f"{word} unknown, {kind} {limit}: {check.unknown['value']}"
    if check.probability is not None:
        holds = f"it holds with a probability of {likely(check.probability)}"
        held = f"{_HOLDS_WORDS[check.holds]}: {holds}"
    elif check.holds == "unknown":
        held = f"uncertain: {check.unknown['probability']}"
    else:
        held = _HOLDS_WORDS[check.holds]
    return f"{word} {figure(candidate, check.quantity)}, {kind} {limit}: {held}"
