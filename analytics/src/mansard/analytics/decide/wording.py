"""The sentences of a recommendation: what was chosen, why, and what others would give."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP, digits, joules, rate, seconds, watts
from mansard.analytics.decide.limits import limits_of, spread_of
from mansard.analytics.decide.records import (
    UNKNOWN_PRECISION,
    Candidate,
    Counts,
    Holds,
    LimitCheck,
    Objective,
    Quantity,
    Relaxation,
    Saving,
    Wanted,
)
from mansard.core.text import listed


def amount(kind: Quantity, value: float) -> str:
    """A value in the unit that people read it in."""
    if kind == "latency":
        return seconds(value)
    if kind == "power":
        return f"{digits(value, 3)}{NBSP}W"
    if kind == "energy":
        return quantity_j(value)
    return f"{digits(value, 3)}{NBSP}items/s"


def quantity_j(value: float) -> str:
    """Joules, in mJ or µJ where they are few."""
    for factor, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "µ")):
        if value >= factor:
            return f"{digits(value / factor, 3)}{NBSP}{prefix}J"
    return f"{value:.2e}{NBSP}J"


def change(ratio: float) -> str:
    """A ratio as a change: 0.69 is −31 %, 3.2 is ×3.2."""
    if ratio >= 2:
        return f"×{digits(ratio, 3)}"
    share = round(100 * (ratio - 1), 1 if abs(ratio - 1) < 0.1 else 0)
    return f"{'+' if share > 0 else '−' if share < 0 else '±'}{abs(share):g}{NBSP}%"


def likely(probability: float) -> str:
    """A probability; never rounded to certainty."""
    if probability > 0.99:
        return f"more than 99{NBSP}%"
    if probability < 0.01:
        return f"less than 1{NBSP}%"
    return f"{100 * probability:.0f}{NBSP}%"


def _asked(wanted: Wanted) -> str:
    """The probability that was asked for, as it was given: ``97.5 %``."""
    return f"{100 * wanted.probability:g}{NBSP}%"


_SUPERLATIVES: dict[Objective, str] = {
    "energy": "uses the least energy",
    "latency": "is fastest",
    "edp": "has the least product of energy and time",
    "power": "draws the least power",
}
_QUANTITY_WORDS: dict[Quantity, str] = {
    "latency": "time",
    "power": "power",
    "energy": "energy of an item",
    "rate": "rate",
}
_BOUND_WORDS = {
    "compute": "its time is limited by arithmetic",
    "memory": "its time is limited by main memory: a faster clock for arithmetic would not help",
    "launch": "its time is limited by the start of kernels: a larger batch would help",
    "power": "its time is limited by the mode's power limit",
}
# Times of whole networks tell which clock they follow, not whether it is arithmetic.
_CLOCK_WORDS = _BOUND_WORDS | {
    "compute": "its time follows the processor's clock more than the memory's",
    "memory": "its time follows the memory's clock more than the processor's",
    "launch": "its time follows neither the processor's clock nor the memory's",
}


def _mode_words(candidate: Candidate) -> str:
    """``30W``, or ``30W at batch 8``."""
    batch = "" if candidate.batch == 1 else f" at batch {candidate.batch}"
    return f"{display_name(candidate.mode)}{batch}"


def _figures(candidate: Candidate) -> str:
    """Time, power and energy: ``4.76 ± 0.12 ms, 12.3 W, 58.5 mJ per item``; no power of a roof."""
    parts = [_figure(candidate, "latency")]
    if candidate.batch > 1:
        parts[0] += f" for {candidate.batch} items"
    if candidate.power_w is not None and candidate.interval != "roof":
        parts.append(_figure(candidate, "power"))
    if candidate.energy_j is not None:
        parts.append(f"{_figure(candidate, 'energy')} per item")
    return ", ".join(parts)


def _figure(candidate: Candidate, kind: Quantity) -> str:
    """``4.76 ± 0.12 ms``, ``between 9 and 78 ms``, ``at best 3.2 ms``: by its interval."""
    value, low, high = spread_of(candidate, kind)
    if kind == "rate" and value is not None:
        least, most = (None if end is None else 1 / end for end in (high, low))
        words = rate(1 / value, least, most, candidate.interval, advise=False)
        return f"{words}{NBSP}items/s"
    says = {"power": watts, "energy": joules}.get(kind, seconds)
    return says(value, low, high, candidate.interval, advise=False)


def _limit_words(wanted: Wanted) -> str:
    """``limit 40 ms``, ``limits 40 ms and 12 W``; empty where there is none."""
    limits = [_limit(kind, limit) for kind, limit in limits_of(wanted)]
    return f"limit{'s' if len(limits) > 1 else ''} {' and '.join(limits)}" if limits else ""


def _limit(kind: Quantity, limit: float) -> str:
    """``40 ms``, ``at least 30 items/s``: as it was given, without zeros at the end."""
    text = re.sub(r"(\.\d*?)0+(?=\D)", r"\1", amount(kind, limit)).replace(f".{NBSP}", NBSP)
    return f"at least {text}" if kind == "rate" else text


def chosen_sentence(
    choice: Candidate, wanted: Wanted, savings: Sequence[Saving], *, is_least: bool
) -> str:
    """``MAXN is fastest for net in fp16 (4.76 ms; limit 40 ms; modelled); it is also …``.

    ``is_least``: no other that keeps the limits has a lower objective, however uncertain.
    """
    claim = f"{_mode_words(choice)} {_claim(choice, wanted, is_least=is_least)}"
    if choice.interval == "roof":
        claim = f"By the roofs alone {claim}"
    return f"{claim}{_facts(choice, wanted, savings)}"


def _claim(choice: Candidate, wanted: Wanted, *, is_least: bool) -> str:
    """What may be said of the choice: what is modelled is predicted, not so."""
    if choice.is_measured:
        return f"{_SUPERLATIVES[wanted.minimise]}{'' if is_least else ' of the measured modes'}"
    if choice.interval == "roof":
        return _SUPERLATIVES[wanted.minimise]
    beside = "" if is_least else " with its uncertainty counted"
    return f"is predicted to {_PREDICTED[wanted.minimise]}{beside}"


_PREDICTED: dict[Objective, str] = {
    "energy": "use the least energy",
    "latency": "be fastest",
    "edp": "have the least product of energy and time",
    "power": "draw the least power",
}


def likeliest_sentence(
    choice: Candidate, wanted: Wanted, savings: Sequence[Saving], checks: Sequence[LimitCheck]
) -> str:
    """That limits may be kept, but none is known to as likely as asked."""
    limits, mode = _limit_words(wanted), _mode_words(choice)
    network = _network_words(choice)
    facts = _compared(f" ({_figures(choice)}; {choice.source})", choice, savings)
    if choice.certainty == "spread":
        chances = [check.probability for check in checks if check.probability is not None]
        least = f", with {likely(min(chances))}" if len(chances) == len(checks) == 1 else ""
        return (
            f"No mode is known to keep the {limits} for {network} with a "
            f"probability of {_asked(wanted)}. {mode} is likeliest to{least}{facts}"
        )
    why = {
        "bounds": f"only bounds are known of {mode}",
        "roof": f"its times on {display_name(choice.device)} are those of its roof alone",
    }.get(choice.certainty or "", f"{mode} has a value without an interval")
    return (
        f"Whether a mode keeps the {limits} for {network} is not known: "
        f"{why}. {mode} comes nearest{facts}"
    )


def _facts(choice: Candidate, wanted: Wanted, savings: Sequence[Saving]) -> str:
    """What the choice is for, its figures, and how it compares with other modes."""
    facts = "; ".join(filter(None, (_figures(choice), _limit_words(wanted), choice.source)))
    return _compared(f" for {_network_words(choice)} ({facts})", choice, savings)


def _network_words(candidate: Candidate) -> str:
    """``resnet50 in fp16``; of a program, or a table that does not say, the name alone."""
    precision = candidate.precision
    return display_name(candidate.network) + (
        "" if precision == UNKNOWN_PRECISION else f" in {precision}"
    )


def _compared(facts: str, choice: Candidate, savings: Sequence[Saving]) -> str:
    """The facts, and how the choice compares with other modes: the end of a sentence."""
    compared = [
        f"it is also {each.baseline}" if each.mode == choice.mode else saving_words(each)
        for each in savings
        if each.other is not None
    ]
    return "; ".join([facts, *compared]) + "."


def saving_words(saving: Saving) -> str:
    """``compared with MAXN (the board's highest mode): energy −31 %, power −54 %, time +49 %``."""
    if saving.other is None:
        return f"not compared with {saving.baseline}: {saving.unknown['other']}"
    ratios = (
        ("energy", saving.energy_ratio),
        ("power", saving.power_ratio),
        ("time", saving.latency_ratio),
    )
    parts = [f"{name} {change(ratio)}" for name, ratio in ratios if ratio is not None]
    is_same = all(ratio in (None, 1.0) for _, ratio in ratios)
    words = "no difference" if is_same else ", ".join(parts)
    return f"compared with {display_name(saving.mode)} ({saving.baseline}): {words}"


def nearest_sentence(
    nearest: Candidate,
    wanted: Wanted,
    relaxations: Sequence[Relaxation],
    counts: Counts,
    open_words: str,
) -> str:
    """That no mode of which it is known keeps the limits, and what would."""
    limits, network = _limit_words(wanted), display_name(nearest.network)
    claim = f"No mode keeps the {limits} for {network}"
    if open_words:
        known = "1 candidate" if counts.n_broken == 1 else f"{counts.n_broken} candidates"
        claim = (
            f"Whether a mode keeps the {limits} for {network} is not known: {known} of "
            f"{counts.n_asked} cannot, and {open_words}"
        )
    ways = "; or ".join(map(_relaxed, relaxations))
    relax = f"One looser limit is enough: {ways}." if ways else "One looser limit is not enough."
    if nearest.interval == "roof":
        relax = "How much looser a limit has to be is not known: the network was not measured."
    return (
        f"{claim}. {_mode_words(nearest)} is nearest ({_figures(nearest)}; {nearest.source}). "
        f"{relax}"
    )


def _relaxed(way: Relaxation) -> str:
    return (
        f"{_QUANTITY_WORDS[way.quantity]} {_limit(way.quantity, _loose(way))} instead of "
        f"{_limit(way.quantity, way.asked)} ({_mode_words(way.candidate)})"
    )


def _loose(way: Relaxation) -> float:
    """The limit in three digits that it holds for, too."""
    digit = 10.0 ** (math.floor(math.log10(way.limit)) - 2)
    is_least = way.quantity == "rate"
    return (math.floor(way.limit / digit) if is_least else math.ceil(way.limit / digit)) * digit


def relaxed_words(relaxations: Sequence[Relaxation]) -> tuple[str, ...]:
    """What looser limits would be kept as likely as asked."""
    return tuple(f"a looser limit would be kept: {_relaxed(way)}" for way in relaxations)


def unknown_words(quantities: str, of: str = "") -> str:
    """``the energy and power of every mode are unknown``; ``of``: of what, if it is to be said."""
    verb = "are" if " and " in quantities else "is"
    return f"the {quantities}{of and f' of {of}'} {verb} unknown"


def why_none(counts: Counts, open_words: str) -> str:
    """That every candidate breaks a limit, as far as it is known."""
    if not open_words:
        who = f"each of {counts.n_all} candidates" if counts.n_all > 1 else "the only candidate"
        return f"{who} breaks a limit"
    return f"of {counts.n_asked} candidates {counts.n_broken} break a limit, and {open_words}"


def why_chosen(
    choice: Candidate, wanted: Wanted, counts: Counts, *, is_least: bool
) -> tuple[str, ...]:
    """What speaks for the choice, and how many candidates keep the limits."""
    best = f"it {_claim(choice, wanted, is_least=is_least)}"
    n_all, n_kept = counts.n_asked, counts.n_kept
    if not limits_of(wanted):
        n_compared = counts.n_all - counts.n_unknown
        lines = (
            [f"of {n_compared} candidates {best}"]
            if n_compared > 1
            else [f"it is the only candidate{' with a time' if counts.n_timeless else ''}"]
        )
    elif n_kept:
        keep = f"of {n_all} candidate{'s' * (n_all > 1)} keep{'s' * (n_kept == 1)}"
        lines = [
            f"{n_kept} {keep} each limit with a probability of at least "
            f"{_asked(wanted)}{_rest(counts)}; of these {best}"
        ]
    else:
        who = f"none of {n_all} candidates" if n_all > 1 else "not even the only candidate"
        lines = [
            f"{who} is known to keep each limit with a probability of {_asked(wanted)}"
            f"{_rest(counts)}"
        ]
    if choice.bound in _BOUND_WORDS and choice.certainty != "bounds":
        is_roof = choice.interval == "roof"
        words = f"at its roof {_BOUND_WORDS[choice.bound]}"
        lines.append(words if is_roof else _CLOCK_WORDS[choice.bound])
    if choice.is_extrapolated:
        lines.append("its clocks are beyond those that were measured: measure it before you use it")
    return tuple(lines)


def _rest(counts: Counts) -> str:
    """``, 2 break one, of 1 it is not known``: what is not kept."""
    parts = []
    if counts.n_broken:
        parts.append(f"{counts.n_broken} break{'s' if counts.n_broken == 1 else ''} one")
    n_unknown = counts.n_open + counts.n_unknown + counts.n_timeless
    if n_unknown:
        parts.append(f"of {n_unknown} it is not known")
    return "".join(f", {part}" for part in parts)


def roof_note(choice: Candidate) -> str:
    """That times are roofs, and how to get a time with a known error."""
    return (
        f"{display_name(choice.network)} takes at best what its roof says; how much longer it "
        f"takes on {display_name(choice.device)} is not known: with --calibrate it follows from "
        "networks that were timed there (docs/understand/calibration.md)"
    )


def measured_words(
    other: Candidate, choice: Candidate, checks: Sequence[LimitCheck], wanted: Wanted
) -> str:
    """What the best measured mode takes, which limits it keeps, and the gain of the choice."""
    figures = f"{_mode_words(other)} ({_figures(other)}; {other.source})"
    kept = _kept_words(checks)
    mine, its = objective_value(choice, wanted.minimise), objective_value(other, wanted.minimise)
    gain = ""
    if mine is not None and its is not None and mine < its:
        gain = (
            f"; against it the choice, which is modelled: {_OBJECTIVE_WORDS[wanted.minimise]} "
            f"{change(mine / its)}"
        )
    return f"{figures}{kept}{gain}"


def _kept_words(checks: Sequence[LimitCheck]) -> str:
    if not checks:
        return ""
    broken = [_QUANTITY_WORDS[check.quantity] for check in checks if check.holds == "broken"]
    if broken:
        return f" breaks the limit of {' and '.join(broken)}"
    if all(check.holds == "kept" for check in checks):
        return " keeps every limit"
    return " may keep every limit"


_OBJECTIVE_WORDS: dict[Objective, str] = {
    "energy": "energy",
    "latency": "time",
    "edp": "energy times time",
    "power": "power",
}


def objective_value(of: Candidate, minimise: Objective) -> float | None:
    """What is to be small: s, W, J of an item, or J·s."""
    if minimise == "latency":
        return of.latency_s
    if minimise == "power":
        return of.power_w
    if of.energy_j is None:
        return None
    return of.energy_j * of.latency_s if minimise == "edp" else of.energy_j


def decisive_words(
    candidate: Candidate, choice: Candidate, checks: Sequence[LimitCheck], wanted: Wanted
) -> str:
    """What measuring ``candidate``, whose limits are ``checks``, would tell."""
    where = f"{display_name(candidate.network)} in {_mode_words(candidate)}"
    open_one = next((check for check in checks if check.holds != "kept"), None)
    kind: Quantity = _MEASURED[wanted.minimise] if open_one is None else open_one.quantity
    word, figure = _QUANTITY_WORDS[kind], _figure(candidate, kind)
    if candidate.is_measured:
        return f"measuring {where} again would tell whether it keeps the limit of {word} ({figure})"
    if open_one is not None:
        tells = f"whether it keeps the limit of {word} (modelled as {figure})"
    elif candidate == choice:
        tells = f"its {word} (modelled as {figure})"
    else:
        mine = _figure(choice, kind)
        tells = f"whether its {word} is less (modelled as {figure}; {_mode_words(choice)}: {mine})"
    return f"measuring {where} would tell {tells}"


def how_to_measure(candidate: Candidate) -> str:
    """How it is measured where no command of Mansard's can do it."""
    if candidate.is_measured:
        return "more repetitions narrow its interval"
    if candidate.is_calibrated:
        return "measure its time in that mode and add a row to the imported table"
    return "measure its time in that mode"


def how_many_measured(counts: Counts, choice: Candidate | None = None) -> tuple[str, ...]:
    """In how many candidates the network was measured, and whether the choice is one of them.

    Nothing is said where none was: the sentence says that the choice is modelled.
    """
    if not counts.n_measured:
        return ()
    kind = "mode" if counts.are_modes else "candidate"
    if counts.n_measured == counts.n_asked:
        several = f"all {counts.n_all} {kind}s" if counts.n_all > 2 else f"both {kind}s"
        return (f"measured in {several if counts.n_all > 1 else f'the only {kind}'}",)
    told = f"measured in {counts.n_measured} of {counts.n_asked} {kind}s"
    if choice is None:
        return (told,)
    return (f"{told}; the chosen one is {'one of them' if choice.is_measured else 'modelled'}",)


_MEASURED: dict[Objective, Quantity] = {
    "energy": "energy",
    "latency": "latency",
    "edp": "energy",
    "power": "power",
}


def equal_words(n_equals: int) -> str:
    """That others cannot be told from the choice."""
    others = "1 other candidate" if n_equals == 1 else f"{n_equals} other candidates"
    return f"the intervals do not separate it from {others}"


_HOLDS_WORDS: dict[Holds, str] = {"kept": "kept", "unknown": "not known", "broken": "broken"}


def check_words(check: LimitCheck, candidate: Candidate) -> str:
    """A limit of ``candidate``, and whether it holds: ``time 4.76 ms, limit 40 ms: …``."""
    word, limit = _QUANTITY_WORDS[check.quantity], _limit(check.quantity, check.limit)
    if check.value is None:
        return f"{word} unknown, limit {limit}: {check.unknown['value']}"
    if check.probability is not None:
        holds = f"it holds with a probability of {likely(check.probability)}"
        held = f"{_HOLDS_WORDS[check.holds]}: {holds}"
    elif check.holds == "unknown":
        held = f"not known: {check.unknown['probability']}"
    else:
        held = _HOLDS_WORDS[check.holds]
    return f"{word} {_figure(candidate, check.quantity)}, limit {limit}: {held}"


def lost_words(
    other: Candidate, choice: Candidate, checks: Sequence[LimitCheck], wanted: Wanted
) -> str:
    """Why ``other`` lost: the limit that it breaks or may break, or what it costs more."""
    for check in sorted(checks, key=lambda each: each.holds != "broken"):
        limit, word = _limit(check.quantity, check.limit), _QUANTITY_WORDS[check.quantity]
        if check.holds == "broken":
            value = _figure(other, check.quantity)
            return f"breaks the limit of {word}: {value}, limit {limit}"
        if check.holds == "unknown" and check.probability is not None:
            return (
                f"keeps the limit of {limit} with a probability of only "
                f"{likely(check.probability)}, {_asked(wanted)} required"
            )
        if check.holds == "unknown":
            return f"whether it keeps the limit of {word}, {limit}, is not known"
    mine, its = (objective_value(each, wanted.minimise) for each in (choice, other))
    if mine is not None and its is not None and its < mine and not other.is_measured:
        return f"its advantage is within its uncertainty: {trade_words(other, choice)}"
    return trade_words(other, choice)


def trade_words(other: Candidate, choice: Candidate) -> str:
    """``0.8 ms faster, but 1.9 W more``: what another one gives and takes beside the choice.

    What the intervals do not tell apart is named without a number, and a difference of uncertain
    values has two digits.
    """
    if (other.interval == "roof") != (choice.interval == "roof"):
        whose = "" if other.interval == "roof" else "the choice is "
        return f"not compared: {whose}known by its roof alone"
    better: list[str] = []
    worse: list[str] = []
    alike: list[str] = []
    pairs: tuple[tuple[Quantity, str, str], ...] = (
        ("latency", "faster", "slower"),
        ("power", "less", "more"),
        ("energy", "less per item", "more per item"),
    )
    for kind, less, more in pairs:
        mine, its = spread_of(other, kind)[0], spread_of(choice, kind)[0]
        if mine is None or its is None or mine == its:
            continue
        if not _are_apart(other, choice, kind):
            alike.append("time" if kind == "latency" else kind)
            continue
        words = f"{_difference(kind, abs(mine - its), other)} {less if mine < its else more}"
        (better if mine < its else worse).append(words)
    parts = [" and ".join(better), " and ".join(worse)]
    told = ", but ".join(filter(None, parts))
    if alike:
        told = "; ".join(filter(None, (told, f"{listed(alike)} not told apart")))
    return told or "the same in every figure"


def _are_apart(other: Candidate, choice: Candidate, kind: Quantity) -> bool:
    """Whether the ends that face each other tell two values apart; of values without, they do."""
    spreads = (spread_of(each, kind) for each in (other, choice))
    (less, _, less_high), (more, more_low, _) = sorted(spreads, key=lambda each: each[0] or 0.0)
    if not less or not more or not less_high or not more_low or other.interval == "roof":
        return True
    if "bounds" in {other.interval, choice.interval}:
        return less_high < more_low
    reach = math.hypot(math.log(less_high / less), math.log(more / more_low))
    return math.log(more / less) > reach


def _difference(kind: Quantity, value: float, other: Candidate) -> str:
    if other.interval is None or value <= 0:
        return amount(kind, value)
    places = 1 - math.floor(math.log10(value))
    return _limit(kind, round(value, places))
