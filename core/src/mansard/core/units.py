"""Quantities as people write them: ``20ms``, ``30W``, ``4MiB``, ``1190400kHz``, ``90%``.

Every option and every file of ours is read by ``parse_quantity``: a number, blanks, a unit.
Prefixes are those of SI, of bytes those of IEC 80000-13 as well: kB is 1000, KiB 1024 bytes.

An ``Interval`` is a value with its bounds: docs/decisions/0010-three-kinds-of-intervals.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from mansard.core.errors import UsageError
from mansard.core.text import first_of

WIDEST = 7.0  # high over low; a wider interval only says that a measurement is needed
_HIDDEN = (
    1.0102  # the share by which ± may misstate an end; true of log-normal intervals up to × 1.1
)


# Recorded latency over the bound of the roofs, (least, median, most): docs/understand/trust.md.
ROOF_RATIOS = MappingProxyType(
    {"TensorRT": (1.13, 4.9, 82.5), "eager PyTorch": (2.51, 29.0, 971.0)}
)
ROOF_ENGINE = "TensorRT"  # whose ratios are applied to a bound
# The factor between the ratio of times in two modes and that of their roofs: the median of
# recorded networks (docs/results/held_back.md, Boards).
ROOF_TIE = 1.44
ROOF_FACTORS = "real times are " + " and ".join(
    f"{low:.1f} to {high:.3g} times as long ({engine}, median {middle:g})"
    for engine, (low, middle, high) in ROOF_RATIOS.items()
)
ABOVE_ROOF = (
    "ran faster than its roof: other work slowed the measurement of the peaks, or the engine needs "
    "fewer FLOP; measure them again on an idle machine: mansard bench --again"
)


class Interval(msgspec.Struct, frozen=True):
    """A value between ``low`` and ``high``, which are None where they are not known.

    ``kind``: "spread", 95 % by errors on data left out or by repetitions; "bounds", what any
    network can do; "roof", of ceilings and costs alone; None: there is no interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    kind: str | None = "spread"

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends, the value where one is not known; they contain it however it was rounded."""
        return (
            self.value if self.low is None else min(self.low, self.value),
            self.value if self.high is None else max(self.high, self.value),
        )

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are known, and what they mean."""
        return self.kind is not None and self.low is not None and self.high is not None

    @property
    def is_wide(self) -> bool:
        """Whether a spread says no more than that it is to be measured."""
        if self.kind != "spread" or self.low is None or self.high is None:
            return False
        return self.high > WIDEST * self.low

    @property
    def is_symmetric(self) -> bool:
        """Whether a ± of the longer side says what the interval is."""
        low, high = self.ends
        half = max(self.value - low, high - self.value)
        is_said = low <= _HIDDEN * (self.value - half) and self.value + half <= _HIDDEN * high
        return is_said and half < self.value / 2

    def over(self, number: float) -> Interval:
        """The value and its ends divided by a number: from a batch to an item."""
        low, high = (None if end is None else end / number for end in (self.low, self.high))
        return Interval(self.value / number, low, high, self.kind)

    def inverse(self, number: float = 1.0) -> Interval:
        """The number over the value: a time becomes a rate, the longest time the lowest rate."""
        low, high = (number / end if end else None for end in (self.high, self.low))
        return Interval(number / self.value if self.value else math.inf, low, high, self.kind)


QuantityKind = Literal[
    "time", "power", "energy", "rate", "bandwidth", "peak", "frequency", "size", "share", "length"
]
_PREFIXES = {"u": -6, "µ": -6, "μ": -6, "m": -3, "": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}


class _Units(NamedTuple):
    """How a kind of quantity is written. ``known``: what a refusal lists."""

    example: str
    known: str
    factors: Mapping[str, Fraction]
    written: tuple[str, ...] = ()  # by ``format_quantity``, the largest first


def _prefixed(unit: str, prefixes: str) -> dict[str, Fraction]:
    """The unit alone and with each prefix."""
    return {f"{letter}{unit}": Fraction(10) ** _PREFIXES[letter] for letter in ("", *prefixes)}


_UNITS: Mapping[QuantityKind, _Units] = MappingProxyType(
    {
        "time": _Units(
            "20ms",
            "s, ms, us",
            _prefixed("s", "muµμ") | {"min": Fraction(60), "h": Fraction(3600)},
            ("s", "ms", "us"),
        ),
        "power": _Units("30W", "W, mW, kW", _prefixed("W", "mk"), ("W", "mW")),
        "energy": _Units(
            "500mJ",
            "J, mJ, uJ, kJ, Wh",
            _prefixed("J", "muµμk")
            | {name: 3600 * factor for name, factor in _prefixed("Wh", "mk").items()},
            ("J", "mJ", "uJ"),
        ),
        "rate": _Units(
            "30/s",
            "/s, fps, Hz, /min",
            {**dict.fromkeys(("/s", "fps", "Hz"), Fraction(1)), "/min": Fraction(1, 60)},
            ("/s",),
        ),
        "bandwidth": _Units(
            "50GB/s", "GB/s, MB/s, kB/s, B/s", _prefixed("B/s", "kMGT"), ("GB/s", "MB/s", "B/s")
        ),
        "peak": _Units(
            "5TFLOP/s",
            "FLOP/s, GFLOP/s, TFLOP/s, TOP/s",
            _prefixed("FLOP/s", "kMGT") | _prefixed("OP/s", "kMGT"),
            ("TFLOP/s", "GFLOP/s", "FLOP/s"),
        ),
        "frequency": _Units(
            "612MHz",
            "Hz, kHz, MHz, GHz",
            {name.lower(): factor for name, factor in _prefixed("Hz", "kMG").items()},
        ),
        "size": _Units(
            "4MiB",
            "B, kB, MB, GB, KiB, MiB, GiB",
            _prefixed("B", "kKMGT") | {f"{p}B": Fraction(2) ** n for p, n in _BINARY.items()},
        ),
        "length": _Units(
            "3.5in",
            "in, cm, mm, pt",
            {
                "pt": Fraction(1),
                "in": Fraction(72),
                "cm": Fraction(7200, 254),
                "mm": Fraction(720, 254),
            },
        ),
        "share": _Units("0.9 or 90%", "%", {"%": Fraction(1, 100)}),
    }
)
_QUANTITY = re.compile(
    r"(?P<number>(?P<whole>[0-9]{1,15})(?:\.(?P<fraction>[0-9]{1,30}))?|\.[0-9]{1,30})"
    r"\s*(?P<unit>[a-zA-Zµμ/%]*)"
)


