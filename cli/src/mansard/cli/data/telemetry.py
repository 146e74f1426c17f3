"""``mansard board telemetry``: logs of tegrastats, or the board's own as it runs, in numbers."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Annotated, Literal

import typer

from mansard import api
from mansard.api import command_line, results
from mansard.cli.console import (
    flush_output,
    note,
    print_beside,
    print_json,
    print_lines,
    print_whole,
)
from mansard.cli.json_output import json_document, stream_json
from mansard.cli.options import BoardOption, ForceOption, check_outputs, parse_duration
from mansard.cli.tables import print_table
from mansard.core.errors import UsageError
from mansard.core.storage.files import replacing
from mansard.core.text import printable

_SCALES = {"B": ("MiB", 2.0**-20), "Hz": ("MHz", 1e-6), "W": ("W", 1.0), "%": ("%", 1.0)}
_HEAD = (
    f"{'time':>20} {'RAM GiB':>8} {'CPU %':>6} {'GPU %':>6} {'GPU MHz':>8} {'EMC %':>6} {'°C':>6}"
    "  power W"
)
_RAILS_INDENT = 4  # columns before the rails that do not fit a terminal
Format = Literal["table", "csv", "json", "parquet"]


def telemetry(
    logs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Logs of tegrastats, plain or gzipped, or records of watch (.jsonl); - is stdin.",
            readable=False,
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Run tegrastats on this board.")] = False,
    interval: Annotated[
        str | None,
        typer.Option(help="Period between lines, with --live or of logs without times: 100ms, 1s."),
    ] = None,
    duration: Annotated[str | None, typer.Option(help="Stop --live after 30s, 5min, 1h.")] = None,
    samples: Annotated[
        bool, typer.Option("--samples", help="Print every line instead of the summary.")
    ] = False,
    form: Annotated[
        Format, typer.Option("--format", help="Output format; csv and parquet contain every line.")
    ] = "table",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; parquet needs it."),
    ] = None,
    board: BoardOption = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Summarise logs of tegrastats: ranges of every field, energy of the rails, utilisation."""
    form = "json" if as_json else form
    check_outputs([output], force=force)
    _check_options(logs or [], live=live, duration=duration, form=form, output=output)
    read = partial(
        _read,
        [Path("/dev/stdin") if str(log) == "-" else log for log in logs or []],
        board,
        None if interval is None else parse_duration("--interval", interval),
        None if duration is None else parse_duration("--duration", duration),
    )
    if form == "table":
        tables = _Tables(is_live=live, samples=samples)
        is_whole = read(tables.take, tables.finish_log)
    elif form == "json" and not samples:
        summaries: list[results.LogSummary] = []
        is_whole = read(None, summaries.append)
        if output is None:
            print_json("telemetry", {"summaries": summaries})
        else:
            with _open(output) as target:
                target.write(json_document("telemetry", {"summaries": summaries}))
    elif form == "json":
        with (
            _open(output) as target,
            stream_json("telemetry-samples", "samples", target.write) as add,
        ):
            is_whole = read(lambda *line: add(command_line.line_document(*line)), None)
    else:
        with _open(output) as target, command_line.write_lines(target, form) as take:
            is_whole = read(take, None)
    if not is_whole:
        raise typer.Exit(130)  # interrupted; earlier results are written


def _read(
    logs: Sequence[Path],
    board: Path | None,
    interval_s: float | None,
    duration_s: float | None,
    take: results.OnLine | None,
    finish_log: Callable[[results.LogSummary], None] | None,
) -> bool:
    """Read ``logs``, or the board's own where there are none; False if an interrupt ended it."""
    was_interrupted = False
    if logs:
        summaries = api.telemetry(logs, interval_s=interval_s, board=board, on_line=take)
    else:
        interval_s = interval_s or command_line.LIVE_INTERVAL_S
        live = api.live_telemetry(board, interval_s=interval_s, duration_s=duration_s, on_line=take)
        summaries, was_interrupted = iter([live.summary]), live.was_interrupted
    for summary in summaries:
        if finish_log is not None:
            finish_log(summary)
    return not was_interrupted


