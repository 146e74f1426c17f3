"""A file of Nsight Compute as a table: its encoding, its delimiter, its header and its rows.

The file may be any page, of the command line or of the GUI. Lines before the table (``==PROF==``,
output of the program) are skipped. The GUI writes units into the header (``Duration [us]``), calls
the kernel ``Function Name``, and separates cells as the language of the system does.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from mansard.analytics.data.published.readers.reader import ToolFile
from mansard.analytics.models.counters.launch import Export, is_used, split_unit
from mansard.analytics.models.counters.pages import (
    KERNEL,
    METRIC,
    TABLE,
    TableRows,
    is_metric_table,
    is_sections,
    is_summary,
    read_details,
    read_raw,
    read_sections,
    read_summary,
    twice,
)
from mansard.core.errors import InputError
from mansard.core.formats.ncu import EXPORT_COMMAND, MESSAGE, REPORT_MAGIC

MOST_LAUNCHES = 200_000
MOST_COLUMNS = 20_000  # --metrics regex:.* has 8000
_MOST_BEFORE = 100_000  # lines before the header
_BINARY = (REPORT_MAGIC, b"PK\x03\x04", b"\x1f\x8b", b"SQLite format 3")
_EXPORT_IT = f"export it with {EXPORT_COMMAND}"
_DELIMITERS = (",", "\t", ";")
# What the GUI calls a kernel, the fuller name first.
_KERNELS = (KERNEL, "Demangled Name", "Function Name")


def read_export(source: ToolFile) -> Export:
    """The launches of a file; raises InputError with the line of what cannot be read."""
    text = _decoded(source)
    lines = text.splitlines(keepends=True)
    header = _find_header(lines)
    if header is None:
        if is_sections(lines):
            return read_sections(lines, source.where)
        raise InputError(
            "is not an export of Nsight Compute: no line has 'Kernel Name' or names of metrics",
            where=source.where,
            fix=_EXPORT_IT,
        )
    table = _rows(source.where, lines, header)
    if is_summary(table.header):
        return read_summary(table)
    is_details = METRIC in table.header and KERNEL in table.header
    return read_details(table) if is_details else read_raw(table)


def is_export(source: ToolFile) -> bool:
    """Whether a file is text that ``read_export`` reads, as far as its header says."""
    try:
        lines = _decoded(source).splitlines(keepends=True)
    except InputError:
        return False
    return _find_header(lines) is not None or is_sections(lines)


def _decoded(source: ToolFile) -> str:
    data = source.data
    if data.startswith(_BINARY) or b"NVPROF" in data[:64]:
        raise InputError(
            "is a report or an archive, not an export as text", where=source.where, fix=_EXPORT_IT
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
    raise InputError("is not text", where=source.where, fix=_EXPORT_IT)


@dataclass(frozen=True)
class _Header:
    """A header line: its columns without their units, the kernel's name as ``KERNEL``."""

    line: int  # from 0
    delimiter: str
    columns: tuple[str, ...]
    units: tuple[str, ...]


def _find_header(lines: Sequence[str]) -> _Header | None:
    marks = (*_KERNELS, METRIC, "__")
    for number, line in enumerate(lines[:_MOST_BEFORE]):
        if not any(mark in line for mark in marks):
            continue
        for delimiter in _DELIMITERS:
            header = _header(number, line, delimiter)
            columns = header.columns if header else ()
            if KERNEL in columns or is_summary(columns) or is_metric_table(columns):
                return header
    return None


def _header(number: int, line: str, delimiter: str) -> _Header | None:
    cells = _cells(line, delimiter)
    if len(cells) < 2:
        return None
    pairs = [split_unit(cell) for cell in cells]
    names = [name for name, _ in pairs]
    kernel = next((name for name in _KERNELS if name in names), KERNEL)
    columns = tuple(KERNEL if name == kernel else name for name in names)
    return _Header(number, delimiter, columns, tuple(unit for _, unit in pairs))


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        cells = next(csv.reader([line], strict=True, delimiter=delimiter, skipinitialspace=True))
    except (csv.Error, StopIteration):
        return []
    return [cell.strip() for cell in cells]


def _check_columns(header: _Header, where: str) -> None:
    columns = header.columns
    if len(columns) > MOST_COLUMNS:
        raise InputError(f"has {len(columns):,} columns", where=where, fix="export fewer metrics")
    if name := twice(columns):
        raise InputError(
            f"its header has the column {name!r} more than once", where=where, fix="leave one out"
        )


def _rows(where: str, lines: list[str], header: _Header) -> TableRows:
    _check_columns(header, where)
    columns, start = header.columns, header.line
    used = [at for at, column in enumerate(columns) if is_used(column)]
    body = islice(lines, start + 1, None)
    reader = csv.reader(
        ("" if MESSAGE.match(line) else line for line in body),
        delimiter=header.delimiter,
        skipinitialspace=True,
    )
    first = _cells(lines[start], header.delimiter)
    rows: list[tuple[int, list[str]]] = []
    skipped, n_tables, is_row, is_full = 0, 1, False, False
    least = _least_cells(columns)
    try:
        for cells in reader:
            if not any(cells):
                continue
            is_row = least <= len(cells) <= len(columns) + 1
            is_full = len(cells) >= len(columns)
            if cells[0].strip() == first[0] and [cell.strip() for cell in cells] == first:
                n_tables += 1
                continue
            if not is_row:
                skipped += 1
                continue
            # Of the thousands of metrics that a raw page may have, those that are made use of.
            row = [cells[at] if at < len(cells) else "" for at in used]
            row += [str(n_tables)] if n_tables > 1 else []
            rows.append((start + 1 + reader.line_num, row))
            if len(rows) > MOST_LAUNCHES * (60 if METRIC in columns else 1):
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
    return TableRows(
        where,
        (*(columns[at] for at in used), *([TABLE] if n_tables > 1 else [])),
        rows,
        cut,
        skipped,
        units={columns[at]: header.units[at] for at in used if header.units[at]},
        # A language that separates cells by semicolons does so because of its decimal comma.
        has_comma=header.delimiter == ";",
        n_tables=n_tables,
    )


def _least_cells(columns: tuple[str, ...]) -> int:
    """The fewest cells of a row: rows of a raw page are whole, a details row may end early."""
    return columns.index(METRIC) + 3 if METRIC in columns else len(columns)


def _is_closed(line: str, *, is_full: bool) -> bool:
    """Whether a last row without a line end is whole: a quote closes its last cell, or a table that
    no tool wrote has all its cells."""
    if '"' not in line:
        return is_full
    return line.endswith('"') and not line.endswith(',"')
