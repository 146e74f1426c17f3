"""Raw samples of a board's rails, as a table: a row for each sample, or a column for each rail.

Rails contain one another: VDD_IN feeds VDD_CPU_GPU_CV and VDD_SOC, so their sum counts power twice.
``core.hardware.metering`` says which rails make a board's total; only those are added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from mansard.analytics.data.published.cells import TextRow
from mansard.analytics.data.published.columns import unit_of, words_of
from mansard.analytics.data.published.readers.csv_rows import CsvRow, header_of, number, read_csv
from mansard.analytics.data.published.readers.power_trace import PowerTrace
from mansard.analytics.data.published.readers.reader import (
    MOST_TOOL_BYTES,
    Reader,
    Reading,
    ToolFile,
    cells,
    known,
)
from mansard.core.errors import InputError
from mansard.core.hardware import MODULES, Metering, metering_of

_LABELS = MappingProxyType(
    {label.casefold(): label for module in MODULES.values() for label in module.rails}
)
_RAIL_COLUMNS = ("rail_name", "rail", "channel_name", "label")
_TIMES = re.compile(r"time(?:stamp)?|t", re.IGNORECASE)


def rail_in(column: str) -> str | None:
    """The rail that a column is the power of, "VDD_IN_mW" and "VDD_IN (W)"; None: of none."""
    name, _, unit = re.sub(r"[\s()\[\]]+", "_", column.strip()).strip("_").rpartition("_")
    found = unit_of(unit)
    is_power = found is not None and found.dimension == "power"
    return _LABELS.get(name.casefold().removeprefix("power_")) if is_power else None


def _factor(column: str, dimension: str) -> float | None:
    units = [unit for word in words_of(column) if (unit := unit_of(word)) is not None]
    return units[-1].factor if units and units[-1].dimension == dimension else None


def _time_column(header: Sequence[str]) -> str | None:
    return next(
        (
            name
            for name in header
            if _factor(name, "time") and any(_TIMES.fullmatch(word) for word in words_of(name))
        ),
        None,
    )


def _power_column(header: Sequence[str]) -> str | None:
    names = [name for name in header if _factor(name, "power")]
    return names[0] if len(names) == 1 else None


def _rail_column(header: Sequence[str]) -> str | None:
    return next((name for name in header if name.casefold() in _RAIL_COLUMNS), None)


def _recognise(head: str) -> bool:
    header = header_of(head)
    is_long = _rail_column(header) is not None and _power_column(header) is not None
    is_wide = sum(rail_in(name) is not None for name in header) > 1
    return _time_column(header) is not None and (is_long or is_wide)


def _read(source: ToolFile) -> Reading:
    header = header_of(source.head)
    time_name = _time_column(header) or ""
    rail_name, power_name = _rail_column(header), _power_column(header)
    per_s = _factor(time_name, "time") or 1.0
    points: dict[str, list[tuple[float, float]]] = {}
    for row in read_csv(source, "the logger"):
        time_s = number(row, time_name, source)
        if time_s is None:
            raise InputError(f"line {row.line} has no time", where=source.where, fix="remove it")
        for label, watts in _powers(row, header, rail_name, power_name, source):
            points.setdefault(label, []).append((time_s * per_s, watts))
    metering = _metering(points, source)
    trace = PowerTrace({label: _ordered(points[label], source) for label in metering.total_rails})
    start_s, end_s = trace.span_s
    energy_j = trace.energy_j(start_s, end_s)
    if energy_j is None:  # a pause: windows beside it may still be covered
        return Reading(trace=trace, trace_rule=metering.rule)
    row_of_all = TextRow(
        1,
        cells(
            power_w=energy_j / (end_s - start_s),
            method=f"trapezoid over {metering.rule}, of the whole log",
        ),
        known(duration_s=end_s - start_s, energy_j=energy_j),
    )
    return Reading([row_of_all], trace=trace, trace_rule=metering.rule)


def _powers(
    row: CsvRow, header: Sequence[str], rail: str | None, power: str | None, source: ToolFile
) -> Iterator[tuple[str, float]]:
    """The rails in one row with their watts."""
    if rail is not None and power is not None:
        named = [(row.cells[rail], power)]
    else:
        named = [(label, name) for name in header if (label := rail_in(name)) is not None]
    for label, name in named:
        watts = number(row, name, source)
        if watts is not None:
            factor = _factor(name, "power") or 1.0
            yield _LABELS.get(label.casefold(), label), watts * factor


def _metering(points: Mapping[str, object], source: ToolFile) -> Metering:
    metering = metering_of(points)
    if metering is None:
        raise InputError(
            f"its rails {', '.join(sorted(points)) or 'are none'} do not make the total of a board "
            "that is known: some may contain others, and some may be missing",
            where=source.where,
            fix="log every rail of the board, by its own labels",
        )
    return metering


def _ordered(
    points: Sequence[tuple[float, float]], source: ToolFile
) -> tuple[tuple[float, float], ...]:
    if any(later[0] < earlier[0] for earlier, later in pairwise(points)):
        raise InputError(
            "its times go back", where=source.where, fix="give one log, in the order of its times"
        )
    return tuple(points)


RAIL_SAMPLES = Reader("a log of rails", _recognise, _read, MOST_TOOL_BYTES)
