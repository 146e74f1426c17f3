"""From a file to published records, whose id is the hash of what they say.

A table holds what a device does in a mode (FLOP/s, B/s, seconds of a launch), or networks that
others ran (mode, network, time, and power or energy). Files of tools that ``readers`` knows become
such a table first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from types import MappingProxyType

from msgspec.structs import replace as replace_record

from mansard.analytics.data.quantities import counted
from mansard.analytics.published.bounds import bound_of_figure
from mansard.analytics.published.cells import (
    NOT_SAID,
    Cells,
    TextRow,
    TextTable,
    check_modes,
    parse_table,
)
from mansard.analytics.published.columns import (
    KnownColumn,
    find_columns,
    parse_level_name,
    parse_unit_name,
)
from mansard.analytics.published.layers import read_layers
from mansard.analytics.published.meters import agree, mark_meters, meters_differ, meters_of
from mansard.analytics.published.origin import PublishedOrigin
from mansard.analytics.published.readers.reader import MOST_TOOL_BYTES, Reading, ToolFile, as_table
from mansard.analytics.published.readers.registry import recognise
from mansard.analytics.published.windows import has_windows, read_windows
from mansard.core.errors import InputError, UsageError
from mansard.core.files import read_whole
from mansard.core.hashing import content_hash
from mansard.core.records import (
    KernelCounters,
    Phase,
    Processor,
    PublishedLayer,
    PublishedRate,
    PublishedRun,
    RateQuantity,
    RateWorkUnit,
)
from mansard.core.text import printable

# fp32 and fp64 are CUDA cores' unless a table says otherwise; tf32 exists on tensor cores alone.
_USUAL_UNITS: Mapping[str, RateWorkUnit] = MappingProxyType(
    {
        "fp64": "CUDA core",
        "fp32": "CUDA core",
        "tf32": "tensor core",
    }
)


PublishedRow = PublishedRate | PublishedRun | PublishedLayer


def read_rates(
    table: TextTable, columns: Sequence[KnownColumn], origin: PublishedOrigin
) -> tuple[PublishedRate, ...]:
    """All figures of ``table``, without their table's id yet; raises InputError.

    A row may hold several: FLOP/s and GB/s, or a peak for each precision.
    """
    if not any(column.field in {"peak", "bandwidth", "launch"} for column in columns):
        raise InputError(
            f"no column is a rate or names networks; it has {', '.join(map(repr, table.columns))}",
            where=table.where,
            fix="name one: --column peak_gflop_per_s=NAME, bandwidth_gb_per_s=, network=",
        )
    rates: list[PublishedRate] = []
    seen: dict[tuple[str, ...], int] = {}
    for row in table.rows:
        cells = Cells(table, tuple(columns), row)
        of_row = list(_rates_of_row(cells, origin))
        if not of_row:
            raise InputError("has no figure", where=cells.where, fix="remove the row")
        for rate in of_row:
            kind = (rate.mode.name, rate.quantity, rate.subject, rate.unit)
            if kind in seen:
                raise InputError(
                    f"lines {seen[kind]} and {row.line} both give the {rate.quantity} of "
                    f"{' '.join(filter(None, (rate.subject, rate.unit)))} in mode {kind[0]!r}",
                    where=table.where,
                    fix="keep one of them",
                )
            seen[kind] = row.line
        rates += of_row
    check_modes([(rate.row, rate.mode) for rate in rates], table.where)
    return tuple(rates)


def _rates_of_row(cells: Cells, origin: PublishedOrigin) -> Iterator[PublishedRate]:
    for column in cells.columns_of("peak"):
        value = cells.amount(column)
        if value is not None:
            precision = column.precision or cells.precision() or cells.needed("precision")
            unit = _unit(cells, column, precision, origin.processor)
            yield _rate(cells, origin, "peak", precision, unit, value)
    for column in cells.columns_of("bandwidth"):
        value = cells.amount(column)
        if value is not None:
            yield _rate(cells, origin, "bandwidth", _level(cells, column), "", value)
    launch_s = cells.number("launch")
    if launch_s is not None:
        yield _rate(cells, origin, "launch", "", "", launch_s)


def _rate(
    cells: Cells,
    origin: PublishedOrigin,
    quantity: RateQuantity,
    subject: str,
    unit: RateWorkUnit,
    value: float,
) -> PublishedRate:
    method = cells.text("method")
    return PublishedRate(
        table_id="",
        row=cells.row.line,
        device=origin.device,
        processor=origin.processor,
        citation=origin.citation,
        mode=cells.mode(),
        quantity=quantity,
        subject=subject,
        unit=unit,
        value=value,
        method=method,
        unknown={} if method is not None else {"method": cells.why_not("method")},
    )


def _unit(cells: Cells, column: KnownColumn, precision: str, processor: Processor) -> RateWorkUnit:
    if column.unit is not None:
        return column.unit
    text = cells.text("unit")
    if text is None:
        usual: RateWorkUnit | None = (
            "CUDA core" if processor == "cpu" else _USUAL_UNITS.get(precision)
        )
        if usual is None:
            raise InputError(
                f"{precision} may be of tensor cores or of CUDA cores",
                where=cells.where,
                fix="say --fixed unit=tensor, or give a column 'unit'",
            )
        return usual
    unit = parse_unit_name(text)
    if unit is None:
        raise InputError(f"unknown unit {text!r}", where=cells.where, fix="use tensor or cuda")
    return unit


def _level(cells: Cells, column: KnownColumn) -> str:
    text = column.level or cells.text("level")
    if text is None:
        return "DRAM"
    level = parse_level_name(text)
    if level is None:
        raise InputError(
            f"unknown memory level {text!r}", where=cells.where, fix="use DRAM, L1, L2 or L3"
        )
    return level


AGREEING = 0.05  # energy and power × time of one row may differ by so much: rounding, and no more


def read_runs(
    table: TextTable, columns: Sequence[KnownColumn], origin: PublishedOrigin
) -> tuple[PublishedRun, ...]:
    """All rows of ``table``, without their table's id yet; raises InputError.

    Rows of one network in one mode are repeats where their cells of the field "repeat" differ.
    """
    has_time = any(c.field in {"time", "throughput", "power", "energy"} for c in columns)
    if not has_time and not any(row.figures for row in table.rows):
        raise InputError(
            f"no column is a time, a power or an energy; it has "
            f"{', '.join(map(repr, table.columns))}",
            where=table.where,
            fix="name one: --column time_ms=NAME, throughput_fps=, power_w=, energy_j=",
        )
    runs: list[PublishedRun] = []
    seen: dict[tuple[object, ...], int] = {}
    for row in table.rows:
        cells = Cells(table, tuple(columns), row)
        run = _run_of_row(cells, origin)
        setting = (run.mode.name, run.network, run.batch, run.precision, run.phase)
        telling = (*cells.columns_of("repeat"), *cells.columns_of("meter"))
        kind = (*setting, *(row.cells[column.name] for column in telling))
        if kind in seen:
            raise InputError(
                f"lines {seen[kind]} and {row.line} are both {run.network!r}, "
                f"{'no batch' if run.batch is None else f'batch {run.batch}'}, "
                f"{run.precision or 'no precision'}, in mode {run.mode.name!r}",
                where=table.where,
                fix="keep one of them, or name what tells repeats apart with --column repeat=NAME, "
                "or several meters with --column meter=NAME",
            )
        seen[kind] = row.line
        runs.append(run)
    check_modes([(run.row, run.mode) for run in runs], table.where)
    return mark_meters(
        runs, [Cells(table, tuple(columns), row).text("meter") for row in table.rows]
    )


def _run_of_row(cells: Cells, origin: PublishedOrigin) -> PublishedRun:
    batch, precision = cells.count("batch"), cells.precision()
    latency_s = _latency_s(cells, batch)
    meters = meters_of(cells)
    is_doubtful = len(meters) > 1 and not agree(meters.values())
    if len(meters) > 1:
        power_w = None if is_doubtful else fmean(meters.values())
    else:
        power_w = _power_w(cells, batch, latency_s)
    figures = {**cells.row.figures, **(meters if len(meters) > 1 else {})}
    if (deviation_s := cells.deviation()) is not None:
        figures["deviation_s"] = deviation_s
    if latency_s is None and power_w is None and not figures:
        raise InputError("has neither a time nor a power", where=cells.where, fix="remove the row")
    values: dict[str, object] = {
        "batch": batch,
        "precision": precision,
        "latency_s": latency_s,
        "power_w": power_w,
        "method": cells.text("method"),
        "remark": cells.text("remark"),
    }
    _check_bounds(cells.where, {**figures, "time_s": latency_s, "power_w": power_w})
    unknown = cells.reasons(values, _FIELDS)
    if is_doubtful:
        values["remark"] = values["remark"] or meters_differ(meters)
        unknown = unknown | {"power_w": str(values["remark"])}
        unknown.pop("remark", None)
    return PublishedRun(
        table_id="",
        row=cells.row.line,
        device=origin.device,
        processor=origin.processor,
        citation=origin.citation,
        mode=cells.mode(),
        network=cells.needed("network"),
        phase=_phase(cells),
        figures=figures,
        **values,  # type: ignore[arg-type]
        unknown=unknown,
    )


def _check_bounds(where: str, figures: Mapping[str, float | None]) -> None:
    """Raises InputError for the first of ``figures`` that is impossible."""
    for name, value in figures.items():
        bound = bound_of_figure(name)
        if value is not None and not bound.holds(value):
            raise InputError(
                f"its {name} is {value:.4g}, which is impossible: {bound.text}",
                where=where,
                fix="correct it, or export the file again",
            )


_FIELDS = MappingProxyType(
    {"latency_s": "time", "power_w": "power"}
    | {name: name for name in ("batch", "precision", "method", "remark")}
)


def _latency_s(cells: Cells, batch: int | None) -> float | None:
    """Seconds of one batch: as given, or the batch over the images of a second."""
    time_s, images_hz = _of_batch(cells, "time", batch), cells.number("throughput")
    if images_hz is None:
        return time_s
    if batch is None:
        raise InputError(
            "images a second are no time without the batch",
            where=cells.where,
            fix="say --fixed batch=1, or give a column 'batch'",
        )
    if time_s is not None and abs(batch / images_hz / time_s - 1) > AGREEING:
        raise InputError(
            f"its batch over its images a second is {batch / images_hz:.4g} s, its time "
            f"{time_s:.4g} s",
            where=cells.where,
            fix="leave one out, with --column throughput= or --column time=",
        )
    return time_s if time_s is not None else batch / images_hz


def _of_batch(cells: Cells, field: str, batch: int | None) -> float | None:
    """A time or an energy, which has to be a batch's; some say "per inference"."""
    value = cells.number(field)
    if value is not None and batch != 1 and any(c.is_per_item for c in cells.columns_of(field)):
        name = cells.columns_of(field)[0].name
        raise InputError(
            f"{name} may be of one item or of the batch of {batch or 'unknown size'}",
            where=cells.where,
            fix="give that of a batch, under a name without 'per'",
        )
    return value


