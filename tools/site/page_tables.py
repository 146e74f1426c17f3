"""Tables of the documents, and the cells and columns that other pages quote from them.

A table, row or column that is not there any more is a KeyError.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

DOCS = Path(__file__).resolve().parents[2] / "docs"
_TITLE = re.compile(r"^#+ (.+)$|^\*\*([^*]+)\*\*$")
_NUMBER = re.compile(r"[−+-]?[0-9][0-9,.]*")


@dataclass(frozen=True)
class Table:
    """A table of a page, and the heading or bold line above it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Cell:
    """One cell: a page, the title above its table, the row's first cells, the column."""

    page: str
    title: str
    row: str
    column: str | int

    def text(self) -> str:
        """What it says, without bold; raises KeyError."""
        return _row(self)[_index(self)]


@dataclass(frozen=True)
class Column:
    """The numbers of a column without their signs, of the rows whose second cell ends so."""

    page: str
    title: str
    column: str
    ends: str = ""
    statistic: str = "median and worst"

    def text(self) -> str:
        """Their median and largest; or their least and largest. Raises KeyError."""
        table = _table(self.page, self.title, self.column)
        at = table.columns.index(self.column)
        cells = [row[at] for row in table.rows if row[1].endswith(self.ends)]
        found = [abs(number(cell)) for cell in cells if cell]
        if self.statistic == "least to largest":
            return f"{min(found):.3f} to {max(found):.3f}"
        return f"median {median(found):.3g} %, worst {max(found):.3g} %"


@cache
def tables(page: str) -> tuple[Table, ...]:
    """All tables of a page, in order."""
    found: list[Table] = []
    title, lines = "", []
    for line in [*(DOCS / page).read_text("utf-8").splitlines(), ""]:
        if line.startswith("|"):
            lines.append(_cells(line))
            continue
        if len(lines) > 1:
            found.append(Table(title, lines[0], tuple(lines[2:])))
        lines = []
        if heading := _TITLE.match(line):
            title = heading[1] or heading[2]
    return tuple(found)


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|"))


def _table(page: str, title: str, column: str | int, row: str = "") -> Table:
    for table in tables(page):
        has_column = isinstance(column, int) or column in table.columns
        if table.title.startswith(title) and has_column and _rows(table, row):
            return table
    raise KeyError(f"docs/{page}: no table under {title!r} with {column!r} and {row!r}")


def _rows(table: Table, row: str) -> list[tuple[str, ...]]:
    """Rows that begin so, by whole cells; else those whose text begins so."""
    joined = [(" | ".join(cells), cells) for cells in table.rows]
    whole = [cells for text, cells in joined if f"{text} |".startswith(f"{row} |")]
    return whole or [cells for text, cells in joined if text.startswith(row)]


def cells_of(table: Table, row: str) -> tuple[str, ...]:
    """The first row of a table that begins so; raises KeyError."""
    if rows := _rows(table, row):
        return rows[0]
    raise KeyError(f"no row {row!r} under {table.title!r}")


def _row(cell: Cell) -> tuple[str, ...]:
    return _rows(_table(cell.page, cell.title, cell.column, cell.row), cell.row)[0]


def _index(cell: Cell) -> int:
    if isinstance(cell.column, int):
        return cell.column
    return _table(cell.page, cell.title, cell.column, cell.row).columns.index(cell.column)


def number(cell: str) -> float:
    """The first number of a cell; raises KeyError."""
    found = _NUMBER.search(cell)
    if found is None:
        raise KeyError(f"{cell!r} has no number")
    return float(found[0].replace("−", "-").replace(",", "").rstrip("."))
