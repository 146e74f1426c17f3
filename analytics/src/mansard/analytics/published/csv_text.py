"""The cells of a CSV file that somebody else wrote, or one line that says why not.

Separators, byte order marks and quoting differ from tool to tool; none of them is guessed at
where it would change a number.
"""

from __future__ import annotations

import codecs
import csv
import io
from dataclasses import dataclass
from pathlib import Path

from mansard.core.errors import InputError
from mansard.core.files import read_whole

MOST_BYTES = 8 << 20  # published tables have kilobytes; more is a log, not a table
LONGEST_CELL = 500  # characters
_SEPARATORS = (",", ";", "\t", "|")
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class TextRow:
    """One line of a table: where it ends in the file, and its cells by column name."""

    line: int
    cells: dict[str, str]


@dataclass(frozen=True)
class TextTable:
    """A table as text. ``separator`` decides how a comma in a number is read."""

    where: str
    separator: str
    columns: tuple[str, ...]
    rows: tuple[TextRow, ...]


def read_table(path: Path) -> TextTable:
    """The table in ``path``: a header line, then rows; empty lines and lines with # are skipped.

    Raises InputError for what is no such table, StorageError where it cannot be read.
    """
    return parse_table(read_whole(path), str(path))


def parse_table(data: bytes, where: str) -> TextTable:
    """The table in ``data``, which stands at ``where``; raises InputError."""
    text = _decode(data, where)
    lines = text.splitlines()
    first = next((line for line in lines if line.strip() and not line.startswith("#")), None)
    if first is None:
        raise InputError("is empty", where=where, fix="give a CSV table with a header line")
    separator = max(_SEPARATORS, key=first.count)
    if separator not in first:
        raise InputError(
            f"its first line is one column, {first[:80]!r}",
            where=where,
            fix="give a CSV table with a header line; columns are separated by , ; tab or |",
        )
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    columns: tuple[str, ...] = ()
    rows: list[TextRow] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
                continue
            if not columns:
                columns = _header(cells, where)
            else:
                rows.append(_row(cells, columns, reader.line_num, where))
    except csv.Error as error:
        raise InputError(
            f"cannot read line {reader.line_num}: {error}", where=where, fix="mend its quotes"
        ) from error
    if not rows:
        raise InputError("has a header and no rows", where=where, fix="give a table with rows")
    return TextTable(where, separator, columns, tuple(rows))


def _decode(data: bytes, where: str) -> str:
    if len(data) > MOST_BYTES:
        raise InputError(
            f"has {len(data):,} bytes, more than the {MOST_BYTES:,} that a table may have",
            where=where,
            fix="import a summary of it",
        )
    name, encoding = ("UTF-8", "utf-8-sig")
    if data.startswith(_WIDE_MARKS):
        name, encoding = ("UTF-16", "utf-16")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            f"is no {name} text: {error.reason} at byte {error.start}",
            where=where,
            fix="save it as UTF-8",
        ) from error
    if "\0" in text:
        raise InputError("is no text", where=where, fix="give a CSV table")
    return text


def _header(cells: list[str], where: str) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in cells)
    while names and not names[-1]:  # a separator at the end of each line
        names = names[:-1]
    twice = sorted({name for name in names if names.count(name) > 1 or not name})
    if twice:
        raise InputError(
            f"its header has the column {twice[0]!r} more than once"
            if twice[0]
            else "its header has a column without a name",
            where=where,
            fix="give every column a name of its own",
        )
    return names


def _row(cells: list[str], columns: tuple[str, ...], line: int, where: str) -> TextRow:
    stripped = [cell.strip() for cell in cells]
    while len(stripped) > len(columns) and not stripped[-1]:
        stripped.pop()
    if len(stripped) != len(columns):
        raise InputError(
            f"line {line} has {len(stripped)} cells, its header {len(columns)}",
            where=where,
            fix="quote cells that hold a separator",
        )
    long = next((cell for cell in stripped if len(cell) > LONGEST_CELL), None)
    if long is not None:
        raise InputError(
            f"line {line} has a cell of {len(long):,} characters", where=where, fix="shorten it"
        )
    return TextRow(line, dict(zip(columns, stripped, strict=True)))
