"""Tables on stdout: each as wide as the terminal at most, or 80 columns in a pipe or a file."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence

from mansard.cli.layout import MOST_TURNED, Table, fact_lines, fits, table_lines
from mansard.cli.terminal import columns, has_colours
from mansard.cli.wrapping import wrapped

__all__ = [
    "Table",
    "print_facts",
    "print_fitting",
    "print_table",
    "print_tables",
    "without",
    "without_silent",
]


def print_tables(tables: Iterable[Table]) -> None:
    """Tables on stdout, each with a blank line behind it."""
    for table in tables:
        print_table(*table)


def print_fitting(
    table: Table, droppable: Sequence[str], where: str, *, few: int = MOST_TURNED
) -> None:
    """A table of many rows on stdout without so many of the columns ``droppable`` that it fits.

    They go in the order that they are named in; a line says which, and ``where`` they are. A few
    rows have all columns: they can be shown side by side.
    """
    left: list[str] = []
    for name in droppable:
        if fits(table, columns(sys.stdout)) or len(table[2]) <= few:
            break
        if name in table[1]:
            table = without(table, {name})
            left.append(name)
    print_tables([table])
    if left:
        _print(wrapped(f"Left out: {', '.join(left)}; {where}", columns(sys.stdout)))


def print_facts(title: str, facts: Sequence[tuple[str, str]]) -> None:
    """Names and what is known of each, one under the other, with a blank line behind them."""
    lines = fact_lines(title, facts, columns(sys.stdout), has_colours=has_colours(sys.stdout))
    _print(lines)


def print_table(title: str, columns_: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; every cell is shown as text, and none is cut: see ``layout``."""
    can_draw = (sys.stdout.encoding or "").lower().startswith("utf")
    lines = table_lines(
        (title, columns_, rows),
        columns(sys.stdout),
        rule="─" if can_draw else "-",
        has_colours=has_colours(sys.stdout),
    )
    _print(lines)


def _print(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in (*lines, "")))


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
