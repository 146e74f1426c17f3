"""What one token of a line means: tables that parse a token once and remember it.

Tokens repeat a lot from line to line, so a look-up replaces the parsing. A table forgets
all when it is full: memory stays constant however long the log is. A token that does not
have the table's form raises TokenError, and nothing else; ImplausibleError where it has the
form, but a number that cannot be true.

A lost slash, point or comma gives a number beyond these limits, which hold for all boards together,
with room. They find damaged lines; a board that runs too hot may lie within them.

    power        AGX Thor draws up to 130 W (NVIDIA, Jetson T5000 data sheet); idle rails go
                 slightly below zero, by up to 0.4 W in recorded lines
    temperature  Jetsons shut down at 105 °C and start from -40 °C (their thermal design guides);
                 PMIC shows a constant 50 or 100
    load         a share of time
    clock        the memory of AGX Thor runs at 4.27 GHz, the fastest of all
    memory       what is in use lies within what there is

tegrastats prints no voltage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, TypeVar

import msgspec

from mansard.device.tegrastats.sample import (
    NOT_PRINTED,
    OFFLINE,
    Cpu,
    EngineLoad,
    FreeBlocks,
    MemoryAmount,
    Temperature,
    Usage,
)


class ImplausibleError(ValueError):
    """A number that cannot be true; the text says why."""


class PlausibleRange(msgspec.Struct, frozen=True):
    """The lowest and highest plausible value of a quantity, in ``unit``."""

    quantity: str
    least: float
    most: float
    unit: str

    def check(self, *values: float) -> None:
        """Raises ImplausibleError for a value outside the limits."""
        for value in values:
            if not self.least <= value <= self.most:
                limits = f"{self.least:g} to {self.most:g}"
                raise ImplausibleError(
                    f"{value:.6g} {self.unit} cannot be a {self.quantity}: {limits}"
                )


POWER = PlausibleRange("power of a rail", -20.0, 200.0, "W")
TEMPERATURE = PlausibleRange("temperature of a board", -60.0, 150.0, "°C")
LOAD = PlausibleRange("load", 0.0, 100.0, "%")
CLOCK = PlausibleRange("clock", 0.0, 6000.0, "MHz")
MEMORY = PlausibleRange("memory of a board", 0.0, 2.0**41, "B")


Value = TypeVar("Value")

_MOST_REMEMBERED = 32768  # tokens of one table
_LONGEST_REMEMBERED = 100  # characters
MHZ = 1_000_000
_OFFLINE_CELSIUS = -256.0  # printed for a sensor whose domain is off (CV and GPU of AGX Orin)
_BYTES = {"B": 1, "kB": 1 << 10, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}

# So many digits at most: more is junk, and a float would no longer hold it exactly.
_PERCENT = r"\d{1,4}(?:\.\d{1,6})?"
_CLOCK = r"\d{1,6}"
_CELSIUS = r"-?\d{1,4}(?:\.\d{1,6})?"
_UNIT = r"[kKMG]?B"
_NAME = r"[A-Za-z][A-Za-z0-9_.+-]{0,63}"

_USAGE = re.compile(rf"(\d{{1,9}})/(\d{{1,9}})({_UNIT})", re.ASCII)
_FREE = re.compile(rf"(?:(\d{{1,9}})x)?(\d{{1,9}})({_UNIT})\)", re.ASCII)
_AMOUNT = re.compile(rf"(\d{{1,9}})({_UNIT})\)", re.ASCII)
_CPU = re.compile(rf"({_PERCENT})%(?:@({_CLOCK}))?", re.ASCII)
_CPU_ELIDED = ("...", "…")
_ENGINE = re.compile(
    rf"(?:({_PERCENT})%)?(?:(@?)({_CLOCK})|(@\[)({_CLOCK}(?:,{_CLOCK}){{0,63}})\])?", re.ASCII
)
_TEMPERATURE = re.compile(rf"({_NAME})@({_CELSIUS})C(?:/({_CELSIUS})C)?", re.ASCII)
_PLAIN_PERCENT = re.compile(rf"({_PERCENT})%", re.ASCII)


class TokenError(ValueError):
    """A token that does not have the expected form; not raised outside this package."""


class TokenTable(dict[str, Value]):
    """Token → what it means; parsed when it is first seen."""

    __slots__ = ("_parse",)

    def __init__(self, parse: Callable[[str], Value]) -> None:
        super().__init__()
        self._parse = parse

    def __missing__(self, token: str) -> Value:
        value = self._parse(token)
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        if len(token) <= _LONGEST_REMEMBERED:
            self[token] = value
        return value


def matched(pattern: re.Pattern[str], token: str) -> tuple[Any, ...]:
    """The groups of ``pattern``, which must match all of ``token``; raises TokenError."""
    match = pattern.fullmatch(token)
    if match is None:
        raise TokenError(token)
    return match.groups()


def parse_usage(token: str) -> Usage:
    """``1903/15692MB``."""
    used, total, unit = matched(_USAGE, token)
    usage = Usage(int(used) * _BYTES[unit], int(total) * _BYTES[unit], unit)
    MEMORY.check(usage.total_bytes)
    if usage.used_bytes > usage.total_bytes:
        raise ImplausibleError("more is in use than there is")
    return usage


def parse_free(token: str) -> FreeBlocks:
    """``3251x4MB)`` behind ``(lfb``; IRAM has ``252kB)``."""
    count, size, unit = matched(_FREE, token)
    return FreeBlocks(int(count) if count else None, int(size) * _BYTES[unit], unit)


def parse_amount(token: str) -> MemoryAmount:
    """``295MB)`` behind ``(cached``."""
    size, unit = matched(_AMOUNT, token)
    return MemoryAmount(int(size) * _BYTES[unit], unit)


def parse_cpu(token: str) -> Cpu:
    """``35%@729``, ``0%``, ``off``, or ``...`` of a shortened copy."""
    if token in _CPU_ELIDED:
        return Cpu("elided", None, None)
    if token == "off":  # noqa: S105 (a token of a line, no secret)
        return Cpu("off", None, None)
    percent, clock = matched(_CPU, token)
    LOAD.check(float(percent))
    CLOCK.check(int(clock or 0))
    return Cpu("on", float(percent), int(clock) * MHZ if clock else None)


def parse_engine(name: str, token: str) -> EngineLoad:
    """``off``, ``0%``, ``3%@1600``, ``@1600``, ``716``, ``12%@[1300,1300]``, ``@[314,314]``."""
    if token == "off":  # noqa: S105 (a token of a line, no secret)
        return EngineLoad(name, False, None, (), "")
    percent, sign, clock, bracket, clocks = matched(_ENGINE, token)
    if not token or (percent and clock and not sign):
        raise TokenError(token)
    clocks_mhz = clocks.split(",") if clocks else [clock] if clock else []
    load_percent = float(percent) if percent else None
    LOAD.check(load_percent or 0.0)
    CLOCK.check(*map(int, clocks_mhz))
    return EngineLoad(
        name, True, load_percent, tuple(int(c) * MHZ for c in clocks_mhz), bracket or sign or ""
    )


def parse_temperature(token: str) -> Temperature:
    """``cpu@51.968C``, or ``cpu@51.968C/52.5C`` with the maximum."""
    name, celsius, maximum = matched(_TEMPERATURE, token)
    unknown: dict[str, str] = {}
    now_celsius: float | None = float(celsius)
    if now_celsius == _OFFLINE_CELSIUS:
        now_celsius, unknown["celsius"] = None, OFFLINE
    maximum_celsius = float(maximum) if maximum else None
    if maximum_celsius is None:
        unknown["maximum_celsius"] = NOT_PRINTED
    elif maximum_celsius == _OFFLINE_CELSIUS:
        maximum_celsius, unknown["maximum_celsius"] = None, OFFLINE
    TEMPERATURE.check(now_celsius or 0.0, maximum_celsius or 0.0)
    return Temperature(name, now_celsius, maximum_celsius, unknown)


def parse_percent(token: str) -> float:
    """``9%``."""
    percent = float(matched(_PLAIN_PERCENT, token)[0])
    LOAD.check(percent)
    return percent


USAGES: TokenTable[Any] = TokenTable(parse_usage)
FREES: TokenTable[Any] = TokenTable(parse_free)
AMOUNTS: TokenTable[Any] = TokenTable(parse_amount)
CPUS: TokenTable[Cpu] = TokenTable(parse_cpu)
TEMPERATURES: TokenTable[Any] = TokenTable(parse_temperature)
PERCENTS: TokenTable[Any] = TokenTable(parse_percent)


def engine_table(name: str) -> TokenTable[Any]:
    """The table of one engine's values: what it remembers has the name in it."""
    return TokenTable(lambda token: parse_engine(name, token))


def fits(table: TokenTable[Any], token: str) -> bool:
    """Whether ``token`` has the table's form; raises ImplausibleError."""
    try:
        table[token]
    except TokenError:
        return False
    return True


# So many digits at most: W and back to mW is exact up to fifteen.
_NUMBER = r"-?\d{1,9}(?:\.\d{1,3})?"
_UNITS = {"": 1000.0, "mW": 1000.0, "W": 1.0}  # how many of it are a watt; without a unit: mW
_RAIL = re.compile(rf"{_NUMBER}(mW|W|)(?:/{_NUMBER}\1){{0,2}}", re.ASCII)
# A single number without a unit is a rail's power only behind such a name, else a clock.
_RAIL_NAME = re.compile(r"(?:VDD|VIN|POM|SYS)[A-Za-z0-9]*_?[A-Za-z0-9_]*", re.ASCII)

_Read = Callable[[str], float]
_Optional = Iterable[float | None]
Columns = tuple[Iterable[float], _Optional, _Optional]  # power now, average, maximum; W


def rail_form(name: str, token: str) -> tuple[int, str] | None:
    """How many numbers ``token`` has and their unit; None if it is no rail's power.

    Raises ImplausibleError.
    """
    match = _RAIL.fullmatch(token)
    if match is None:
        return None
    n_numbers, unit = token.count("/") + 1, match[1]
    if n_numbers == 1 and not unit and not _RAIL_NAME.fullmatch(name):
        return None
    POWER.check(*(float(part.rstrip("mW")) / _UNITS[unit] for part in token.split("/")))
    return n_numbers, unit


def _number_table(unit: str, lead: str) -> _Read:
    form = re.compile(f"{lead}({_NUMBER}){unit}", re.ASCII)
    per_watt = _UNITS[unit]

    def parse(token: str) -> float:
        match = form.fullmatch(token)
        if match is None:
            raise TokenError(token)
        power_w = float(match[1]) / per_watt
        POWER.check(power_w)
        return power_w

    return TokenTable(parse).__getitem__


# Values are joined as " a/b/ c/d", cut at every slash and read at once: the first number of each
# line is known by its space, so that a line with more or fewer numbers cannot shift the others.
_FIRST = {unit: _number_table(unit, " ") for unit in _UNITS}
_REST = {unit: _number_table(unit, "") for unit in _UNITS}


def read_rail(values: Sequence[str], n_numbers: int, unit: str) -> Columns:
    """One rail of many lines, all with ``n_numbers`` numbers in ``unit``; raises TokenError."""
    parts = (" " + "/ ".join(values)).split("/")
    if len(parts) != n_numbers * len(values):
        raise TokenError(values[-1])
    powers_w = map(_FIRST[unit], parts[::n_numbers])
    if n_numbers == 1:
        return powers_w, repeat(None), repeat(None)
    averages_w = map(_REST[unit], parts[1::n_numbers])
    if n_numbers == 2:
        return powers_w, averages_w, repeat(None)
    return powers_w, averages_w, map(_REST[unit], parts[2::n_numbers])
