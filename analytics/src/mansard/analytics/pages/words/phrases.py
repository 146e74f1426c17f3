"""Quantities, limits and modes in the words of a recommendation."""

from __future__ import annotations

import re

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP, digits, joules, rate, seconds, watts
from mansard.analytics.decisions.limits import limits_of, spread_of
from mansard.analytics.decisions.records import UNKNOWN_PRECISION, Candidate, Quantity, Wanted


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


def likely(probability: float) -> str:
    """A probability; never rounded to certainty."""
    if probability > 0.99:
        return f"more than 99{NBSP}%"
    if probability < 0.01:
        return f"less than 1{NBSP}%"
    return f"{100 * probability:.0f}{NBSP}%"


def asked_words(wanted: Wanted) -> str:
    """The probability that was asked for, as it was given: ``97.5 %``."""
    return f"{100 * wanted.probability:g}{NBSP}%"


QUANTITY_WORDS: dict[Quantity, str] = {
    "latency": "time",
    "power": "power",
    "energy": "energy of an item",
    "rate": "rate",
}


def mode_words(candidate: Candidate) -> str:
    """``30W``, or ``30W at batch 8``."""
    batch = "" if candidate.batch == 1 else f" at batch {candidate.batch}"
    return f"{display_name(candidate.mode)}{batch}"


def figures(candidate: Candidate) -> str:
    """Time, power and energy: ``4.76 ± 0.12 ms, 12.3 W, 58.5 mJ per item``; no power of a roof."""
    parts = [figure(candidate, "latency")]
    if candidate.batch > 1:
        parts[0] += f" for {candidate.batch} items"
    if candidate.power_w is not None and candidate.interval != "roof":
        parts.append(figure(candidate, "power"))
    if candidate.energy_j is not None:
        parts.append(f"{figure(candidate, 'energy')} per item")
    return ", ".join(parts)


def figure(candidate: Candidate, kind: Quantity) -> str:
    """``4.76 ± 0.12 ms``, ``between 9 and 78 ms``, ``at best 3.2 ms``: by its interval."""
    value, low, high = spread_of(candidate, kind)
    if kind == "rate" and value is not None:
        least, most = (None if end is None else 1 / end for end in (high, low))
        words = rate(1 / value, least, most, candidate.interval, advise=False)
        return f"{words}{NBSP}items/s"
    says = {"power": watts, "energy": joules}.get(kind, seconds)
    return says(value, low, high, candidate.interval, advise=False)


def limit_words(wanted: Wanted) -> str:
    """``limit 40 ms``, ``limits 40 ms and 12 W``; empty where there is none."""
    limits = [limit_text(kind, limit) for kind, limit in limits_of(wanted)]
    return f"limit{'s' if len(limits) > 1 else ''} {' and '.join(limits)}" if limits else ""


def limit_text(kind: Quantity, limit: float) -> str:
    """``40 ms``, ``at least 30 items/s``: as it was given, without zeros at the end."""
    text = re.sub(r"(\.\d*?)0+(?=\D)", r"\1", amount(kind, limit)).replace(f".{NBSP}", NBSP)
    return f"at least {text}" if kind == "rate" else text


def network_words(candidate: Candidate) -> str:
    """``resnet50 in fp16``; of a program, or a table that does not say, the name alone."""
    precision = candidate.precision
    return display_name(candidate.network) + (
        "" if precision == UNKNOWN_PRECISION else f" in {precision}"
    )
