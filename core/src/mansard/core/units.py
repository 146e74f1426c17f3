"""Sizes and frequencies as people write them: ``4MiB``, ``612MHz``, ``1190400kHz``, ``1.3GHz``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import MappingProxyType

import msgspec

from mansard.core.errors import UsageError

_UNITS = MappingProxyType(
    {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "KiB": 1 << 10, "MB": 10**6, "MiB": 1 << 20}
    | {"GB": 10**9, "GiB": 1 << 30}
)
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([A-Za-z]*)")


def parse_bytes(text: str) -> int:
    """``512KiB`` as 524288; raises UsageError."""
    found = _SIZE.fullmatch(text)
    unit = _UNITS.get(found[2]) if found else None
    if found is None or unit is None:
        raise UsageError(f"{text!r} is no size in bytes", fix="write 4MiB or 512KiB")
    return round(float(found[1]) * unit)


_UNITS_HZ = {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}
_FREQUENCY = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))? ?([kmg]?hz)", re.IGNORECASE | re.ASCII)
_SLACK_HZ = 1e6


class Frequency(msgspec.Struct, frozen=True):
    """A frequency as it was written, and how far from it the one meant can be.

    Tools print whole MHz, rounded or cut: 1190 MHz stands for a table's 1190.4 MHz, and
    76 for 76.8. So one unit of the last digit written is left open, but never 1 MHz or more.
    """

    hz: float
    slack_hz: float

    @property
    def text(self) -> str:
        """As it was written, near enough for a message."""
        return f"{self.hz / 1e6:.10g}MHz"

    def fits(self, hz: float) -> bool:
        """Whether ``hz`` may be the one that was meant."""
        return hz == self.hz or abs(hz - self.hz) < self.slack_hz


def parse_frequency(text: str) -> Frequency:
    """A number with its unit: Hz, kHz, MHz or GHz in any case; raises UsageError."""
    match = _FREQUENCY.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a frequency", fix="write a number and its unit, such as 612MHz"
        )
    whole, fraction, unit = match[1], match[2] or "", _UNITS_HZ[match[3].lower()]
    hz = round(int(whole + fraction) * unit / 10 ** len(fraction), 3)
    if hz == 0:
        raise UsageError(f"{text!r} is not a clock", fix="write a frequency above zero")
    return Frequency(hz, min(_SLACK_HZ, unit / 10 ** len(fraction)))


def format_frequency(hz: float) -> str:
    """``hz`` in MHz, cut to a whole number where it has 1 MHz or more: ``1190MHz``.

    Cut and not rounded, as tegrastats and nvpmodel print them.
    """
    return f"{int(hz // 1e6)}MHz" if hz >= 1e6 else f"{int(hz)}Hz"


def find_frequency(wanted: Frequency, available_hz: Sequence[float]) -> float | None:
    """The available frequency that was meant by ``wanted``; None where there is none."""
    fitting = [hz for hz in available_hz if wanted.fits(hz)]
    return min(fitting, key=lambda hz: abs(hz - wanted.hz), default=None)


def highest_up_to(ceiling: float, steps: Sequence[float], *, is_continuous: bool) -> float:
    """The highest of ``steps``, which ascend, up to a ceiling; the lowest if all are above it.

    ``is_continuous``: the steps are the ends of a range, and all between them is there too.
    """
    if is_continuous:
        return min(max(ceiling, steps[0]), steps[-1])
    return max((step for step in steps if step <= ceiling), default=steps[0])


def nearest_first(
    wanted: float,
    available: Sequence[float],
    limit: int = 12,
    show: Callable[[float], str] = format_frequency,
) -> str:
    """What is available in words, frequencies by default; what is nearest to ``wanted`` first."""
    ordered = sorted(available, key=lambda other: (abs(other - wanted), other))
    names = list(dict.fromkeys(show(other) for other in ordered))
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
