"""Numbers as people read them: SI prefixes, three or four digits, intervals by their kind.

An interval of kind "spread" is printed as ± where it is nearly symmetric, else as its two ends; one
of "bounds" as "between … and …"; of a "roof" only what it bounds, "at best …". What is printed is
rounded outwards: it is never narrower than the interval.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Literal

from mansard.core.units import Interval

UNKNOWN = "unknown"
GIGA, MEGA, MILLI, NANO = 1e9, 1e6, 1e-3, 1e-9
NBSP = "\u00a0"  # a number and its unit stay on one line
_NO_ENDS = 1e4  # high over low, above which the ends themselves are numbers that tell nothing
MEASURE_MORE = "measure more"
MIXED = "mixed"
_LEAST_SHARE = 0.6  # of a network's time, for which one thing limits it
_EXACT = 1e-9  # of the value: an interval of rounding errors is none
_Prefixes = tuple[tuple[int, str], ...]  # powers of ten, the largest first
_PLAIN: _Prefixes = ((0, ""),)
_LARGE: _Prefixes = ((12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""))
_SMALL: _Prefixes = ((0, ""), (-3, "m"), (-6, "µ"), (-9, "n"))
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
    """``value`` in SI units with its interval; "unknown" where it is None."""
    return _spread_text(value, unit, low, high, _LARGE, n_digits)


def fixed(
    value: float | None, unit: str, low: float | None = None, high: float | None = None
) -> str:
    """``value`` in ``unit`` as it stands, with its interval."""
    return _spread_text(value, unit, low, high, _PLAIN, 4)


def seconds(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    kind: str | None = "spread",
    *,
    advise: bool = True,
) -> str:
    """A time, ms and µs where they read better, with its interval.

    ``kind``: what ``low`` and ``high`` mean, a key of ``data.model_frames.INTERVALS``; None: there
    is no interval. A spread that ``is_wide`` says to measure more, unless not to ``advise``.
    Without a value the ``high`` of a spread is the most that it may be: what is known of something
    that other work disturbed.
    """
    return _by_kind(value, (low, high), kind, "s", _SMALL, advise)


def joules(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    kind: str | None = "spread",
    *,
    advise: bool = True,
) -> str:
    """An energy, mJ and µJ where they read better, with its interval; as ``seconds``."""
    return _by_kind(value, (low, high), kind, "J", _SMALL, advise)


def watts(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    kind: str | None = "spread",
    *,
    advise: bool = True,
) -> str:
    """A power with its interval; as ``seconds``.

    That of a roof bounds nothing: a network that takes longer may draw less, or more where it
    moves more bytes.
    """
    if value is not None and kind == "roof":
        return f"{_spread_text(value, 'W', None, None, _PLAIN, 3)} at the roof"
    return _by_kind(value, (low, high), kind, "W", _PLAIN, advise)


def rate(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    kind: str | None = "spread",
    *,
    advise: bool = True,
) -> str:
    """How many in a second, without a unit; as ``seconds``, but of a roof it is "at most"."""
    if value is not None and kind == "roof":
        return f"at most {_bound(Interval(value, low, high), _PLAIN, '', up=True)}"
    return _by_kind(value, (low, high), kind, "", _PLAIN, advise)


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
    """``value`` in multiples of ``unit`` without its name, which the head of the column has.

    Without its interval where that is narrow; a wide one, or bounds, are a range. ``kind``: as for
    ``seconds``. ``roof``: the sign before a value at the roof: "≥" for times and energies, "≤" for
    rates; "=" writes none, for a power, which the roof does not bound.
    """
    if value is None:
        return UNKNOWN
    interval = Interval(value, low, high, kind).over(unit)
    if kind == "roof" and roof != "=":
        return f"{roof} {_bound(interval, _PLAIN, '', up=roof == '≤')}"
    if kind == "roof":
        return digits(interval.value, 3)
    if not interval.is_bounded or not (kind == "bounds" or interval.is_wide):
        return digits(interval.value, n_digits)
    ends = rate(interval.value, interval.low, interval.high, "bounds")
    return ends.removeprefix("between ").replace(" and ", " to ").replace("at least", "≥")


def plain_number(value: float | None, low: float | None, high: float | None) -> str:
    """Without a unit: ``21.30 ± 0.70``, or ``20.1 (17 to 29)`` where the two sides differ."""
    text = rate(value, low, high, advise=False)
    return text if value is None or " to " not in text else f"{digits(value, 3)} ({text})"


def is_wide(low: float | None, high: float | None, kind: str | None) -> bool:
    """Whether an interval is so wide that the value has to be measured."""
    return Interval(math.nan, low, high, kind).is_wide


def capacity(n_bytes: float) -> str:
    """A memory capacity in binary units, as caches are sold: 64 KiB, 32 MiB."""
    for factor, unit in _BINARY:
        if n_bytes >= factor:
            return f"{n_bytes / factor:.4g}{NBSP}{unit}"
    return f"{n_bytes:.0f}{NBSP}B"


def counted(n: int, noun: str) -> str:
    """``1 mode``, ``2 modes``, ``1,200 trials``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def percent(share: float | None) -> str:
    """A share of one as a whole percentage."""
    return UNKNOWN if share is None else f"{100 * share:.0f}{NBSP}%"


def limit_word(bound: str, share: float | None) -> str:
    """What limits a network: ``memory``, or ``mixed`` where that is so for less than 60 % of its
    time; None: it limits the network as a whole."""
    return bound if share is None or share >= _LEAST_SHARE else MIXED


def percent_bound(share: float, *, up: bool = False) -> str:
    """A share of one that is a bound: two digits, rounded down, or up where it is the most."""
    value = round(100 * share, 9)  # 0.1 + 0.2 is no more than 30 %
    return _rounded(value, min(0, _step(value, 0.0, 2)), _PLAIN, "%", up=up)


