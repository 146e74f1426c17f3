"""Which values of one setting a grid takes: lists, ranges and "all", as its file says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mansard.core.errors import UsageError
from mansard.core.frequency import Frequency, parse_frequency
from mansard.core.power_mode import CLOCKS
from mansard.device.choices import Choices, Table

_MOST_STEPS = 10_000
_RANGE_KEYS = ("from", "to", "step", "points")
_RANGE = 'write { from = …, to = …, step = … }, { from = …, to = …, points = 5 }, or "all"'


class Band(msgspec.Struct, frozen=True):
    """The values from ``low`` to ``high``, or some of them."""

    low: float
    high: float
    values: tuple[float, ...] | None  # None: every one that is available

    def holds(self, value: float) -> bool:
        """Whether ``value`` is one of them."""
        if self.values is not None:
            return value in self.values
        return self.low <= value <= self.high


def read_band(key: str, given: Any, choices: Choices) -> Band:
    """What the file says of one setting; raises UsageError."""
    table = choices.settable(key) if key in CLOCKS else _core_table(choices)
    low, high = table.available_hz[0], table.available_hz[-1]
    if given == "all":
        return Band(low, high, None)
    if isinstance(given, Mapping):
        return _range(key, given, table)
    listed = given if isinstance(given, list) else [given]
    if not listed:
        raise UsageError(f"{key} is an empty list", fix="name one value, or leave the line out")
    values = tuple(dict.fromkeys(_exact(key, value, choices) for value in listed))
    return Band(min(values), max(values), values)


def band_values(key: str, band: Band, choices: Choices) -> tuple[float, ...]:
    """The values that a grid takes of ``band``, ascending; raises UsageError for none."""
    table = choices.settable(key) if key in CLOCKS else _core_table(choices)
    if band.values is not None:
        return tuple(sorted(band.values))
    if table.is_continuous:
        raise UsageError(
            f"{key} takes any frequency here, so all of them are too many",
            fix="give the range a step, or a number of points",
        )
    return tuple(value for value in table.available_hz if band.holds(value))


def snap(hz: float, band: Band, table: Table) -> float:
    """The available frequency in ``band`` that is nearest to ``hz``; raises UsageError."""
    if table.is_continuous:
        whole_hz = round(hz / 1e6) * 1e6  # so that the name, in MHz, tells modes apart
        return min(
            max(whole_hz, table.available_hz[0], band.low), table.available_hz[-1], band.high
        )
    inside = [value for value in table.available_hz if band.holds(value)]
    if not inside:
        raise UsageError("no available frequency is in this range", fix=table.offer(hz))
    return min(inside, key=lambda value: (abs(value - hz), value))


def _range(key: str, given: Mapping[str, Any], table: Table) -> Band:
    strange = [name for name in given if name not in _RANGE_KEYS]
    if strange or not given or {"step", "points"} <= given.keys():
        raise UsageError(f"{key} is not a range", fix=_RANGE)
    low = _bound(key, given["from"]) if "from" in given else _at(table.available_hz[0])
    high = _bound(key, given["to"]) if "to" in given else _at(table.available_hz[-1])
    if low.hz > high.hz:
        raise UsageError(f"{key} goes from {low.text} down to {high.text}", fix="turn it round")
    # What is written in whole MHz means the table's nearest entry, at both ends.
    ends = Band(table.find(low) or low.hz, table.find(high) or high.hz, None)
    wanted = _wanted(key, given, ends)
    if not table.is_continuous or wanted:
        snap(ends.low, ends, table)  # an empty range is a mistake even where nothing is snapped
    if not wanted:
        return ends
    values = tuple(dict.fromkeys(snap(hz, ends, table) for hz in wanted))
    return Band(ends.low, ends.high, values)


def _wanted(key: str, given: Mapping[str, Any], ends: Band) -> list[float]:
    """The values that a range asks for, evenly apart, before they are snapped."""
    if "points" in given:
        n = given["points"]
        if type(n) is not int or not 1 <= n <= _MOST_STEPS:
            raise UsageError(f"{key} has no number of points from 1 to {_MOST_STEPS}", fix=_RANGE)
        gap = (ends.high - ends.low) / max(1, n - 1)
        return [ends.low + index * gap for index in range(n)]
    if "step" in given:
        step = _bound(key, given["step"]).hz
        n_steps = int((ends.high - ends.low) / step + 1e-9)
        if n_steps > _MOST_STEPS:
            raise UsageError(f"{key} has more than {_MOST_STEPS} steps", fix="make the step longer")
        return [ends.low + index * step for index in range(n_steps + 1)]
    return []


def _bound(key: str, given: Any) -> Frequency:
    if key in CLOCKS:
        return _frequency(key, given)
    if type(given) is not int or not 1 <= given <= _MOST_STEPS:
        raise UsageError(f"{given!r} is not a number of cores", fix="write a whole number from 1")
    return _at(float(given))


def _exact(key: str, given: Any, choices: Choices) -> float:
    if key in CLOCKS:
        return choices.find(key, _frequency(key, given))
    cores = _bound(key, given).hz
    choices.check_cores(int(cores))
    return cores


def _frequency(key: str, given: Any) -> Frequency:
    if not isinstance(given, str):
        raise UsageError(f"{key} has {given!r}, which has no unit", fix='write "612MHz", in quotes')
    return parse_frequency(given)


def _core_table(choices: Choices) -> Table:
    return Table(tuple(float(count) for count in range(1, len(choices.cpus) + 1)))


def _at(value: float) -> Frequency:
    return Frequency(value, 0.0)
