"""Quantities of a decision in the units that people read them in."""

from __future__ import annotations

from mansard.analytics.data.quantities import NBSP, digits, seconds
from mansard.analytics.decide.records import Quantity


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
