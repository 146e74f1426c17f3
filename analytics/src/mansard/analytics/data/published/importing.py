"""Published records from a file; their id is a hash of their content.

A table holds what a device does in a mode (FLOP/s, B/s, seconds of a launch), or networks that
others ran (mode, network, time, and power or energy). Files of tools that ``readers`` knows become
such a table first.

Where windows of runs stand beside raw samples of power, their energies are made of the samples.
Those that the table claims are not used: loggers cut a window to the samples inside it,
and add rails that contain one another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec.structs import replace as replace_record

from mansard.analytics.data.published.cells import TextRow, TextTable, parse_positive, parse_table
from mansard.analytics.data.published.columns import find_columns, unit_of, words_of
from mansard.analytics.data.published.language_columns import with_language_figures
from mansard.analytics.data.published.origin import PublishedOrigin, PublishedRow, table_id_of
from mansard.analytics.data.published.rates import read_rates
from mansard.analytics.data.published.readers.reader import (
    MOST_TOOL_BYTES,
    PowerTrace,
    ToolFile,
    ToolReading,
    as_table,
    cells,
    known,
)
from mansard.analytics.data.published.readers.registry import recognise
from mansard.analytics.data.published.runs import lacks_batch, read_layers, read_runs, without_batch
from mansard.analytics.data.published.stages import split_workload
from mansard.analytics.data.quantities import counted
from mansard.core.errors import InputError, UsageError
from mansard.core.records import PublishedLayer, PublishedRate, PublishedRun
from mansard.core.storage.files import read_whole
from mansard.core.text import printable

_AGREEING = 0.05  # as an energy and power x time of one row
_ENDS = (("start", re.compile(r"start|begin", re.I)), ("end", re.compile(r"end|stop", re.I)))


def has_windows(table: TextTable) -> bool:
    """Whether a table has a column of starts and one of ends."""
    return len(_columns(table)) == len(_ENDS)


def _columns(table: TextTable) -> dict[str, tuple[str, float]]:
    """ "start" and "end", with the names of their columns and the factors to seconds."""
    columns: dict[str, tuple[str, float]] = {}
    for name in table.columns:
        words = words_of(name)
        units = [unit for word in words if (unit := unit_of(word)) is not None]
        if units and units[-1].dimension == "time":
            for what, pattern in _ENDS:
                if any(pattern.fullmatch(word) for word in words):
                    columns.setdefault(what, (name, units[-1].factor))
    return columns


def read_windows(table: TextTable, trace: PowerTrace, rule: str) -> ToolReading:
    """A run for each row: its duration, and its energy from ``trace``. Raises InputError.

    A window that the samples do not cover has no energy, and a note says so.
    """
    rows, outside = [], []
    claimed_j = made_j = 0.0
    for row in table.rows:
        start_s, end_s = _window(table, row)
        energy_j = trace.energy_j(start_s, end_s)
        if energy_j is None:
            outside.append(str(row.line))
        elif (claim_j := _claim_j(table, row)) is not None:
            claimed_j, made_j = claimed_j + claim_j, made_j + energy_j
        rows.append(
            TextRow(
                row.line,
                cells(
                    time_s=end_s - start_s,
                    energy_j=energy_j,
                    method=f"a window of the program; trapezoid over {rule}, ends interpolated",
                    repeat=str(row.line),
                ),
                known(energy_j=energy_j),
            )
        )
    return ToolReading(rows, list(_notes(claimed_j, made_j, outside)))


def _notes(claimed_j: float, made_j: float, outside: list[str]) -> Iterator[str]:
    if made_j and abs(claimed_j / made_j - 1) > _AGREEING and claimed_j:
        yield (
            f"its energies, {claimed_j:.4g} J in sum, are not used: the samples give {made_j:.4g} J"
        )
    if outside:
        yield (
            f"no energy in lines {', '.join(outside[:10])}: the samples do not cover their windows"
        )


def _window(table: TextTable, row: TextRow) -> tuple[float, float]:
    where = f"{table.where}, line {row.line}"
    columns = _columns(table)
    start_s, end_s = (_amount(table, row, *columns[what]) for what, _ in _ENDS)
    if start_s is None or end_s is None or end_s <= start_s:
        raise InputError("ends before it starts", where=where, fix="correct it")
    for name in table.columns:
        if "duration" in [word.casefold() for word in words_of(name)]:
            factor = next((u.factor for w in words_of(name) if (u := unit_of(w))), 1.0)
            said = _amount(table, row, name, factor)
            if said is not None and abs(said / (end_s - start_s) - 1) > _AGREEING:
                raise InputError(
                    f"its {name} is {said:.4g} s, its end less its start {end_s - start_s:.4g} s",
                    where=where,
                    fix="correct it",
                )
    return start_s, end_s


def _claim_j(table: TextTable, row: TextRow) -> float | None:
    for name in table.columns:
        for word in words_of(name):
            unit = unit_of(word)
            if unit is not None and unit.dimension == "energy":
                return _amount(table, row, name, unit.factor)
    return None


def _amount(table: TextTable, row: TextRow, name: str, factor: float) -> float | None:
    where = f"{table.where}, line {row.line}"
    value = parse_positive(row.cells[name], table.separator, where, name)
    return None if value is None else value * factor


# What a table of the other kind has no use for; it is named as not read.
_OF_RATES = frozenset({"peak", "bandwidth", "launch", "unit", "level"})
_OF_RUNS = frozenset(
    {
        *("batch", "phase", "remark", "repeat", "meter"),
        *("time", "deviation", "throughput", "power", "energy"),
    }
)


@dataclass(frozen=True)
class Imported:
    """The content of a file: ``rates``, ``runs`` or ``layers``; ``table_id`` is their hash.

    ``ignored``: columns that nothing was read from. ``notes``: a line each about the file.
    """

    table_id: str
    rates: tuple[PublishedRate, ...] = ()
    runs: tuple[PublishedRun, ...] = ()
    layers: tuple[PublishedLayer, ...] = ()
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The kind in the file's name: "rates", "runs" or "layers"."""
        return "layers" if self.layers else "runs" if self.runs else "rates"

    @property
    def rows(self) -> tuple[PublishedRow, ...]:
        """All rows."""
        return (*self.rates, *self.runs, *self.layers)