def _check_options(
    logs: list[Path], *, live: bool, duration: str | None, form: Format, output: Path | None
) -> None:
    """Raises UsageError where the options do not go together."""
    if live == bool(logs):
        what = "logs and --live exclude each other" if live else "there is nothing to read"
        raise UsageError(what, fix="name logs of tegrastats, or give --live")
    if duration is not None and not live:
        raise UsageError("--duration is for --live", fix="a log is read to its end")
    if form == "parquet" and output is None:
        raise UsageError("parquet is not for a terminal", fix="add --output lines.parquet")
    if form == "table" and output is not None:
        raise UsageError("a table is for the terminal", fix="add --format csv, json or parquet")
    for log in logs:
        if output is not None and output.exists() and log.exists() and output.samefile(log):
            raise UsageError(f"{output} is one of the logs", fix="write another file")


@contextlib.contextmanager
def _open(output: Path | None) -> Iterator[IO[bytes]]:
    if output is not None:
        with replacing(output) as stream:
            yield stream
    else:
        sys.stdout.flush()
        yield sys.stdout.buffer


class _Tables:
    """For people: the lines of a live board as they come, then the summary."""

    def __init__(self, *, is_live: bool, samples: bool) -> None:
        self._shows_lines = is_live or samples
        self._shows_summary = is_live or not samples
        self._n_shown = 0

    def take(self, sample: results.TegrastatsSample, log: str, time_s: float | None) -> None:
        del log
        if self._shows_lines:
            _print_sample(sample, time_s, with_head=self._n_shown % 20 == 0)
            self._n_shown += 1

    def finish_log(self, summary: results.LogSummary) -> None:
        if self._shows_summary:
            _print_summary(summary)


def _print_sample(
    sample: results.TegrastatsSample, time_s: float | None, *, with_head: bool
) -> None:
    """One line of text on stdout: the means and maxima people look at first."""
    loads = [cpu.load_percent for cpu in sample.cpus if cpu.load_percent is not None]
    gpu, emc = sample.gpu, sample.emc
    celsius = [
        sensor.celsius
        for sensor in sample.temperatures
        if sensor.celsius is not None and sensor.name != "PMIC"  # a constant 50 or 100
    ]
    clock_hz = gpu.clock_hz if gpu is not None else None
    time = command_line.clean(sample.prefix) or ("" if time_s is None else f"{time_s:.3f} s")
    cells = (
        f"{printable(time)[-20:]:>20}",
        _number(sample.ram.used_bytes / 2**30 if sample.ram is not None else None, 8, 2),
        _number(sum(loads) / len(loads) if loads else None, 6, 1),
        _number(gpu.load_percent if gpu is not None else None, 6, 0),
        _number(clock_hz / 1e6 if clock_hz is not None else None, 8, 0),
        _number(emc.load_percent if emc is not None else None, 6, 0),
        _number(max(celsius, default=None), 6, 1),
    )
    rails = " ".join(f"{printable(rail.name)}={rail.power_w:.3f}" for rail in sample.rails)
    if with_head:
        print_whole(_HEAD)
    print_beside(f"{' '.join(cells)}  ", rails, rest=_RAILS_INDENT)
    flush_output()


def _number(value: float | None, width: int, digits: int) -> str:
    return f"{'–':>{width}}" if value is None else f"{value:{width}.{digits}f}"


