"""Tables on stdout: each as wide as the terminal at most, or 80 columns in a pipe or a file."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence

from mansard.cli.layout import Table, table_lines
from mansard.cli.terminal import columns, has_colours

__all__ = ["Table", "print_table", "print_tables", "without", "without_silent"]


def print_tables(tables: Iterable[Table]) -> None:
    """Tables on stdout, each with a blank line behind it."""
    for table in tables:
        print_table(*table)


def print_table(title: str, columns_: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; every cell is shown as text, and none is cut: see ``layout``."""
    can_draw = (sys.stdout.encoding or "").lower().startswith("utf")
    lines = table_lines(
        (title, columns_, rows),
        columns(sys.stdout),
        rule="─" if can_draw else "-",
        has_colours=has_colours(sys.stdout),
    )
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write("\n")


def without_silent(table: Table, droppable: Collection[str]) -> Table:
    """The table without those columns of ``droppable`` that say nothing in any row."""
    _, columns, rows = table
    silent = [all(row[at] in {"", "–", "unknown"} for row in rows) for at in range(len(columns))]
    names = [name for name, is_silent in zip(columns, silent, strict=True) if is_silent]
    return without(table, {*names} & {*droppable})


def without(table: Table, names: Collection[str]) -> Table:
    """The table without the columns ``names``."""
    title, columns, rows = table
    kept = [at for at, name in enumerate(columns) if name not in names]
    return title, [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]
