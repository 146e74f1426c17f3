"""Which values of one setting a grid takes: lists, ranges and "all", as its file says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mansard.core.errors import UsageError
from mansard.device.choosing.amount import GRAIN, Amount, format_amount, read_amount
from mansard.device.choosing.choices import Table

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


def read_band(key: str, given: Any, table: Table) -> Band:
    """What the file says of one setting; raises UsageError."""
    if given == "all":
        return Band(table.steps[0], table.steps[-1], None)
    if isinstance(given, Mapping):
        return _range(key, given, table)
    listed = given if isinstance(given, list) else [given]
    if not listed:
        raise UsageError(f"{key} is an empty list", fix="name one value, or leave the line out")
    amounts = [read_amount(key, value, table.unit) for value in listed]
    values = tuple(dict.fromkeys(table.require(key, amount) for amount in amounts))
    return Band(min(values), max(values), values)


def band_values(key: str, band: Band, table: Table) -> tuple[float, ...]:
    """The values that a grid takes of ``band``, ascending; raises UsageError for none."""
    if band.values is not None:
        return tuple(sorted(band.values))
    if table.is_continuous:
        raise UsageError(
            f"{key} takes any value here, so all of them are too many",
            fix="give the range a step, or a number of points",
        )
    return tuple(value for value in table.steps if band.holds(value))


def snap(value: float, band: Band, table: Table) -> float:
    """The available value in ``band`` that is nearest to ``value``; raises UsageError."""
    if table.is_continuous:
        grain = GRAIN[table.unit]
        low, high = max(table.steps[0], band.low), min(table.steps[-1], band.high)
        return min(max(round(value / grain) * grain, low), high)
    inside = [step for step in table.steps if band.holds(step)]
    if not inside:
        raise UsageError("nothing that is available is in this range", fix=table.offer(value))
    return min(inside, key=lambda step: (abs(step - value), step))


def _range(key: str, given: Mapping[str, Any], table: Table) -> Band:
    strange = [name for name in given if name not in _RANGE_KEYS]
    if strange or not given or {"step", "points"} <= given.keys():
        raise UsageError(f"{key} is not a range", fix=_RANGE)
    low = _end(key, given.get("from"), table, table.steps[0])
    high = _end(key, given.get("to"), table, table.steps[-1])
    if low.value > high.value:
        raise UsageError(f"{key} goes from {low.text} down to {high.text}", fix="turn it round")
    if low.value > table.steps[-1] or high.value < table.steps[0]:
        raise UsageError("nothing that is available is in this range", fix=table.offer(low.value))
    # What is written in whole MHz means the table's nearest entry, at both ends.
    ends = Band(table.find(low) or low.value, table.find(high) or high.value, None)
    wanted = _wanted(key, given, ends, table)
    if not table.is_continuous or wanted:
        snap(ends.low, ends, table)  # an empty range is a mistake even where nothing is snapped
    if not wanted:
        return ends
    values = tuple(dict.fromkeys(snap(value, ends, table) for value in wanted))
    return Band(ends.low, ends.high, values)


def _end(key: str, given: Any, table: Table, default: float) -> Amount:
    if given is None:
        return Amount(default, 0.0, format_amount(default, table.unit))
    return read_amount(key, given, table.unit)


def _wanted(key: str, given: Mapping[str, Any], ends: Band, table: Table) -> list[float]:
    """The values that a range asks for, evenly apart, before they are snapped."""
    if "points" in given:
        n = given["points"]
        if type(n) is not int or not 1 <= n <= _MOST_STEPS:
            raise UsageError(f"{key} has no number of points from 1 to {_MOST_STEPS}", fix=_RANGE)
        gap = (ends.high - ends.low) / max(1, n - 1)
        return [ends.low + index * gap for index in range(n)]
    if "step" in given:
        step = read_amount(key, given["step"], table.unit).value
        n_steps = int((ends.high - ends.low) / step + 1e-9) if step else _MOST_STEPS + 1
        if n_steps > _MOST_STEPS:
            raise UsageError(f"{key} has more than {_MOST_STEPS} steps", fix="make the step longer")
        return [ends.low + index * step for index in range(n_steps + 1)]
    return []