def relative(share: float | None) -> str:
    """A relative half width in percent, two digits."""
    return UNKNOWN if share is None else f"{digits(100 * share, 2)}{NBSP}%"


def _by_kind(
    value: float | None,
    ends: tuple[float | None, float | None],
    kind: str | None,
    unit: str,
    prefixes: _Prefixes,
    advise: bool,
) -> str:
    low, high = ends
    if value is None:
        most = _spread_text(high, unit, None, None, prefixes, 3)
        return f"at most {most}, disturbed" if kind == "spread" and high is not None else UNKNOWN
    interval = Interval(value, low, high, kind)
    low, high = interval.ends
    if kind == "roof":
        return f"at best {_bound(interval, prefixes, unit)}"
    if not interval.is_bounded:
        return _spread_text(value, unit, None, None, prefixes, 3)
    if kind == "bounds" and math.isinf(high):
        return f"at least {_rounded(low, _magnitude(low) - 1, prefixes, unit)}"
    if kind == "bounds":
        return f"between {_two_ends(low, high, prefixes, unit, 'and')}"
    is_open = high > _NO_ENDS * low
    text = UNKNOWN if is_open else _spread_text(value, unit, low, high, prefixes, 3)
    return f"{text}, {MEASURE_MORE}" if advise and interval.is_wide else text


def _bound(interval: Interval, prefixes: _Prefixes, unit: str, *, up: bool = False) -> str:
    """The value of a roof, rounded down, or up where it is the most.

    Its interval is that of the ceilings alone and sets only the number of digits: modes at their
    roofs are compared by value.
    """
    low, high = interval.ends
    value = interval.value
    return _rounded(value, _step(value, high - low, 3), prefixes, unit, up=up)


def _spread_text(
    value: float | None,
    unit: str,
    low: float | None,
    high: float | None,
    prefixes: _Prefixes,
    n_digits: int,
) -> str:
    if value is None:
        return UNKNOWN
    power, prefix = _prefix(value, prefixes)
    factor = 10.0**power
    interval = Interval(value, low, high)
    low, high = interval.ends
    if not interval.is_bounded or high - low <= _EXACT * abs(value):
        return f"{digits(value / factor, n_digits)}{_unit(prefix, unit)}"
    if not interval.is_symmetric:
        return _two_ends(max(low, 0.0), high, prefixes, unit, "to")
    shown, half = _to_same_place(value / factor, max(high - value, value - low) / factor)
    return f"{shown}{NBSP}±{NBSP}{half}{_unit(prefix, unit)}"


def _two_ends(low: float, high: float, prefixes: _Prefixes, unit: str, word: str) -> str:
    """``9.1 to 79 ms``, ``910 µs to 1.4 ms``: two digits of each end, more where it is narrow.

    Without a unit both have one prefix, ``0.33 to 1 k``: a bare 330 would be read as 330 k.
    """
    last = _rounded(high, _step(high, high - low, 4), prefixes, unit, up=True)
    last_number, last_space, last_unit = last.partition(NBSP)
    if not unit:
        prefixes = tuple(prefix for prefix in prefixes if prefix[1] == last_unit)
    first = _rounded(low, _step(low, high - low, 4), prefixes, unit)
    number, space, first_unit = first.partition(NBSP)
    shown_unit = "" if first_unit == last_unit else f"{space}{first_unit}"
    return f"{_trimmed(number)}{shown_unit} {word} {_trimmed(last_number)}{last_space}{last_unit}"


def _trimmed(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def _step(value: float, width: float, n_most: int) -> int:
    """The power of ten to round to: two digits of the width, and of the value 2 to ``n_most``."""
    if value <= 0:
        return 0
    digit = _magnitude(value)
    finest = digit - n_most + 1
    return min(digit - 1, max(finest, _magnitude(width) - 1)) if width > 0 else finest


def _magnitude(value: float) -> int:
    return Decimal(value).adjusted()


def _rounded(value: float, step: int, prefixes: _Prefixes, unit: str, *, up: bool = False) -> str:
    """``value`` rounded to a multiple of 10^``step``, down or up, in the prefix that suits it."""
    if value <= 0:
        return f"0{_unit('', unit)}"
    # What a float is meant to be: 0.3 is no more than 3/10, and 0.0031 s / 0.001 is 3.1 ms.
    exact = Decimal(f"{value:.14g}").scaleb(-step)
    whole = exact.quantize(Decimal(1), ROUND_CEILING if up else ROUND_FLOOR).scaleb(step)
    power, prefix = _prefix(float(whole), prefixes)
    return f"{whole.scaleb(-power):,f}{_unit(prefix, unit)}"


def _unit(prefix: str, unit: str) -> str:
    return f"{NBSP}{prefix}{unit}" if prefix or unit else ""


def _prefix(value: float, prefixes: _Prefixes) -> tuple[int, str]:
    fitting = (prefix for prefix in prefixes if abs(value) >= 10.0 ** prefix[0])
    smallest = prefixes[-1]
    return next(fitting, smallest)


def _to_same_place(value: float, half: float) -> tuple[str, str]:
    """The half width with two digits (rounded up), the value to the same place."""
    largest = max(abs(value), half)
    finest = 3 - math.floor(math.log10(largest)) if largest > 0 else 0
    wanted = 1 - math.floor(math.log10(half)) if half > 0 else finest
    places = max(0, min(finest, wanted))
    step = 10.0**-places
    rounded = max(1, math.ceil(half / step - 1e-9)) * step
    return f"{value:,.{places}f}", f"{rounded:,.{places}f}"
