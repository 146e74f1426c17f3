"""The sentences of a recommendation: what was chosen, why, and what others would give."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.data.names import shown
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


def describe_limit(kind: Quantity, limit: float) -> str:
    """``at most 20.0 ms``, ``at least 30 items/s``."""
    if kind == "rate":
        return f"at least {digits(limit, 3)}{NBSP}items/s"
    return f"at most {amount(kind, limit)}"


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


OBJECTIVE_WORDS: dict[Objective, str] = {
    "energy": "least energy",
    "latency": "shortest time",
    "edp": "least product of energy and time",
    "power": "least power",
}
QUANTITY_WORDS: dict[Quantity, str] = {
    "latency": "time",
    "power": "power",
    "energy": "energy of an item",
    "rate": "rate",
}
_BOUND_WORDS = {
    "compute": "arithmetic limits its time there",
    "memory": "main memory limits its time there: a faster clock for arithmetic would not help",
    "launch": "starting kernels limits its time there: a larger batch would help",
    "power": "the mode's power limit decides its time there",
}


def place(candidate: Candidate) -> str:
    """What a candidate is: ``30W, batch 8``."""
    return f"{shown(candidate.mode)}, batch {candidate.batch}"


def figures(candidate: Candidate) -> str:
    """Time, power and energy of a candidate in a few words."""
    parts = [seconds(candidate.latency_s)]
    if candidate.batch > 1:
        parts[0] += f" for {candidate.batch} items"
    if candidate.power_w is not None:
        parts.append(amount("power", candidate.power_w))
    if candidate.energy_j is not None:
        parts.append(f"{quantity_j(candidate.energy_j)} per item")
    return ", ".join(parts)


def limit_list(wanted: Wanted) -> str:
    """All limits in a row; empty where none was asked for."""
    return " and ".join(
        f"{QUANTITY_WORDS[kind]} {describe_limit(kind, limit)}" for kind, limit in limits_of(wanted)
    )


def chosen_sentence(choice: Candidate, wanted: Wanted, savings: Sequence[Saving]) -> str:
    """The recommendation itself: one sentence, and what it saves."""
    limits = limit_list(wanted)
    within = f" with {limits}" if limits else ""
    return (
        f"{shown(choice.network)} in {choice.precision} takes the "
        f"{OBJECTIVE_WORDS[wanted.minimise]}{within} in mode {place(choice)}: {figures(choice)} "
        f"({choice.source}){_saved(savings)}"
    )


def likeliest_sentence(choice: Candidate, wanted: Wanted, savings: Sequence[Saving]) -> str:
    """That limits may be kept, but by no mode as likely as asked."""
    return (
        f"No mode keeps every limit with {wanted.probability:.0%}: {shown(choice.network)} in "
        f"{choice.precision} with {limit_list(wanted)} is likeliest in mode {place(choice)}: "
        f"{figures(choice)} ({choice.source}){_saved(savings)}"
    )


def _saved(savings: Sequence[Saving]) -> str:
    saved = [saving_words(saving) for saving in savings if saving.other is not None]
    return f". {'; '.join(saved)}." if saved else "."


def saving_words(saving: Saving) -> str:
    """``Against MAXN (the highest mode): energy -31 %, power -54 %, time +49 %``."""
    if saving.other is None:
        return f"against {saving.baseline}: {saving.unknown['other']}"
    ratios = (
        ("energy", saving.energy_ratio),
        ("power", saving.power_ratio),
        ("time", saving.latency_ratio),
    )
    parts = [f"{name} {change(ratio)}" for name, ratio in ratios if ratio is not None]
    same = all(ratio in (None, 1.0) for _, ratio in ratios)
    words = "the same" if same else ", ".join(parts)
    return f"Against {shown(saving.mode)} ({saving.baseline}): {words}"


def nearest_sentence(nearest: Candidate, wanted: Wanted, relaxations: Sequence[Relaxation]) -> str:
    """That no mode keeps the limits, and what would."""
    ways = "; or ".join(
        f"{QUANTITY_WORDS[way.quantity]} {describe_limit(way.quantity, way.limit)} "
        f"instead of {amount(way.quantity, way.asked)} (mode {place(way.candidate)})"
        for way in relaxations
    )
    relax = f" It would take {ways}." if ways else " Loosening one limit alone is not enough."
    return (
        f"No mode runs {shown(nearest.network)} with {limit_list(wanted)}. The nearest is "
        f"{place(nearest)}: {figures(nearest)} ({nearest.source}).{relax}"
    )


def why_chosen(choice: Candidate, wanted: Wanted, n_all: int, n_likely: int) -> tuple[str, ...]:
    """What speaks for the choice: of ``n_all``, ``n_likely`` are as likely as asked."""
    best = f"it has the {OBJECTIVE_WORDS[wanted.minimise]}"
    if not limits_of(wanted):
        lines = [f"of {n_all} candidates {best}"]
    elif n_likely:
        lines = [
            f"{n_likely} of {n_all} candidates keep every limit with at least "
            f"{wanted.probability:.0%}; of these {best}"
        ]
    else:
        lines = [
            f"none of {n_all} candidates keeps every limit with {wanted.probability:.0%}; of those "
            "that keep them as predicted, its least likely limit is likeliest"
        ]
    if choice.bound in _BOUND_WORDS:
        lines.append(_BOUND_WORDS[choice.bound])
    if choice.is_extrapolated:
        lines.append("its clocks lie outside those that were measured: measure it before relying")
    return tuple(lines)


def equal_words(n_equals: int) -> str:
    """That others cannot be told from the choice."""
    others = "1 other" if n_equals == 1 else f"{n_equals} others"
    return f"{others} cannot be told apart from it by the 95 % intervals"


def check_words(check: LimitCheck) -> str:
    """A limit, what is predicted, and how likely it holds."""
    asked = f"{QUANTITY_WORDS[check.quantity]} {describe_limit(check.quantity, check.limit)}"
    if check.value is None:
        return f"{asked}: {check.unknown['value']}"
    held = (
        f"how likely is unknown, {check.unknown['probability']}"
        if check.probability is None
        else f"holds with {likely(check.probability)}"
    )
    return f"{asked}: {amount(check.quantity, check.value)}, {held}"


def lost_words(
    other: Candidate, choice: Candidate, checks: Sequence[LimitCheck], wanted: Wanted
) -> str:
    """Why ``other`` lost: the limit that it breaks, or what it costs more."""
    for check in checks:
        if check.excess:
            limit = describe_limit(check.quantity, check.limit)
            words = amount(check.quantity, check.value or 0.0)
            return f"breaks the limit of {QUANTITY_WORDS[check.quantity]}: {words}, {limit} asked"
    for check in checks:
        if check.probability is not None and check.probability < wanted.probability:
            limit = describe_limit(check.quantity, check.limit)
            return (
                f"{QUANTITY_WORDS[check.quantity]} {limit} holds with {likely(check.probability)} "
                f"only, {wanted.probability:.0%} asked"
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