def parse_quantity(
    option: str,
    text: str,
    kind: QuantityKind,
    *,
    bare: str | None = None,
    may_be_zero: bool = False,
) -> float:
    """The value in s, W, J, 1/s, B/s, FLOP/s, Hz, B or pt, the nearest float to what the text says.

    ``bare``: the unit of a number without one; None: it is refused. Raises UsageError, which begins
    with ``option``, for another unit and for nothing above 0 unless it ``may_be_zero``.
    """
    units = _UNITS[kind]
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{option} {text!r} is not a valid {kind}", fix=f"write {option} {units.example}"
        )
    unit = match["unit"] or bare
    factor = Fraction(1) if unit == "" else units.factors.get(unit or "")
    if factor is None:
        fault = f"has the unit {unit!r}" if unit else "has no unit"
        fix = f"write {units.example}; units are {units.known}"
        raise UsageError(f"{option} {text!r} {fault}", fix=fix)
    value = float(Fraction(match["number"]) * factor)
    if value <= 0 and not may_be_zero:
        raise UsageError(f"{option} {text!r} bounds nothing", fix="write a quantity above 0")
    return value


def parse_optional(
    option: str, text: str | None, kind: QuantityKind, *, bare: str | None = None
) -> float | None:
    """As ``parse_quantity``; None where the option was not given."""
    return None if text is None else parse_quantity(option, text, kind, bare=bare)


def parse_within(
    option: str, text: str, kind: QuantityKind, *, bare: str, ends: tuple[str, str]
) -> float:
    """As ``parse_quantity``, from the first of ``ends`` to the second."""
    fix = f"write {option} {ends[0]} or more, up to {ends[1]}"
    least, most = (parse_quantity(option, end, kind) for end in ends)
    try:
        value = parse_quantity(option, text, kind, bare=bare, may_be_zero=True)
    except UsageError as error:
        raise UsageError(error.what, fix=fix) from None
    if not least <= value <= most:
        raise UsageError(f"{option} {text!r} is not between {ends[0]} and {ends[1]}", fix=fix)
    return value


def parse_share(option: str, text: str) -> float:
    """``0.93`` or ``93%``; raises UsageError."""
    return parse_quantity(option, text, "share", bare="", may_be_zero=True)


_PLUS_MINUS = re.compile(r"\s*(?:±|\+-|\+/-)\s*")


def parse_interval(option: str, text: str, kind: QuantityKind) -> Interval:
    """``1.2ms``, or with its 95 % interval ``1.2ms±0.1ms`` or ``1.2ms±8%``; raises UsageError.

    ``±0``: it is exact.
    """
    value_text, *halves = _PLUS_MINUS.split(text.strip())
    value = parse_quantity(option, value_text, kind)
    if not halves:
        return Interval(value, kind=None)
    if len(halves) > 1:
        raise UsageError(f"{option} {text!r} has two intervals", fix=f"write {value_text}±8%")
    half_text = halves[0]
    if half_text.rstrip("%") == "0":
        half = 0.0
    elif half_text.endswith("%"):
        half = value * parse_share(option, half_text)
    else:
        half = parse_quantity(option, half_text, kind)
    if half > value:
        raise UsageError(f"{option} {text!r} may be below 0", fix="give a smaller half width")
    return Interval(value, value - half, value + half)


def format_quantity(value: float, kind: QuantityKind) -> str:
    """The value exactly, in the unit that suits it, as ``parse_quantity`` reads it."""
    units = _UNITS[kind]
    suits = (unit for unit in units.written if value >= units.factors[unit])
    unit = next(suits, units.written[-1])
    factor = units.factors[unit]
    number = Decimal(repr(float(value))) * factor.denominator / factor.numerator
    return f"{number.normalize():f}{unit}"


def parse_bytes(text: str) -> int:
    """``512KiB`` as 524288; raises UsageError."""
    try:
        return round(parse_quantity("", text, "size", bare="B", may_be_zero=True))
    except UsageError:
        raise UsageError(f"{text!r} is not a size in bytes", fix="write 4MiB or 512KiB") from None


_SLACK_HZ = 1e6


class Frequency(msgspec.Struct, frozen=True):
    """A frequency as written, and its rounding error.

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
    match = _QUANTITY.fullmatch(text.strip())
    unit = _UNITS["frequency"].factors.get(match["unit"].lower()) if match else None
    if match is None or match["whole"] is None or unit is None:
        raise UsageError(
            f"{text!r} is not a frequency", fix="write a number and its unit, such as 612MHz"
        )
    hz = round(float(Fraction(match["number"]) * unit), 3)
    if hz == 0:
        raise UsageError(f"{text!r} is not a clock", fix="write a frequency above zero")
    return Frequency(hz, min(_SLACK_HZ, float(unit / 10 ** len(match["fraction"] or ""))))


def format_frequency(hz: float) -> str:
    """``hz`` in MHz, truncated to a whole number from 1 MHz on: ``1190MHz``.

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
    return first_of(names, limit)