def _power_w(cells: Cells, batch: int | None, latency_s: float | None) -> float | None:
    """Mean watts: as given, or the energy of a batch over its time."""
    power_w, energy_j = cells.number("power"), _of_batch(cells, "energy", batch)
    if energy_j is None:
        return power_w
    if latency_s is None:
        raise InputError(
            "an energy without a time gives no power", where=cells.where, fix="add the time"
        )
    if power_w is not None and abs(energy_j / latency_s / power_w - 1) > AGREEING:
        raise InputError(
            f"its energy over its time is {energy_j / latency_s:.4g} W, its power {power_w:.4g} W",
            where=cells.where,
            fix="leave one out, with --column energy= or --column power=, or give the raw samples "
            "of the rails beside it",
        )
    return power_w if power_w is not None else energy_j / latency_s


def _phase(cells: Cells) -> Phase:
    text = (cells.text("phase") or "inference").casefold()
    if text not in {"inference", "training"}:
        raise InputError(
            f"unknown phase {text!r}", where=cells.where, fix="use inference or training"
        )
    return text  # type: ignore[return-value]


def lacks_batch(run: PublishedRun) -> bool:
    """Whether a tool's file does not say of which batch the time is: no model uses it then.

    A row without a batch in a table that a person wrote is of something without batches.
    """
    return run.latency_s is not None and run.unknown.get("batch") == NOT_SAID


