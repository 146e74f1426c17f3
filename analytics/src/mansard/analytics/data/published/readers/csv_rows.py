"""The rows of a CSV file that a tool wrote: longer than a table, and perhaps cut at its end."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from mansard.analytics.data.published.readers.reader import ToolFile
from mansard.core.errors import InputError


@dataclass(frozen=True)
class CsvRow:
    """One line: where it ends, and its cells by column name."""

    line: int
    cells: dict[str, str]


def header_of(head: str) -> list[str]:
    """The names in the first line of a file."""
    first = head.split("\n", 1)[0]
    return [name.strip().strip('"') for name in first.split(",")]


def read_csv(source: ToolFile, tool: str, *, is_log: bool = True) -> Iterator[CsvRow]:
    """All rows; raises InputError with the line.

    ``is_log``: the tool ends each line. A last one without its end may be cut in a number, and is
    left out.
    """
    text = source.text
    if is_log:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                _check_header(header, source)
            elif len(cells) == len(header):
                stripped = [cell.strip() for cell in cells]
                yield CsvRow(reader.line_num, dict(zip(header, stripped, strict=True)))
            else:
                raise InputError(
                    f"line {reader.line_num} has {len(cells)} cells, its header {len(header)}",
                    where=source.where,
                    fix=f"give it as {tool} wrote it",
                )
    except csv.Error as error:
        raise InputError(
            f"cannot read line {reader.line_num}: {error}",
            where=source.where,
            fix=f"give it as {tool} wrote it",
        ) from error


def _check_header(header: list[str], source: ToolFile) -> None:
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise InputError(
            f"its header has the column {twice[0]!r} more than once",
            where=source.where,
            fix="give every column a name of its own",
        )


def number(row: CsvRow, name: str, source: ToolFile) -> float | None:
    """A cell as a number; None where it is empty or absent. Raises InputError with the line."""
    text = row.cells.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f"line {row.line}: {name} is {text[:40]!r}, which is no number",
            where=source.where,
            fix="remove the row",
        )
    return value
