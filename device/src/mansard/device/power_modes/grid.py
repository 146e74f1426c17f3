"""Grids of modes as TOML files: a line for each setting, and what to leave out.

::

    gpu = ["408MHz", "612MHz", "1020MHz"]
    emc = "all"
    cpu = { from = "700MHz", to = "2000MHz", points = 5 }
    cores = [2, 4, 8]

    [[exclude]]          # modes to which every line of it applies
    gpu = { from = "1GHz" }
    cores = 2
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mansard.core.errors import InputError, UsageError
from mansard.core.storage.files import read_whole
from mansard.device.power_modes.custom_modes import setting_key
from mansard.device.power_modes.settable import (
    GRAIN,
    Settable,
    ValueTable,
    WrittenValue,
    format_amount,
    read_amount,
)

_MOST_STEPS = 10_000
_RANGE_KEYS = ("from", "to", "step", "points")
_RANGE = 'write { from = …, to = …, step = … }, { from = …, to = …, points = 5 }, or "all"'


class ValueRange(msgspec.Struct, frozen=True):
    """The values from ``low`` to ``high``, or some of them."""

    low: float
    high: float
    values: tuple[float, ...] | None  # None: every one that is available

    def holds(self, value: float) -> bool:
        """Whether ``value`` is one of them."""
        if self.values is not None:
            return value in self.values
        return self.low <= value <= self.high


def read_band(key: str, given: Any, table: ValueTable) -> ValueRange:
    """What the file says of one setting; raises UsageError."""
    if given == "all":
        return ValueRange(table.steps[0], table.steps[-1], None)
    if isinstance(given, Mapping):
        return _range(key, given, table)
    listed = given if isinstance(given, list) else [given]
    if not listed:
        raise UsageError(f"{key} is an empty list", fix="name one value, or leave the line out")
    amounts = [read_amount(key, value, table.unit) for value in listed]
    values = tuple(dict.fromkeys(table.require(key, amount) for amount in amounts))
    return ValueRange(min(values), max(values), values)


def band_values(key: str, band: ValueRange, table: ValueTable) -> tuple[float, ...]:
    """The values that a grid takes of ``band``, ascending; raises UsageError for none."""
    if band.values is not None:
        return tuple(sorted(band.values))
    if table.is_continuous:
        raise UsageError(
            f"{key} takes any value here, so all of them are too many",
            fix="give the range a step, or a number of points",
        )
    return tuple(value for value in table.steps if band.holds(value))


def snap(value: float, band: ValueRange, table: ValueTable) -> float:
    """The available value in ``band`` that is nearest to ``value``; raises UsageError."""
    if table.is_continuous:
        grain = GRAIN[table.unit]
        low, high = max(table.steps[0], band.low), min(table.steps[-1], band.high)
        return min(max(round(value / grain) * grain, low), high)
    inside = [step for step in table.steps if band.holds(step)]
    if not inside:
        raise UsageError("nothing that is available is in this range", fix=table.offer(value))
    return min(inside, key=lambda step: (abs(step - value), step))


def _range(key: str, given: Mapping[str, Any], table: ValueTable) -> ValueRange:
    strange = [name for name in given if name not in _RANGE_KEYS]
    if strange or not given or {"step", "points"} <= given.keys():
        raise UsageError(f"{key} is not a range", fix=_RANGE)
    low = _end(key, given.get("from"), table, table.steps[0])
    high = _end(key, given.get("to"), table, table.steps[-1])
    if low.value > high.value:
        raise UsageError(
            f"{key} goes from {low.text} down to {high.text}", fix="swap the two values"
        )
    if low.value > table.steps[-1] or high.value < table.steps[0]:
        raise UsageError("nothing that is available is in this range", fix=table.offer(low.value))
    # What is written in whole MHz means the table's nearest entry, at both ends.
    ends = ValueRange(table.find(low) or low.value, table.find(high) or high.value, None)
    wanted = _wanted(key, given, ends, table)
    if not table.is_continuous or wanted:
        snap(ends.low, ends, table)  # an empty range is a mistake even where nothing is snapped
    if not wanted:
        return ends
    values = tuple(dict.fromkeys(snap(value, ends, table) for value in wanted))
    return ValueRange(ends.low, ends.high, values)


def _end(key: str, given: Any, table: ValueTable, default: float) -> WrittenValue:
    if given is None:
        return WrittenValue(default, 0.0, format_amount(default, table.unit))
    return read_amount(key, given, table.unit)


def _wanted(key: str, given: Mapping[str, Any], ends: ValueRange, table: ValueTable) -> list[float]:
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


# Thirty seconds a mode are ten weeks; a slip in a file is likelier than such a sweep.
MOST_MODES = 200_000


class Grid(msgspec.Struct, frozen=True):
    """Values of each setting, ascending; a mode to which a whole exclusion applies is left out."""

    axes: Mapping[str, tuple[float, ...]]
    exclusions: tuple[Mapping[str, ValueRange], ...] = ()


def grid_points(grid: Grid, choices: Settable) -> tuple[tuple[float, ...], ...]:
    """One value for each axis of ``grid`` in each of its modes, no mode twice; raises UsageError.

    A CPU clock that no core of the mode reaches counts as the highest it does reach.
    """
    n_all = math.prod(len(values) for values in grid.axes.values())
    if n_all > MOST_MODES:
        raise UsageError(
            f"the grid has {n_all:,} modes, more than {MOST_MODES:,}",
            fix="make a step longer, or leave a setting out",
        )
    keys = tuple(grid.axes)
    points = itertools.product(*grid.axes.values())
    if grid.exclusions:
        points = (p for p in points if not _is_excluded(p, keys, grid.exclusions))  # type: ignore[assignment]
    if "cpu" in keys:
        reach = _Reach(keys, choices)
        points = map(reach.reached, points)  # type: ignore[assignment]
    distinct = tuple(dict.fromkeys(points))
    if not distinct:
        raise UsageError("the grid has no mode left", fix="exclude less, or name more values")
    return distinct


def _is_excluded(
    point: tuple[float, ...],
    keys: tuple[str, ...],
    exclusions: tuple[Mapping[str, ValueRange], ...],
) -> bool:
    values = dict(zip(keys, point, strict=True))
    return any(
        all(band.holds(values[key]) for key, band in exclusion.items()) for exclusion in exclusions
    )


class _Reach:
    """The highest CPU clock that the cores of a point have, up to the one wanted."""

    def __init__(self, keys: tuple[str, ...], choices: Settable) -> None:
        self._cpu = keys.index("cpu")
        self._cores = keys.index("cores") if "cores" in keys else None
        self._choices = choices
        self._known: dict[tuple[float, float | None], float] = {}

    def reached(self, point: tuple[float, ...]) -> tuple[float, ...]:
        wanted = point[self._cpu]
        cores = None if self._cores is None else point[self._cores]
        hz = self._known.get((wanted, cores))
        if hz is None:
            n_cpus = None if cores is None else int(cores)
            hz = self._choices.reachable_hz(wanted, n_cpus)
            self._known[wanted, cores] = hz
        return (*point[: self._cpu], hz, *point[self._cpu + 1 :])


Found = TypeVar("Found")

_MOST_BYTES = 1 << 20
_EXCLUDE = "exclude"
_LOCATION = re.compile(r" \(at (?:line ([0-9]+), column [0-9]+|end of document)\)")


def read_grid(path: Path, choices: Settable) -> Grid:
    """The grid that a file describes; raises InputError with its line, or StorageError."""
    return parse_grid(read_grid_text(path), path, choices)


def read_grid_text(path: Path) -> str:
    """What the file holds; raises InputError or StorageError."""
    try:
        text = read_whole(path).decode()
    except ValueError as error:  # not UTF-8, or a path that no file system takes
        raise InputError(f"is not a text file: {error}", where=str(path)) from error
    if len(text) > _MOST_BYTES:
        raise InputError("is too long for a grid of modes", where=str(path))
    return text


def parse_grid(text: str, path: Path, choices: Settable) -> Grid:
    """The grid in a text; ``path`` is what errors call it. Raises InputError with its line."""
    content = _parse_toml(text, path)
    excluded = content.pop(_EXCLUDE, [])
    if isinstance(excluded, dict):
        excluded = [excluded]
    if not isinstance(excluded, list) or not all(isinstance(entry, dict) for entry in excluded):
        raise InputError(
            "'exclude' is not a table", where=str(path), fix="begin it with [[exclude]]"
        )
    bands = _read_table(content, choices, text, path, section=0)
    if not bands:
        raise InputError(
            "is an empty grid", where=str(path), fix=f"set one of {', '.join(choices.keys)}"
        )
    axes = {
        key: _located(path, text, name, 0, partial(band_values, key, band, choices.table(key)))
        for key, (name, band) in bands.items()
    }
    exclusions = tuple(
        _exclusion(entry, axes.keys(), choices, text, path, section)
        for section, entry in enumerate(excluded, start=1)
    )
    return Grid({key: axes[key] for key in choices.keys if key in axes}, exclusions)


def _parse_toml(text: str, path: Path) -> dict[str, Any]:
    for name in ("tomllib", "tomli"):  # the first is in Python from 3.11 on
        try:
            toml = import_module(name)
        except ImportError:
            continue
        try:
            content: dict[str, Any] = toml.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"is not TOML: {_LOCATION.sub('', str(error))}",
                where=f"{path}:{_line_of(str(error), text)}",
                fix="correct this line",
            ) from error
        return content
    raise UsageError(
        "grid files need Python 3.11 or the package tomli",
        fix="pip install tomli, or write the modes with ';' between them",
    )


def _line_of(message: str, text: str) -> str:
    """The line that the TOML reader complains of: it names it, or means the last one."""
    location = _LOCATION.search(message)
    return location[1] if location and location[1] else str(max(1, len(text.splitlines())))


def _exclusion(
    entry: dict[str, Any],
    axes: Collection[str],
    choices: Settable,
    text: str,
    path: Path,
    section: int,
) -> Mapping[str, ValueRange]:
    bands = _read_table(entry, choices, text, path, section)
    if not bands:
        raise InputError("has an empty [[exclude]], which would leave out all", where=str(path))
    for key, (name, _) in bands.items():
        if key not in axes:
            raise InputError(
                f"excludes by {key}, which the grid does not set",
                where=_place(path, text, name, section),
                fix=f"set {key} above, or take this line out",
            )
    return {key: band for key, (_, band) in bands.items()}


def _read_table(
    table: dict[str, Any], choices: Settable, text: str, path: Path, section: int
) -> dict[str, tuple[str, ValueRange]]:
    """The band of each setting, with the name by which the file calls it."""
    bands: dict[str, tuple[str, ValueRange]] = {}
    for name, given in table.items():

        def read(name: str = name, given: Any = given) -> tuple[str, ValueRange]:
            key = setting_key(name, choices.keys)
            if key in bands:
                raise UsageError(f"{key} is set twice", fix="keep one of them")
            return key, read_band(key, given, choices.table(key))

        key, band = _located(path, text, name, section, read)
        bands[key] = (name, band)
    return bands


def _located(path: Path, text: str, name: str, section: int, read: Callable[[], Found]) -> Found:
    """What ``read`` returns; its UsageError becomes an InputError at the line of ``name``."""
    try:
        return read()
    except UsageError as error:
        raise InputError(
            error.what, where=_place(path, text, name, section), fix=error.fix
        ) from error


def _place(path: Path, text: str, name: str, section: int) -> str:
    """``path:line`` of the setting ``name`` in the n-th section of exclusions; 0 is the top."""
    setting = re.compile(rf"""\s*["']?{re.escape(name)}["']?\s*[.=]""")
    seen = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(r"\s*\[+\s*exclude\s*\]+", line):
            seen += 1
        if seen == section and setting.match(line):
            return f"{path}:{number}"
    return str(path)