def import_table(
    path: Path,
    origin: PublishedOrigin,
    *,
    said: Mapping[str, str] | None = None,
    fixed: Mapping[str, str] | None = None,
) -> Imported:
    """Read one table, as ``import_files`` does.

    A table with networks holds runs, any other rates. ``said`` names columns of a table (see
    ``find_columns``), ``fixed`` gives values that hold for all rows and have no column:
    {"precision": "fp16", "emc_mhz": "3199"}. Raises UsageError for what the caller said,
    InputError with the line for what the file holds.
    """
    ((parts,),) = import_files([path], origin, said=said, fixed=fixed)
    return parts


def import_files(
    paths: Sequence[Path],
    origin: PublishedOrigin,
    *,
    said: Mapping[str, str] | None = None,
    fixed: Mapping[str, str] | None = None,
) -> list[tuple[Imported, ...]]:
    """Import tables and files that a reader recognises: one result for each kind of row of a file.

    ``said`` and ``fixed`` as in ``import_table``. Files of one engine tell each other what they say
    of it: trt-engine-explorer keeps the options of a build beside its times, as
    ``X.build.metadata.json`` beside ``X.profile.json``.
    """
    opened = [_open(path, said or {}) for path in paths]  # their bytes are let go one by one
    opened = _with_energies(opened)
    engines = [engine_of(path) for path in paths]
    imported: list[tuple[Imported, ...]] = []
    for path, engine, one in zip(paths, engines, opened, strict=True):
        if isinstance(one, TextTable):
            imported.append((_import_table(one, origin, said or {}, fixed or {}),))
        else:
            beside = {
                name: value
                for other, reading in zip(engines, opened, strict=True)
                if other == engine and isinstance(reading, ToolReading)
                for name, value in reading.says.items()
            }
            imported.append(_import_reading(str(path), one, origin, beside, fixed or {}))
    return imported


def _open(path: Path, said: Mapping[str, str]) -> ToolReading | TextTable:
    """Read a tool's file by its reader; any other file, and any with --column, as a table."""
    source = ToolFile(str(path), read_whole(path, most_bytes=MOST_TOOL_BYTES))
    reader = None if said else recognise(source)
    if reader is None and source.head.lstrip().startswith(("[", "{")):
        raise InputError(
            "is JSON of no tool that is known",
            where=source.where,
            fix="give one of docs/use/importing.md: of trtexec, ONNX Runtime, llama-bench, …; or a "
            "CSV table",
        )
    if reader is None:
        return parse_table(source.data, source.where)
    return reader.read_source(source)


def _with_energies(opened: Sequence[ToolReading | TextTable]) -> list[ToolReading | TextTable]:
    """Compute the energies of windows from the samples beside them, which then are no runs."""
    windows = [one for one in opened if isinstance(one, TextTable) and has_windows(one)]
    traces = [one for one in opened if isinstance(one, ToolReading) and one.trace is not None]
    if not windows or not traces:
        return list(opened)
    if len(traces) > 1:
        raise UsageError(
            "several logs of rails come with a table of windows",
            fix="import each with the windows of its own runs",
        )
    (samples,) = traces
    results: list[ToolReading | TextTable] = []
    for one in opened:
        if one is samples:
            results.append(ToolReading(notes=["its samples give the energies of the windows"]))
        elif isinstance(one, TextTable) and has_windows(one) and samples.trace is not None:
            results.append(read_windows(one, samples.trace, samples.trace_rule))
        else:
            results.append(one)
    return results


def engine_of(path: Path) -> str:
    """The folder and name of the engine that a file of trt-engine-explorer is of."""
    return _SUFFIXES.sub("", str(path))


_SUFFIXES = re.compile(
    r"(?:\.(?:build|profile|graph|timing))?(?:\.metadata)?(?:\.json|\.log|\.txt)$"
)


