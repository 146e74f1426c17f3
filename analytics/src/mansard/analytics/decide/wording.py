"""The sentences of a recommendation: what was chosen, why, and what others would give."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP, digits, seconds
from mansard.analytics.decide.limits import limits_of
from mansard.analytics.decide.records import (
    Candidate,
    LimitCheck,
    Objective,
    Quantity,
    Relaxation,
    Saving,
    Wanted,
)


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
    percent = round(100 * (ratio - 1), 1 if abs(ratio - 1) < 0.1 else 0)
    return f"{'+' if percent > 0 else '−' if percent < 0 else '±'}{abs(percent):g}{NBSP}%"


def likely(probability: float) -> str:
    """A probability; never rounded to certainty."""
    if probability > 0.99:
        return f"more than 99{NBSP}%"
    if probability < 0.01:
        return f"less than 1{NBSP}%"
    return f"{100 * probability:.0f}{NBSP}%"


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


def _mode_words(candidate: Candidate) -> str:
    """``30W``, or ``30W at batch 8``."""
    batch = "" if candidate.batch == 1 else f" at batch {candidate.batch}"
    return f"{display_name(candidate.mode)}{batch}"


def _figures(candidate: Candidate) -> str:
    """Time, power and energy of a candidate: ``4.76 ms, 12.3 W, 58.5 mJ per item``."""
    parts = [seconds(candidate.latency_s)]
    if candidate.batch > 1:
        parts[0] += f" for {candidate.batch} items"
    if candidate.power_w is not None:
        parts.append(amount("power", candidate.power_w))
    if candidate.energy_j is not None:
        parts.append(f"{quantity_j(candidate.energy_j)} per item")
    return ", ".join(parts)


def _limit_words(wanted: Wanted) -> str:
    """``limit 40 ms``, ``limits 40 ms and 12 W``; empty where there is none."""
    limits = [_limit(kind, limit) for kind, limit in limits_of(wanted)]
    return f"limit{'s' if len(limits) > 1 else ''} {' and '.join(limits)}" if limits else ""


def _limit(kind: Quantity, limit: float) -> str:
    """``40 ms``, ``at least 30 items/s``: as it was given, without zeros at the end."""
    text = re.sub(r"(\.\d*?)0+(?=\D)", r"\1", amount(kind, limit)).replace(f".{NBSP}", NBSP)
    return f"at least {text}" if kind == "rate" else text


def chosen_sentence(choice: Candidate, wanted: Wanted, savings: Sequence[Saving]) -> str:
    """``MAXN is fastest for net in fp16 (4.76 ms; limit 40 ms; modelled); it is also …``."""
    return (
        f"{_mode_words(choice)} {_SUPERLATIVES[wanted.minimise]}{_facts(choice, wanted, savings)}"
    )


def likeliest_sentence(choice: Candidate, wanted: Wanted, savings: Sequence[Saving]) -> str:
    """That limits may be kept, but in no mode as likely as asked."""
    return (
        f"No mode keeps each limit with a probability of {wanted.probability:.0%}. "
        f"{_mode_words(choice)} is likeliest to keep them{_facts(choice, wanted, savings)}"
    )


def _facts(choice: Candidate, wanted: Wanted, savings: Sequence[Saving]) -> str:
    """What the choice is for, its figures, and how it compares with other modes."""
    facts = "; ".join(filter(None, (_figures(choice), _limit_words(wanted), choice.source)))
    compared = [
        f"it is also {each.baseline}" if each.mode == choice.mode else saving_words(each)
        for each in savings
        if each.other is not None
    ]
    name = f"{display_name(choice.network)} in {choice.precision}"
    return "; ".join([f" for {name} ({facts})", *compared]) + "."


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


def nearest_sentence(nearest: Candidate, wanted: Wanted, relaxations: Sequence[Relaxation]) -> str:
    """That no mode keeps the limits, and what would."""
    ways = "; or ".join(
        f"{_QUANTITY_WORDS[way.quantity]} {_limit(way.quantity, way.limit)} instead of "
        f"{_limit(way.quantity, way.asked)} ({_mode_words(way.candidate)})"
        for way in relaxations
    )
    relax = f"One looser limit is enough: {ways}." if ways else "One looser limit is not enough."
    return (
        f"No mode keeps the {_limit_words(wanted)} for {display_name(nearest.network)}. "
        f"{_mode_words(nearest)} is nearest ({_figures(nearest)}; {nearest.source}). {relax}"
    )


def why_chosen(choice: Candidate, wanted: Wanted, n_all: int, n_likely: int) -> tuple[str, ...]:
    """What speaks for the choice: of ``n_all``, ``n_likely`` are as likely as asked."""
    best = f"it {_SUPERLATIVES[wanted.minimise]}"
    if not limits_of(wanted):
        lines = [f"of {n_all} candidates {best}"]
    elif n_likely:
        lines = [
            f"{n_likely} of {n_all} candidates keep each limit with a probability of at least "
            f"{wanted.probability:.0%}; of these {best}"
        ]
    else:
        lines = [
            f"none of {n_all} candidates keeps each limit with a probability of "
            f"{wanted.probability:.0%}; of those that keep them as predicted, it is likeliest to "
            "keep its least likely limit"
        ]
    if choice.bound in _BOUND_WORDS:
        lines.append(_BOUND_WORDS[choice.bound])
    if choice.is_extrapolated:
        lines.append("its clocks are beyond those that were measured: measure it before you use it")
    return tuple(lines)


def equal_words(n_equals: int) -> str:
    """That others cannot be told from the choice."""
    others = "1 other candidate" if n_equals == 1 else f"{n_equals} other candidates"
    return f"the 95 % intervals do not separate it from {others}"


def check_words(check: LimitCheck) -> str:
    """A limit, what is predicted, and how likely it holds: ``time 4.76 ms, limit 40 ms: …``."""
    word, limit = _QUANTITY_WORDS[check.quantity], _limit(check.quantity, check.limit)
    if check.value is None:
        return f"{word} unknown, limit {limit}: {check.unknown['value']}"
    held = (
        f"its probability is unknown: {check.unknown['probability']}"
        if check.probability is None
        else f"kept with a probability of {likely(check.probability)}"
    )
    return f"{word} {amount(check.quantity, check.value)}, limit {limit}: {held}"


def lost_words(
    other: Candidate, choice: Candidate, checks: Sequence[LimitCheck], wanted: Wanted
) -> str:
    """Why ``other`` lost: the limit that it breaks, or what it costs more."""
    for check in checks:
        if check.excess:
            value = amount(check.quantity, check.value or 0.0)
            limit = _limit(check.quantity, check.limit)
            return f"breaks the limit of {_QUANTITY_WORDS[check.quantity]}: {value}, limit {limit}"
    for check in checks:
        if check.probability is not None and check.probability < wanted.probability:
            limit = _limit(check.quantity, check.limit)
            return (
                f"keeps the limit of {limit} with a probability of only "
                f"{likely(check.probability)}, {wanted.probability:.0%} required"
            )
    return trade_words(other, choice)


def trade_words(other: Candidate, choice: Candidate) -> str:
    """``0.8 ms faster, but 1.9 W more``: what another one gives and takes beside the choice."""
    better: list[str] = []
    worse: list[str] = []
    pairs: tuple[tuple[Quantity, float | None, float | None, str, str], ...] = (
        ("latency", other.latency_s, choice.latency_s, "faster", "slower"),
        ("power", other.power_w, choice.power_w, "less", "more"),
        ("energy", other.energy_j, choice.energy_j, "less per item", "more per item"),
    )
    for kind, mine, its, less, more in pairs:
        if mine is None or its is None or mine == its:
            continue
        words = f"{amount(kind, abs(mine - its))} {less if mine < its else more}"
        (better if mine < its else worse).append(words)
    if not better:
        return f"{' and '.join(worse)}" if worse else "the same in every figure"
    return " and ".join(better) + (f", but {' and '.join(worse)}" if worse else "")