def without_batch(times: str) -> str:
    """What is said of so many ``times`` that lack their batch."""
    return f"no model uses {times} without a batch: import the file with --fixed batch=N"


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
    """What a file held: ``rates``, ``runs`` or ``layers``, as ``table_id`` is a hash of them.

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
        """ "rates", "runs" or "layers": what its file is called by."""
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
    ((found,),) = import_files([path], origin, said=said, fixed=fixed)
    return found


def import_files(
    paths: Sequence[Path],
    origin: PublishedOrigin,
    *,
    said: Mapping[str, str] | None = None,
    fixed: Mapping[str, str] | None = None,
) -> list[tuple[Imported, ...]]:
    """What tables, and files that a reader recognises, hold: one for each kind of row of a file.

    ``said`` and ``fixed`` as in ``import_table``. Files of one engine tell each other what they say
    of it: trt-engine-explorer keeps the options of a build beside its times, as
    ``X.build.metadata.json`` beside ``X.profile.json``.
    """
    opened = [_open(path, said or {}) for path in paths]  # their bytes are let go one by one
    opened = _with_energies(opened)
    engines = [engine_of(path) for path in paths]
    found: list[tuple[Imported, ...]] = []
    for path, engine, one in zip(paths, engines, opened, strict=True):
        if isinstance(one, TextTable):
            found.append((_import_table(one, origin, said or {}, fixed or {}),))
        else:
            beside = {
                name: value
                for other, each in zip(engines, opened, strict=True)
                if other == engine and isinstance(each, Reading)
                for name, value in each.says.items()
            }
            found.append(_import_reading(str(path), one, origin, beside, fixed or {}))
    return found


def _open(path: Path, said: Mapping[str, str]) -> Reading | TextTable:
    """A file of a tool's as its reader has it; any other, and any with --column, as a table."""
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


