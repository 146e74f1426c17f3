"""Numbers as people read them: SI prefixes, three or four digits, ± for intervals."""

from __future__ import annotations

import math

UNKNOWN = "unknown"
NBSP = "\u00a0"  # a number and its unit stay on one line
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_BINARY = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def digits(value: float, n_digits: int = 4) -> str:
    """``value`` with ``n_digits`` significant digits and no exponent where it can be avoided."""
    if value == 0:
        return "0"
    # The exponent after rounding: 0.0999996 is 0.100, not 0.1000.
    magnitude = int(f"{value:.{n_digits - 1}e}".split("e")[1])
    if not -4 <= magnitude < 9:
        return f"{value:.{n_digits - 1}e}"
    places = max(0, n_digits - 1 - magnitude)
    return f"{round(value, n_digits - 1 - magnitude):,.{places}f}"


def quantity(
    value: float | None,
    unit: str,
    low: float | None = None,
    high: float | None = None,
    n_digits: int = 4,
) -> str:
    """``value`` in SI units, with its interval as ± where there is one.

    The ± is the larger of the two half widths, so the printed interval never is
    narrower than the estimated one. A value that is None reads "unknown".
    """
    if value is None:
        return UNKNOWN
    factor, prefix = _prefix(value)
    spread = _spread(value, low, high)
    if spread is None:
        return f"{digits(value / factor, n_digits)}{NBSP}{prefix}{unit}"
    shown, half = _to_same_place(value / factor, spread / factor)
    return f"{shown}{NBSP}±{NBSP}{half}{NBSP}{prefix}{unit}"


def fixed(
    value: float | None, unit: str, low: float | None = None, high: float | None = None
) -> str:
    """``value`` in ``unit`` as it stands, with its interval as ± where there is one."""
    if value is None:
        return UNKNOWN
    spread = _spread(value, low, high)
    if spread is None:
        return f"{digits(value)}{NBSP}{unit}"
    shown, half = _to_same_place(value, spread)
    return f"{shown}{NBSP}±{NBSP}{half}{NBSP}{unit}"


def seconds(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A time with its interval; milliseconds and microseconds where they read better."""
    return _small(value, "s", low, high)


def joules(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """An energy with its interval; millijoules and microjoules where they read better."""
    return _small(value, "J", low, high)


def _small(value: float | None, unit: str, low: float | None, high: float | None) -> str:
    if value is None:
        return UNKNOWN
    factor, prefix = next(
        ((factor, prefix) for factor, prefix in _SMALL if abs(value) >= factor), _SMALL[-1]
    )
    spread = _spread(value, low, high)
    if spread is None:
        return f"{digits(value / factor, 3)}{NBSP}{prefix}{unit}"
    shown, half = _to_same_place(value / factor, spread / factor)
    return f"{shown}{NBSP}±{NBSP}{half}{NBSP}{prefix}{unit}"


def capacity(n_bytes: float) -> str:
    """A memory capacity in binary units, as caches are sold: 64 KiB, 32 MiB."""
    for factor, unit in _BINARY:
        if n_bytes >= factor:
            return f"{n_bytes / factor:.4g}{NBSP}{unit}"
    return f"{n_bytes:.0f}{NBSP}B"


def percent(share: float | None) -> str:
    """A share of one as a whole percentage."""
    return UNKNOWN if share is None else f"{100 * share:.0f}{NBSP}%"


def relative(share: float | None) -> str:
    """A relative half width in percent, two digits."""
    return UNKNOWN if share is None else f"{digits(100 * share, 2)}{NBSP}%"


def _prefix(value: float) -> tuple[float, str]:
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return factor, prefix
    return 1.0, ""


def _spread(value: float, low: float | None, high: float | None) -> float | None:
    if low is None or high is None:
        return None
    return max(high - value, value - low)


def _to_same_place(value: float, half: float) -> tuple[str, str]:
    """The half width with two digits (rounded up), the value to the same place."""
    largest = max(abs(value), half)
    finest = 3 - math.floor(math.log10(largest)) if largest > 0 else 0
    wanted = 1 - math.floor(math.log10(half)) if half > 0 else finest
    places = max(0, min(finest, wanted))
    step = 10.0**-places
    rounded = math.ceil(half / step - 1e-9) * step
    return f"{value:,.{places}f}", f"{rounded:,.{places}f}"
