"""Logs of power: samples of a board's rails, jetson_stats, and zeus.

A table of samples has a row for each sample, or a column for each rail. Rails contain one another:
VDD_IN feeds VDD_CPU_GPU_CV and VDD_SOC, so their sum counts power twice. ``core.hardware.module``
says which rails make a board's total; only those are added.

A log of jetson_stats' logger (jtop_logger.py, or any CSV of ``jtop.stats``) holds no network
and no time of one, so it becomes the mean power of what ``--fixed network``
says was running, one row for each power mode in it.

zeus' log (``ZeusMonitor(log_file=…)``) has time and energy of each window of a program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType

from mansard.analytics.data.published.cells import TextRow
from mansard.analytics.data.published.columns import unit_of, words_of
from mansard.analytics.data.published.readers.reader import (
    MOST_RUNS,
    MOST_TOOL_BYTES,
    CsvRow,
    PowerTrace,
    Reader,
    ToolFile,
    ToolReading,
    at_most,
    cells,
    header_of,
    known,
    number,
    read_csv,
)
from mansard.core.errors import InputError
from mansard.core.hardware import MODULES, Metering, metering_of

_LABELS = MappingProxyType(
    {label.casefold(): label for module in MODULES.values() for label in module.rails}
)
_PREFIX = re.compile(r"v(?:dd|in)_")
# As logs shorten them: gpu_soc, sys_5v0, vddq. One word alone, such as gpu, may mean another thing.
_SHORT_LABELS = MappingProxyType(
    {
        short: label
        for name, label in _LABELS.items()
        if "_" in (short := _PREFIX.sub("", name)) and short not in _LABELS
    }
    | {"vddq": "VDDQ_VDD2_1V8AO"}
)
_RAIL_COLUMNS = ("rail_name", "rail", "channel_name", "label")
_TIMES = re.compile(r"time(?:stamp)?|epoch|t", re.IGNORECASE)


def rail_in(column: str) -> str | None:
    """The rail whose power a column has ("VDD_IN_mW", "gpu_soc_mw"), or None."""
    name, _, unit = re.sub(r"[\s()\[\]]+", "_", column.strip()).strip("_").rpartition("_")
    known = unit_of(unit)
    is_power = known is not None and known.dimension == "power"
    short = name.casefold().removeprefix("power_")
    return _LABELS.get(short, _SHORT_LABELS.get(short)) if is_power else None


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


def _is_rails(head: str) -> bool:
    header = header_of(head)
    is_long = _rail_column(header) is not None and _power_column(header) is not None
    is_wide = sum(rail_in(name) is not None for name in header) > 1
    return _time_column(header) is not None and (is_long or is_wide)


def _read_rails(source: ToolFile) -> ToolReading:
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
        return ToolReading(trace=trace, trace_rule=metering.rule)
    row_of_all = TextRow(
        1,
        cells(
            power_w=energy_j / (end_s - start_s),
            method=f"trapezoid over {metering.rule}, of the whole log",
        ),
        known(duration_s=end_s - start_s, energy_j=energy_j),
    )
    return ToolReading([row_of_all], trace=trace, trace_rule=metering.rule)


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


RAIL_SAMPLES = Reader("a log of rails", _is_rails, _read_rails, MOST_TOOL_BYTES)


# Of all rails, in milliwatts: of version 4, and of 1 to 3.
_TOTALS = ("Power TOT", "power cur")
_AGREEING = 0.05  # as the power of one row and its energy over its time
_SILENT_S = 60.0  # between two rows of a log: what lies between was not logged


@dataclass
class _LoggedMode:
    line: int
    energy_j: float = 0.0
    time_s: float = 0.0
    peak_w: float = 0.0
    samples: int = 0


def _read_jetson_stats(source: ToolFile) -> ToolReading:
    total = next((name for name in _TOTALS if name in header_of(source.head)), None)
    if total is None:
        raise InputError(
            "has no power of the board: jtop found no meter there",
            where=source.where,
            fix="log it on a board with a power monitor",
        )
    rails = _rails(header_of(source.head))
    modes: dict[str, _LoggedMode] = {}
    totals_mw = [0.0, 0.0]  # jtop's, and that of the rails
    last: tuple[str, float, float] | None = None
    n_skipped = 0
    for row in read_csv(source, "jetson_stats"):
        milliwatts = number(row, total, source)
        parts = [value for name in rails if (value := number(row, name, source)) is not None]
        if rails and milliwatts is not None and len(parts) == len(rails):
            totals_mw = [totals_mw[0] + milliwatts, totals_mw[1] + sum(parts)]
            milliwatts = sum(parts)
        at_s = _seconds(row.cells["time"], row.line, source)
        if len(modes) > MOST_RUNS:
            raise InputError("holds too many power modes", where=source.where, fix="split it")
        if milliwatts is None or milliwatts <= 0:
            last, n_skipped = None, n_skipped + 1
            continue
        name, power_w = row.cells.get("nvp model", ""), milliwatts / 1e3
        mode = modes.setdefault(name, _LoggedMode(row.line))
        mode.peak_w, mode.samples = max(mode.peak_w, power_w), mode.samples + 1
        if last is not None and last[0] == name and 0 <= at_s - last[1] <= _SILENT_S:
            mode.energy_j += (at_s - last[1]) * (power_w + last[2]) / 2
            mode.time_s += at_s - last[1]
        last = (name, at_s, power_w)
    what = " + ".join(rails) or total
    rows = [_row(name, mode, what) for name, mode in modes.items() if mode.time_s > 0]
    if not rows:
        raise InputError(
            "holds no two readings of the power in one mode", where=source.where, fix="log longer"
        )
    notes = [f"{n_skipped} rows have no power"] if n_skipped else []
    if totals_mw[1] and abs(totals_mw[0] / totals_mw[1] - 1) > _AGREEING:
        notes.append(
            f"{total} is {totals_mw[0] / totals_mw[1] - 1:+.0%} off {what}, which make the board's "
            "total: it adds rails that contain one another, or leaves some out"
        )
    return ToolReading(rows, notes)


def _rails(header: Sequence[str]) -> list[str]:
    """The columns of the rails that make the total; empty where the log does not have them all."""
    labels = {name.removeprefix("Power "): name for name in header if name.startswith("Power V")}
    metering = metering_of(labels)
    return [labels[label] for label in metering.total_rails] if metering else []


def _row(name: str, mode: _LoggedMode, total: str) -> TextRow:
    return TextRow(
        mode.line,
        cells(
            mode=name,
            power_w=mode.energy_j / mode.time_s,
            method=f"jetson_stats: mean of {total} over {mode.time_s:.4g} s",
        ),
        known(
            samples=float(mode.samples),
            duration_s=mode.time_s,
            energy_j=mode.energy_j,
            peak_w=mode.peak_w,
        ),
    )


def _seconds(text: str, line: int, source: ToolFile) -> float:
    """A time as Python prints it, on any clock; raises InputError with the line."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise InputError(
            f"line {line}: time is {text[:40]!r}, which is not a time",
            where=source.where,
            fix="give it as jetson_stats wrote it",
        ) from error