def _with_energies(opened: Sequence[Reading | TextTable]) -> list[Reading | TextTable]:
    """Windows get their energies from the samples beside them, which are no runs then."""
    windows = [one for one in opened if isinstance(one, TextTable) and has_windows(one)]
    traces = [one for one in opened if isinstance(one, Reading) and one.trace is not None]
    if not windows or not traces:
        return list(opened)
    if len(traces) > 1:
        raise UsageError(
            "several logs of rails stand beside a table of windows",
            fix="import each with the windows of its own runs",
        )
    (samples,) = traces
    found: list[Reading | TextTable] = []
    for one in opened:
        if one is samples:
            found.append(Reading(notes=["its samples give the energies of the windows"]))
        elif isinstance(one, TextTable) and has_windows(one) and samples.trace is not None:
            found.append(read_windows(one, samples.trace, samples.trace_rule))
        else:
            found.append(one)
    return found


def engine_of(path: Path) -> str:
    """The folder and name of the engine that a file of trt-engine-explorer is of."""
    return _SUFFIXES.sub("", str(path))


_SUFFIXES = re.compile(
    r"(?:\.(?:build|profile|graph|timing))?(?:\.metadata)?(?:\.json|\.log|\.txt)$"
)


def _import_table(
    plain: TextTable, origin: PublishedOrigin, said: Mapping[str, str], fixed: Mapping[str, str]
) -> Imported:
    table = _with_fixed(plain, fixed)
    columns, ignored = find_columns(table.columns, said, table.where)
    has_networks = any(column.field == "network" for column in columns)
    unread = _OF_RATES if has_networks else _OF_RUNS
    ignored = (*ignored, *(column.name for column in columns if column.field in unread))
    if has_networks:
        return _named(Imported("", runs=read_runs(table, columns, origin), ignored=ignored))
    return _named(Imported("", rates=read_rates(table, columns, origin), ignored=ignored))


def _import_reading(
    where: str,
    reading: Reading,
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
    # What a person says a network is called goes before what a path in the file is.
    n_networks = len({row.cells.get("network") for row in reading.rows})
    hidden = {"system"} | ({"network"} & set(fixed) if n_networks == 1 else set())
    plain = [
        replace(row, cells={name: text for name, text in row.cells.items() if name not in hidden})
        for row in _of_device(where, reading.rows, origin.device)
    ]
    table = as_table(where, plain)
    missing = {k: v for k, v in beside.items() if k not in table.columns and k not in fixed}
    table = _with_fixed(table, {**fixed, **missing})
    columns, ignored = find_columns(table.columns, {}, table.where)
    timed = replace(table, rows=tuple(row for row in table.rows if _is_run(row)))
    found = []
    if timed.rows:
        runs = read_runs(timed, columns, origin)
        found.append(Imported("", runs=runs, ignored=ignored))
        if n_lacking := sum(map(lacks_batch, runs)):
            notes += (without_batch(counted(n_lacking, "time")),)
    if layers := tuple(read_layers(table, columns, origin)):
        found.append(Imported("", layers=layers, ignored=ignored))
    return tuple(
        replace(_named(one), notes=notes if number == 0 else ()) for number, one in enumerate(found)
    )


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


def table_id_of(rows: Sequence[PublishedRow | KernelCounters]) -> str:
    """What a table of ``rows``, which have no id yet, is called: the hash of all they say."""
    return content_hash(rows)


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