def _import_table(
    plain: TextTable, origin: PublishedOrigin, said: Mapping[str, str], fixed: Mapping[str, str]
) -> Imported:
    table = with_language_figures(_with_fixed(plain, fixed), said)
    columns, ignored = find_columns(table.columns, said, table.where)
    has_networks = any(column.field == "network" for column in columns)
    unread = _OF_RATES if has_networks else _OF_RUNS
    ignored = (*ignored, *(column.name for column in columns if column.field in unread))
    if has_networks:
        return _named(Imported("", runs=read_runs(table, columns, origin), ignored=ignored))
    return _named(Imported("", rates=read_rates(table, columns, origin), ignored=ignored))


def _import_reading(
    where: str,
    reading: ToolReading,
    origin: PublishedOrigin,
    beside: Mapping[str, str],
    fixed: Mapping[str, str],
) -> tuple[Imported, ...]:
    notes = tuple(printable(note) for note in reading.notes)
    if reading.trace is not None and not reading.rows:
        raise InputError(
            "has too few samples of a rail, or none in half of the log",
            where=where,
            fix="log longer, or give the windows of the runs beside it",
        )
    if not reading.rows:
        said = ", ".join(f"{name} {value}" for name, value in reading.says.items())
        return (Imported("", notes=(*notes, f"holds no time{said and f'; it says {said}'}")),)
    rows, fixed = _called(_of_device(where, reading.rows, origin.device), fixed)
    plain = [
        replace(row, cells={name: text for name, text in row.cells.items() if name != "system"})
        for row in rows
    ]
    table = as_table(where, plain)
    missing = {k: v for k, v in beside.items() if k not in table.columns and k not in fixed}
    table = _with_fixed(table, {**fixed, **missing})
    columns, ignored = find_columns(table.columns, {}, table.where)
    timed = replace(table, rows=tuple(row for row in table.rows if _is_run(row)))
    parts = []
    if timed.rows:
        runs = read_runs(timed, columns, origin)
        parts.append(Imported("", runs=runs, ignored=ignored))
        if n_lacking := sum(map(lacks_batch, runs)):
            notes += (without_batch(counted(n_lacking, "time")),)
    if layers := tuple(read_layers(table, columns, origin)):
        parts.append(Imported("", layers=layers, ignored=ignored))
    return tuple(
        replace(_named(one), notes=notes if number == 0 else ()) for number, one in enumerate(parts)
    )


def _called(
    rows: Sequence[TextRow], fixed: Mapping[str, str]
) -> tuple[Sequence[TextRow], Mapping[str, str]]:
    """``rows`` of one network under the name that a person gives it, and what is fixed beside it.

    A name goes before what a path in the file is, and the tokens of a run stay behind it.
    """
    named = [split_workload(row.cells.get("network", "")) for row in rows]
    if "network" not in fixed or len({model for model, _ in named}) > 1:
        return rows, fixed
    renamed = [
        replace(row, cells={**row.cells, "network": f"{fixed['network']}{tests}"})
        for row, (_, tests) in zip(rows, named, strict=True)
    ]
    return renamed, {name: value for name, value in fixed.items() if name != "network"}


def _of_device(where: str, rows: Sequence[TextRow], device: str) -> Sequence[TextRow]:
    """The rows of one system; raises InputError where there are several and none is named."""
    systems = dict.fromkeys(row.cells.get("system", "") for row in rows)
    if len(systems) <= 1:
        return rows
    if device not in systems:
        raise InputError(
            f"holds results of {len(systems)} systems",
            where=where,
            fix=f"say which, with --device: {', '.join(list(systems)[:10])}",
        )
    return [row for row in rows if row.cells.get("system") == device]


def _is_run(row: TextRow) -> bool:
    """Whether a row of a reader's is a run: it may have layers alone."""
    timed = {"time_s", "power_w", "energy_j", "throughput_fps"}
    return bool(row.figures) or any(row.cells.get(name) for name in timed)


def _named(imported: Imported) -> Imported:
    """The rows with their table's id."""
    table_id = table_id_of(imported.rows)
    return replace(
        imported,
        table_id=table_id,
        rates=tuple(replace_record(row, table_id=table_id) for row in imported.rates),
        runs=tuple(replace_record(row, table_id=table_id) for row in imported.runs),
        layers=tuple(replace_record(row, table_id=table_id) for row in imported.layers),
    )


def _with_fixed(table: TextTable, fixed: Mapping[str, str]) -> TextTable:
    """The table with a column for each fixed value; raises UsageError."""
    for name in fixed:
        if name in table.columns:
            raise UsageError(
                f"--fixed {name} would hide the column of that name", fix="leave it out"
            )
        if not find_columns([name], {}, "--fixed")[0]:
            raise UsageError(
                f"--fixed {name!r} is nothing that a table holds",
                fix="use mode, network, batch, precision, unit, gpu_mhz, emc_mhz, cpu_mhz, sms, …",
            )
    return replace(
        table,
        columns=(*table.columns, *fixed),
        rows=tuple(replace(row, cells={**row.cells, **fixed}) for row in table.rows),
    )