def _is_jetson_stats(head: str) -> bool:
    columns = header_of(head)
    marks = {"jetson_clocks", "nvp model", *_TOTALS}
    return columns[:2] == ["time", "uptime"] and bool(marks & set(columns))


JETSON_STATS = Reader("jetson_stats' log", _is_jetson_stats, _read_jetson_stats, MOST_TOOL_BYTES)


_ZEUS_COLUMNS = ["start_time", "window_name", "elapsed_time"]  # seconds
_LONGEST_STEP_S = 1.0  # NVML's counter moves far more often
_ENERGY = re.compile(r"gpu\d+_energy")  # joules


def _read_zeus(source: ToolFile) -> ToolReading:
    rows: list[TextRow] = []
    n_silent = n_uncounted = 0
    for row in at_most(read_csv(source, "zeus"), MOST_RUNS, "windows", source):
        meters = [name for name in row.cells if _ENERGY.fullmatch(name)]
        energies = [number(row, name, source) for name in meters]
        if any(energy is not None and energy < 0 for energy in energies):
            raise InputError(
                f"line {row.line} has an energy below 0", where=source.where, fix="remove the row"
            )
        energy_j = sum(energy or 0.0 for energy in energies)
        time_s = number(row, "elapsed_time", source)
        # NVML's counter moves every 20 to 100 ms: a 0 is a window that was too short for it.
        is_metered = None not in energies and energy_j > 0
        is_long = time_s is not None and time_s > _LONGEST_STEP_S
        n_silent += not is_metered and not is_long
        n_uncounted += not is_metered and is_long
        rows.append(
            TextRow(
                row.line,
                cells(
                    network=row.cells["window_name"],
                    time_s=time_s,
                    energy_j=energy_j if is_metered else None,
                    method=f"zeus: one window of the program; energy of "
                    f"{' and '.join(name.partition('_')[0] for name in meters)} by NVML",
                    repeat=str(row.line),
                ),
                known(energy_j=energy_j if is_metered else None),
            )
        )
    if not rows:
        raise InputError("holds no window", where=source.where, fix="end a window before the end")
    notes = [f"{n_silent} windows have no energy: they are too short for the counter"]
    notes *= bool(n_silent)
    if n_uncounted:
        notes.append(
            f"{n_uncounted} windows have no energy though they are long: NVML counts none there, "
            "as on a Jetson, whose meter is its INA3221"
        )
    return ToolReading(rows, notes)


ZEUS = Reader("zeus' log", lambda head: header_of(head)[:3] == _ZEUS_COLUMNS, _read_zeus)
