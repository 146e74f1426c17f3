"""Cells of tables whose heads have the units: ``ms``, ``items/s``, ``mJ``, ``W``."""

from __future__ import annotations

from typing import Literal

from mansard.analytics.data.quantities import UNKNOWN, digits, is_wide, rate

MILLI = 1e-3


def measured_source(source: str) -> str:
    """Where the figures of a network, a program or a server come from.

    On a simulated board they run on this machine, whose speed does not follow the simulated clocks.
    """
    return "times of this host, simulated energy" if source == "simulated" else source


def in_unit(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    kind: str | None = None,
    *,
    unit: float = 1.0,
    roof: Literal["≥", "≤", "="] = "≥",
    n_digits: int = 4,
) -> str:
    """``value`` in multiples of ``unit``, without its interval where that is narrow.

    ``kind``: as for ``quantities.seconds``. A wide interval, or bounds, are a range. ``roof``: how
    the real value relates to that of a roof.
    """
    if value is None:
        return UNKNOWN
    if kind == "roof":
        end = value if low is None or high is None else low if roof == "≥" else high
        return f"{roof} {digits(end / unit, 3)}".removeprefix("= ")
    if low is None or high is None or not (kind == "bounds" or is_wide(low, high, kind)):
        return digits(value / unit, n_digits)
    ends = rate(value / unit, low / unit, high / unit, "bounds")
    return ends.removeprefix("between ").replace(" and ", " to ").replace("at least", "≥")
