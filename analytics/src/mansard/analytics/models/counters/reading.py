"""A file of counters, whatever page of Nsight Compute it is, as launches.

What is before the table (``==PROF==`` lines, what the program printed) is skipped.
"""

from __future__ import annotations

import csv
import re
from itertools import islice

from mansard.analytics.data.published.readers.reader import ToolFile
from mansard.analytics.models.counters.launch import Export, is_used
from mansard.analytics.models.counters.pages import (
    KERNEL,
    METRIC,
    Lines,
    is_metric_table,
    read_details,
    read_metric_table,
    read_raw,
    read_summary,
    twice,
)
from mansard.analytics.models.counters.sections import is_sections, read_sections
from mansard.core.errors import InputError

MOST_LAUNCHES = 200_000
MOST_EXPORT_BYTES = 256 << 20  # a raw page has 4 KB a launch
MOST_COLUMNS = 20_000  # --metrics regex:.* has 8000
_MOST_BEFORE = 100_000  # lines before the header
_MESSAGE = re.compile(r"==(?:PROF|WARNING|ERROR)==")
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


def _rows(where: str, lines: list[str], start: int) -> Lines:
    header = _checked_header(lines[start], where)
    used = [at for at, column in enumerate(header) if is_used(column)]
    body = islice(lines, start + 1, None)
    reader = csv.reader("" if _MESSAGE.match(line) else line for line in body)
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
            own = [cells[at] if at < len(cells) else "" for at in used]
            rows.append((start + 1 + reader.line_num, own))
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
    return Lines(where, tuple(header[at] for at in used), rows, cut, skipped)


def _least_cells(header: tuple[str, ...]) -> int:
    """So many cells has a row at least: a raw page's are whole, a details row may end early."""
    return header.index(METRIC) + 3 if METRIC in header and KERNEL in header else len(header)


def _is_closed(line: str, *, is_full: bool) -> bool:
    """Whether a last row without a line end is whole: a quote closes its last cell, or a table that
    no tool wrote has all its cells."""
    if '"' not in line:
        return is_full
    return line.endswith('"') and not line.endswith(',"')
