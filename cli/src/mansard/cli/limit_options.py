"""Options that are a quantity with its unit: 20ms, 30W, 500mJ, 30/s."""

from __future__ import annotations

import re
from typing import Literal

from mansard.core.errors import UsageError

Kind = Literal["time", "power", "energy", "rate"]
_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-zA-Zµμ/]*)")
_UNITS: dict[Kind, dict[str, float]] = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6},
    "power": {"W": 1.0, "mW": 1e-3, "kW": 1e3},
    "energy": {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "µJ": 1e-6, "μJ": 1e-6, "kJ": 1e3},
    "rate": {"/s": 1.0, "fps": 1.0, "Hz": 1.0, "/min": 1 / 60},
}
_EXAMPLES: dict[Kind, str] = {"time": "20ms", "power": "30W", "energy": "500mJ", "rate": "30/s"}


def parse_quantity(option: str, text: str, kind: Kind) -> float:
    """The value in s, W, J or 1/s; raises UsageError for another unit, none, or nothing above 0."""
    match = _QUANTITY.fullmatch(text.strip())
    example = _EXAMPLES[kind]
    if match is None:
        raise UsageError(f"{option} {text!r} is no {kind}", fix=f"write {option} {example}")
    units = _UNITS[kind]
    factor = units.get(match[2])
    if factor is None:
        said = f"has the unit {match[2]!r}" if match[2] else "has no unit"
        known = ", ".join(unit for unit in units if unit.isascii())
        raise UsageError(f"{option} {text!r} {said}", fix=f"write {example}; units are {known}")
    value = float(match[1]) * factor
    if value <= 0:
        raise UsageError(f"{option} {text!r} bounds nothing", fix="write a quantity above 0")
    return value


def parse_optional(option: str, text: str | None, kind: Kind) -> float | None:
    """As ``parse_quantity``; None where the option was not given."""
    return None if text is None else parse_quantity(option, text, kind)


def parse_rate(option: str, text: str | None) -> float | None:
    """Items per second: ``30``, ``30/s`` or ``30fps``; None where the option was not given."""
    if text is None:
        return None
    # Frames per second is what the option is called: a bare number is one of them.
    bare = re.fullmatch(r"[0-9.]+", text.strip())
    return parse_quantity(option, f"{text.strip()}/s" if bare else text, "rate")
