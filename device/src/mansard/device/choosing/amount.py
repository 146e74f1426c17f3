"""Values of settings as they are written, with their unit: clocks, watts, numbers of cores."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from mansard.core.errors import UsageError
from mansard.core.frequency import format_frequency, parse_frequency

Unit = Literal["Hz", "W", "cores"]

# Where everything between two ends can be set, grids take multiples of this, so that names,
# which are cut to whole MHz, tell modes apart.
GRAIN: MappingProxyType[Unit, float] = MappingProxyType({"Hz": 1e6, "W": 1.0, "cores": 1.0})
_MOST_CORES = 9999
_WATTS = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) ?W", re.IGNORECASE | re.ASCII)
_COUNT = re.compile(r"[0-9]{1,4}", re.ASCII)


class Amount(msgspec.Struct, frozen=True):
    """What somebody wrote, and how far from it the value that is meant can be."""

    value: float
    slack: float = 0.0
    text: str = ""

    def fits(self, value: float) -> bool:
        """Whether ``value`` may be the one that was meant."""
        return value == self.value or abs(value - self.value) < self.slack


def read_amount(key: str, given: Any, unit: Unit) -> Amount:
    """A value from a command line or a grid file; raises UsageError that shows how to write it."""
    if unit == "cores":
        return _read_cores(given)
    example = "612MHz" if unit == "Hz" else "250W"
    if not isinstance(given, str):
        raise UsageError(
            f"{key} has {given!r}, which has no unit", fix=f'write "{example}", in quotes'
        )
    if unit == "Hz":
        frequency = parse_frequency(given)
        return Amount(frequency.hz, frequency.slack_hz, frequency.text)
    match = _WATTS.fullmatch(given.strip())
    if match is None:
        raise UsageError(f"{given!r} is not a power", fix="write it in watts, such as 250W")
    return Amount(float(match[1]), 0.0, f"{float(match[1]):g}W")


def _read_cores(given: Any) -> Amount:
    if isinstance(given, str) and _COUNT.fullmatch(given.strip()):
        given = int(given)
    if type(given) is not int or not 1 <= given <= _MOST_CORES:
        raise UsageError(f"{given!r} is not a number of cores", fix="write a whole number from 1")
    return Amount(float(given), 0.0, str(given))


def format_amount(value: float, unit: Unit) -> str:
    """A value with its unit, as a mode's name has it."""
    if unit == "Hz":
        return format_frequency(value)
    return f"{value:.10g}W" if unit == "W" else f"{value:.0f}"
