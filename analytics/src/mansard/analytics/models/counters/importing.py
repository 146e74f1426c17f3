"""Rows of counters from an export, completed by what the file does not hold.

The file may be any page of Nsight Compute. Lines before the table (``==PROF==``, output of the
program) are skipped.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from mansard.analytics.data.published.cells import LARGEST_COUNT
from mansard.analytics.data.published.origin import table_id_of
from mansard.analytics.data.published.readers.reader import ToolFile
from mansard.analytics.models.counters.launch import Export, ProfiledLaunch, is_used
from mansard.analytics.models.counters.metrics import count
from mansard.analytics.models.counters.pages import (
    KERNEL,
    METRIC,
    TableRows,
    is_metric_table,
    is_sections,
    read_details,
    read_metric_table,
    read_raw,
    read_sections,
    read_summary,
    twice,
)
from mansard.core.errors import InputError, UsageError
from mansard.core.formats.ncu import MESSAGE, call_of
from mansard.core.formats.onnx import labels_of
from mansard.core.formats.tensorrt import take_apart, trace
from mansard.core.records import KernelCounters, Phase, Source, with_known
from mansard.core.storage.files import read_whole

MOST_LAUNCHES = 200_000
MOST_EXPORT_BYTES = 256 << 20  # a raw page has 4 KB a launch
MOST_COLUMNS = 20_000  # --metrics regex:.* has 8000
_MOST_BEFORE = 100_000  # lines before the header
_BINARY = (b"NVR\x00", b"PK\x03\x04", b"\x1f\x8b", b"SQLite format 3")


def read_export(source: ToolFile) -> Export:
    """The launches of a file; raises InputError with the line of what cannot be read."""
    text = _decoded(source)
    lines = text.splitlines(keepends=True)
    start = _header_line(lines)
    if start is None:
        if is_sections(lines):
            return read_sections(lines, source.where)
        raise InputError(
            "is not an export of Nsight Compute: no line has 'Kernel Name' or names of metrics",
            where=source.where,
            fix="export it with ncu --import REPORT --csv --page raw",
        )
    table = _rows(source.where, lines, start)
    if METRIC in table.header and KERNEL in table.header:
        return read_summary(table) if "Average" in table.header else read_details(table)
    return read_raw(table) if KERNEL in table.header else read_metric_table(table)


def _decoded(source: ToolFile) -> str:
    data = source.data
    if data.startswith(_BINARY) or b"NVPROF" in data[:64]:
        raise InputError(
            "is a report or an archive, not an export as text",
            where=source.where,
            fix="export it with ncu --import REPORT --csv --page raw",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # what PowerShell's > writes
        encodings = ["utf-16"]
    else:
        encodings = ["utf-8-sig", "cp1252"]
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise InputError(
        "is no text", where=source.where, fix="export it with ncu --import REPORT --csv --page raw"
    )


def _header_line(lines: list[str]) -> int | None:
    for number, line in enumerate(lines[:_MOST_BEFORE]):
        if KERNEL not in line and "__" not in line:
            continue
        header = _header(line)
        if header is None:
            continue
        if KERNEL in header or is_metric_table(header):
            return number
    return None


def _header(line: str) -> tuple[str, ...] | None:
    try:
        cells = next(csv.reader([line], strict=True))
    except (csv.Error, StopIteration):
        return None
    return tuple(cell.strip() for cell in cells) if len(cells) > 1 else None


def _checked_header(line: str, where: str) -> tuple[str, ...]:
    header = _header(line) or ()
    if len(header) > MOST_COLUMNS:
        raise InputError(f"has {len(header):,} columns", where=where, fix="export fewer metrics")
    if name := twice(header):
        raise InputError(
            f"its header has the column {name!r} more than once", where=where, fix="leave one out"
        )
    return header


def _rows(where: str, lines: list[str], start: int) -> TableRows:
    header = _checked_header(lines[start], where)
    used = [at for at, column in enumerate(header) if is_used(column)]
    body = islice(lines, start + 1, None)
    reader = csv.reader("" if MESSAGE.match(line) else line for line in body)
    rows: list[tuple[int, list[str]]] = []
    skipped, is_row, is_full = 0, False, False
    least = _least_cells(header)
    try:
        for cells in reader:
            if not any(cells):
                continue
            is_row = least <= len(cells) <= len(header) + 1
            is_full = len(cells) >= len(header)
            if tuple(cell.strip() for cell in cells) == header:
                raise InputError(
                    f"line {start + 1 + reader.line_num}: its header again: it is two exports",
                    where=where,
                    fix="split it",
                )
            if not is_row:
                skipped += 1
                continue
            # Of the thousands of metrics that a raw page may have, those that are made use of.
            row = [cells[at] if at < len(cells) else "" for at in used]
            rows.append((start + 1 + reader.line_num, row))
            if len(rows) > MOST_LAUNCHES * (60 if METRIC in header else 1):
                raise InputError(
                    "holds more launches than can be read", where=where, fix="split it"
                )
    except csv.Error as error:
        raise InputError(
            f"cannot read line {start + 1 + reader.line_num}: {error}",
            where=where,
            fix="export it again",
        ) from error
    is_ended = lines[-1].endswith(("\n", "\r"))
    cut = not is_ended and not (is_row and _is_closed(lines[-1], is_full=is_full))
    if cut and is_row:
        rows.pop()
    elif cut and skipped:
        skipped -= 1
    return TableRows(where, tuple(header[at] for at in used), rows, cut, skipped)


def _least_cells(header: tuple[str, ...]) -> int:
    """The fewest cells of a row: rows of a raw page are whole, a details row may end early."""
    return header.index(METRIC) + 3 if METRIC in header and KERNEL in header else len(header)


def _is_closed(line: str, *, is_full: bool) -> bool:
    """Whether a last row without a line end is whole: a quote closes its last cell, or a table that
    no tool wrote has all its cells."""
    if '"' not in line:
        return is_full
    return line.endswith('"') and not line.endswith(',"')


NOT_SAID = "the export does not say it"


@dataclass(frozen=True, kw_only=True)
class ExportOrigin:
    """The origin of an export, as far as the file does not have it.

    ``iterations``: calls of the network in the export, which launch the same kernels.
    ``compute_capability``: 87 is 8.7. ``citation`` is None of what was measured here, and ``tool``
    is what measured it with all metrics that the chip lists.
    """

    device: str
    citation: str | None = None
    source: Source = "published"
    table_id: str = ""
    mode: str = "not said"
    network: str | None = None
    model_hash: str | None = None
    batch: int | None = None
    precision: str | None = None
    phase: Phase = "inference"
    iterations: int | None = None
    compute_capability: int | None = None
    tool: str | None = None


@dataclass(frozen=True)
class ImportedCounters:
    """The rows of one export, its form, and a line for each note."""

    table_id: str
    form: str
    rows: tuple[KernelCounters, ...]
    notes: tuple[str, ...]


def import_counters(path: Path, origin: ExportOrigin) -> ImportedCounters:
    """Read one export; raises InputError for what it holds, UsageError for what the caller said."""
    source = ToolFile(str(path), read_whole(path, most_bytes=MOST_EXPORT_BYTES))
    export = read_export(source)
    plain = counters_of(export, origin, str(path))
    table_id = origin.table_id or table_id_of(plain)
    rows = tuple(replace(row, table_id=table_id) for row in plain)
    return ImportedCounters(table_id, export.form, rows, export.notes)


def counters_of(export: Export, origin: ExportOrigin, where: str) -> tuple[KernelCounters, ...]:
    """A row for each launch of ``export``; raises UsageError where iterations differ."""
    nodes = _nodes(export.launches)
    rows = tuple(
        _row(launch, number, nodes.get(_label(launch)), origin, where)
        for number, launch in enumerate(export.launches)
    )
    return rows if origin.iterations is None else in_calls(rows, origin.iterations, where)


def in_calls(rows: Sequence[KernelCounters], n: int, where: str) -> tuple[KernelCounters, ...]:
    """Rows of ``n`` equal calls, one after the other; raises UsageError where they are not."""
    n_each, left = divmod(len(rows), n)
    names = [row.kernel for row in rows]
    if left or any(names[at] != names[at % n_each] for at in range(len(names))):
        raise UsageError(
            f"{where}: its {len(rows)} launches are not {n} times the same kernels",
            fix="say --calls as many calls as were profiled, or leave it out",
        )
    return tuple(with_known(row, iteration=at // n_each) for at, row in enumerate(rows))


def _label(launch: ProfiledLaunch) -> str:
    """The name of the innermost range that holds labels; empty: there is none."""
    return next((name for name in reversed(launch.nvtx or ()) if labels_of(name)), "")


def _nodes(launches: Sequence[ProfiledLaunch]) -> dict[str, tuple[int, ...] | None]:
    """The nodes of each range that holds labels: a region of TensorRT has those between, too."""
    names = [name for name in dict.fromkeys(map(_label, launches)) if name]
    return dict(zip(names, trace([take_apart(name) for name in names]), strict=True))


def _row(
    launch: ProfiledLaunch,
    number: int,
    nodes: tuple[int, ...] | None,
    origin: ExportOrigin,
    where: str,
) -> KernelCounters:
    counted = count(
        launch,
        precision=origin.precision,
        sm=origin.compute_capability,
        all_asked=origin.tool is not None,
    )
    sm = launch.compute_capability or origin.compute_capability
    if launch.time_out_of_range():
        raise InputError(
            f"line {launch.line}: the launch took no time or longer than a day",
            where=where,
            fix="remove the row",
        )
    values: dict[str, object] = {
        "citation": origin.citation,
        "network": origin.network,
        "model_hash": origin.model_hash,
        "batch": origin.batch,
        "precision": origin.precision,
        "iteration": call_of(launch.nvtx or ()),
        "grid": launch.grid,
        "block": launch.block,
        "compute_capability": sm,
        "n_sms": counted.n_sms,
        "nvtx": launch.nvtx,
        "nodes": nodes,
        "time_s": counted.time_s,
        "sm_cycles": counted.sm_cycles,
        "work_flop": counted.work_flop,
        "tool": origin.tool,
    }
    reasons = {
        "citation": "it was measured here",
        "nvtx": "the export has no NVTX ranges",
        "nodes": "no range around the launch names nodes of the network",
        "model_hash": "no network of ours was named",
        **counted.unknown,
    }
    return KernelCounters(
        table_id=origin.table_id,
        row=min(launch.line, LARGEST_COUNT),
        source=origin.source,
        device=origin.device,
        mode=origin.mode,
        phase=origin.phase,
        index=number,
        n_launches=launch.n_launches,
        kernel=launch.kernel,
        clocks_hz=dict(counted.clocks_hz),
        work=counted.work,
        traffic=counted.traffic,
        **values,  # type: ignore[arg-type]
        unknown={n: reasons.get(n, NOT_SAID) for n, value in values.items() if value is None},
    )
