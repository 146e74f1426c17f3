"""A table of texts: the terminal and the report each print it in their own way."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

import msgspec

EMPTY = frozenset({"", "–"})
SILENT = EMPTY | {"unknown"}  # cells that say nothing

_Table = TypeVar("_Table", bound="Table")


class Table(msgspec.Struct, frozen=True):
    """Rows of texts; the first cell of each row is its header.

    ``numeric``: columns that the report sets flush right. ``name``: by which report.js finds a
    table that follows the reader's choice.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()
    name: str = ""

    def column(self, at: int) -> list[str]:
        """The cells of the column at index ``at``."""
        return [row[at] for row in self.rows]

    def with_only(self: _Table, indices: Sequence[int]) -> _Table:
        """The table with the columns at ``indices`` alone."""
        return msgspec.structs.replace(
            self,
            columns=[self.columns[at] for at in indices],
            rows=[[row[at] for at in indices] for row in self.rows],
            numeric=frozenset(new for new, old in enumerate(indices) if old in self.numeric),
        )

    def without(self: _Table, names: Collection[str]) -> _Table:
        """The table without the columns ``names``."""
        return self.with_only([at for at, name in enumerate(self.columns) if name not in names])


class Redundant(msgspec.Struct, frozen=True):
    """Columns that tell no row from another, by index.

    ``empty``: nothing or a dash in every row. ``silent``: these, and those with an "unknown".
    ``same``: one text in every row.
    """

    empty: frozenset[int]
    silent: frozenset[int]
    same: frozenset[int]


def redundant_columns(table: Table) -> Redundant:
    """The columns of ``table`` that a reader may miss."""
    texts = [set(table.column(at)) for at in range(len(table.columns))]
    return Redundant(
        empty=frozenset(at for at, cells in enumerate(texts) if cells <= EMPTY),
        silent=frozenset(at for at, cells in enumerate(texts) if cells <= SILENT),
        same=frozenset(at for at, cells in enumerate(texts) if len(cells) == 1),
    )
