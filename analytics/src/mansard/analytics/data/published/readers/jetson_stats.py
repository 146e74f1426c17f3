"""A log of jetson_stats' logger (jtop_logger.py, or any CSV of ``jtop.stats``): power over time.

It holds no network and no time of one, so it becomes the mean power of what ``--fixed network``
says was running, one row for each power mode in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mansard.analytics.data.published.cells import TextRow
from mansard.analytics.data.published.readers.csv_rows import header_of, number, read_csv
from mansard.analytics.data.published.readers.reader import (
    MOST_RUNS,
    MOST_TOOL_BYTES,
    Reader,
    Reading,
    ToolFile,
    cells,
    known,
)
from mansard.core.errors import InputError
from mansard.core.hardware import metering_of

# Of all rails, in milliwatts: of version 4, and of 1 to 3.
_TOTALS = ("Power TOT", "power cur")
_AGREEING = 0.05  # as the power of one row and its energy over its time
_SILENT_S = 60.0  # between two rows of a log: what lies between was not logged


@dataclass
class _Mode:
    line: int
    energy_j: float = 0.0
    time_s: float = 0.0
    peak_w: float = 0.0
    samples: int = 0


def _read(source: ToolFile) -> Reading:
    total = next((name for name in _TOTALS if name in header_of(source.head)), None)
    if total is None:
        raise InputError(
            "has no power of the board: jtop found no meter there",
            where=source.where,
            fix="log it on a board with a power monitor",
        )
    rails = _rails(header_of(source.head))
    modes: dict[str, _Mode] = {}
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
        mode = modes.setdefault(name, _Mode(row.line))
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
    return Reading(rows, notes)


def _rails(header: Sequence[str]) -> list[str]:
    """The columns of the rails that make the total; empty where the log does not have them all."""
    labels = {name.removeprefix("Power "): name for name in header if name.startswith("Power V")}
    metering = metering_of(labels)
    return [labels[label] for label in metering.total_rails] if metering else []


def _row(name: str, mode: _Mode, total: str) -> TextRow:
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
            f"line {line}: time is {text[:40]!r}, which is no time",
            where=source.where,
            fix="give it as jetson_stats wrote it",
        ) from error


def _recognise(head: str) -> bool:
    columns = header_of(head)
    marks = {"jetson_clocks", "nvp model", *_TOTALS}
    return columns[:2] == ["time", "uptime"] and bool(marks & set(columns))


JETSON_STATS = Reader("jetson_stats' log", _recognise, _read, MOST_TOOL_BYTES)