def _print_summary(summary: results.LogSummary) -> None:
    """Tables of utilisation, other fields and power; warnings on stderr."""
    begins = f", session {summary.session} ({summary.session_begins})"
    name = summary.log + (begins if summary.session > 1 else "")
    title = f"{name}: {summary.n_lines} lines, {_duration(summary)} ({summary.source})"
    fields = {(field.field, field.quantity): field for field in summary.fields}
    print_table(
        title,
        ("utilisation", "lines", "load mean %", "max %", "clock min", "mean", "max MHz"),
        [_utilisation_row(one, fields) for one in summary.utilisation],
    )
    others = [field for field in summary.fields if field.unit not in {"%", "Hz", "W"}]
    print_table(
        "Memory and temperatures",
        ("field", "unit", "lines", "min", "mean", "max"),
        [_field_row(field) for field in others],
    )
    if summary.rails:
        print_table("Power and energy", ("rail", "min W", "mean W", "max W", "J"), _rails(summary))
        rule = summary.total_rule or f"unknown: {summary.unknown['total_rule']}"
        boundary = f" ({summary.total_boundary})" if summary.total_boundary else ""
        print_lines([f"total: {rule}{boundary}"])
    reasons = {reason for part in (summary, *summary.rails) for reason in part.unknown.values()}
    for reason in sorted(reasons - set(summary.warnings)):
        note(f"{summary.log}: unknown: {reason}")
    for warning in summary.warnings:
        note(f"{summary.log}: {warning}")


def _duration(summary: results.LogSummary) -> str:
    duration_s, low_s, high_s = summary.duration_s, summary.duration_low_s, summary.duration_high_s
    if duration_s is None or low_s is None or high_s is None:
        return "of unknown length"
    return f"{_bounded(duration_s, low_s, high_s, 6)} s by {summary.duration_source}"


def _bounded(value: float, low: float, high: float, digits: int) -> str:
    """``value`` with what it lies between, where that differs by 0.2 % or more."""
    shown = f"{value:.{digits}g}"
    is_wide = high - low >= 2e-3 * abs(value)
    return f"{shown} ({low:.{digits}g} to {high:.{digits}g})" if is_wide else shown


def _utilisation_row(
    one: results.Utilisation, fields: dict[tuple[str, str], results.FieldSummary]
) -> tuple[str, ...]:
    clocks = [
        field for (name, what), field in fields.items() if name == one.name and what[:5] == "clock"
    ]
    load = ("–", "–")
    if one.mean_percent is not None and one.maximum_percent is not None:
        load = (f"{one.mean_percent:.1f}", f"{one.maximum_percent:.0f}")
    if not clocks:
        return one.name, str(one.n_lines), *load, "–", "–", "–"
    mean_hz = sum(clock.mean for clock in clocks) / len(clocks)
    lowest_hz, highest_hz = min(c.minimum for c in clocks), max(c.maximum for c in clocks)
    shown = (f"{clock_hz / 1e6:.0f}" for clock_hz in (lowest_hz, mean_hz, highest_hz))
    return one.name, str(one.n_lines), *load, *shown


def _field_row(one: results.FieldSummary) -> tuple[str, ...]:
    unit, scale = _SCALES.get(one.unit, (one.unit, 1.0))
    digits = 0 if one.unit == "B" else 2
    numbers = (f"{scale * value:.{digits}f}" for value in (one.minimum, one.mean, one.maximum))
    return f"{one.field} {one.quantity}", unit, str(one.n_lines), *numbers


def _rails(summary: results.LogSummary) -> list[tuple[str, ...]]:
    ranges = {value.field: value for value in summary.fields if value.unit == "W"}
    rows = []
    for rail in summary.rails:
        one = ranges[rail.rail]
        watts = (f"{value:.3f}" for value in (one.minimum, one.mean, one.maximum))
        joules = _joules(rail.energy_j, rail.energy_low_j, rail.energy_high_j)
        rows.append((rail.rail, *watts, joules))
    total_w = "unknown" if summary.total_w is None else f"{summary.total_w:.3f}"
    joules = _joules(summary.total_j, summary.total_low_j, summary.total_high_j)
    rows.append(("total", "–", total_w, "–", joules))
    return rows


def _joules(energy_j: float | None, low_j: float | None, high_j: float | None) -> str:
    if energy_j is None or low_j is None or high_j is None:
        return "unknown"
    return _bounded(energy_j, low_j, high_j, 4)
