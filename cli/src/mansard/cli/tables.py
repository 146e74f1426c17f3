"""Tables on stdout: each as wide as the terminal at most, or 80 columns in a pipe or a file.

No word is cut in pieces, and nothing is left out. What is tried, until a table fits: the table;
with its header in several lines; with long remarks as numbered lines below; with other texts in
several lines; turned, each record a column; one record under the other.
Rich lays tables out too, but its import alone takes a fifth of the time of scoring a small network.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import zip_longest

from msgspec.structs import replace

from mansard.cli.terminal import (
    Tone,
    columns,
    has_colours,
    painted,
    plain,
    shown,
    tone_of,
    width_of,
    words_of,
    wrapped,
)
from mansard.core.table import SILENT, Table, redundant_columns
from mansard.core.units import ROOF_FACTORS

Paint = Callable[[str, Tone | None], str]

_GAP = "  "
_UNIT = re.compile(r"(.+) \(([^()]+)\)")  # at the end of a header
_BOUNDS = ("at best ", "at most ", "at least ")  # that may stand in a header
_MOST_LINES = 3  # of a row, before records are easier to read
MOST_TURNED = 8  # records that stand side by side, their columns as rows
_LONG_REMARK, _SHORT_REMARK = 24, 12  # columns: longer texts go below, first those, then these
_MOST_IN_NUMBER = 3  # words: ``1.066 to 1.088 TB/s``, where a unit belongs to its number
_FEW_WORDS = 4  # a text of fewer is a name or a number
# Columns whose values say what they are; the first ones stand in the title of a single row too.
_ATTRIBUTES = frozenset(("mode", "device", "precision", "engine", "source", "phase"))
_REMARKS = frozenset(("remark", "why", "verdict", "reason"))  # columns whose texts may go below
_SPEAKING = _ATTRIBUTES | {"remark", "program", "network"}


class _Grid(Table, frozen=True):
    """A table that is to be laid out; ``notes`` are the lines below it."""

    notes: Sequence[tuple[str, str]] = ()  # mark and text


def table_lines(
    table: Table, width: int, *, rule: str = "─", has_colours: bool = False
) -> Iterator[str]:
    """The lines of ``table``, each of at most ``width`` columns unless one word is longer.

    Columns of numbers are set flush right. A column that is empty in every row is left out; what
    another says in every row, the title says instead.
    """
    paint: Paint = painted if has_colours else lambda text, _: text
    grid = _with_bounds_in_heads(_without_redundant(_grid_of(table)))
    for line in wrapped(grid.title, width, "", _GAP) if grid.title else []:
        yield paint(plain(line), "title")
    if not grid.columns:
        return
    yield from _body(grid, width, rule, paint)


def fits(table: Table, width: int) -> bool:
    """Whether the columns of ``table`` stand side by side in ``width``, each cell on one line."""
    grid = _with_bounds_in_heads(_without_redundant(_grid_of(table)))
    return _widths(grid, width, folds_cells=False) is not None


def _grid_of(table: Table) -> _Grid:
    return _Grid(
        title=shown(table.title),
        columns=[*map(shown, table.columns)],
        rows=[[*map(shown, row)] for row in table.rows],
    )


def _body(grid: _Grid, width: int, rule: str, paint: Paint) -> Iterator[str]:
    short = _with_notes(grid, _SHORT_REMARK)
    tried = ((grid, False), (_with_notes(grid, _LONG_REMARK), False), (short, False), (short, True))
    for layout, folds_cells in tried:
        widths = _widths(layout, width, folds_cells=folds_cells)
        if widths is not None:
            yield from _grid_lines(layout, widths, rule, paint)
            yield from _note_lines(layout, width)
            return
    turned = _turned(short)
    widths = None if turned is None else _widths(turned, width, folds_cells=False)
    if turned is not None and widths is not None:
        yield from _grid_lines(turned, widths, rule, paint)
        yield from _note_lines(turned, width)
        return
    yield from _records(grid, width, paint)
    yield from _note_lines(grid, width)


def _turned(grid: _Grid) -> _Grid | None:
    """Each column as a row, for a few records that are wide; None for a single one or many."""
    if not 2 <= len(grid.rows) <= MOST_TURNED:
        return None
    return replace(
        grid,
        columns=(grid.columns[0], *grid.column(0)),
        rows=tuple((name, *grid.column(at)) for at, name in enumerate(grid.columns) if at),
    )


def _without_redundant(grid: _Grid) -> _Grid:
    """Without the columns that say nothing, or one thing in all of several rows.

    The title has what they say, or a line below where that is long. Of a single row what it is of,
    such as its mode, stands in the title.
    """
    if not grid.rows:
        return grid
    redundant, is_single = redundant_columns(grid), len(grid.rows) == 1
    filled = [at for at in range(len(grid.columns)) if not at or at not in redundant.empty]
    shared = [
        at
        for at in filled
        if at in redundant.same
        and (not is_single or (at > 0 and grid.columns[at].lower() in _ATTRIBUTES))
    ]
    if len(shared) == len(filled):
        return grid.with_only(filled)
    words: list[str] = []
    unknown: list[str] = []
    notes = list(grid.notes)
    for at in shared:
        name, value = grid.columns[at], grid.rows[0][at]
        is_said = name.lower() in _SPEAKING or not name
        if name.lower() in _REMARKS and _is_prose(value):
            notes.append(("all:", value))
        elif value == "unknown" and not is_said:
            unknown.append(_in_words(name)[0])
        else:
            words.append(value if is_said else " ".join(_in_words(name, value)))
    parts = [f"{'' if is_single else 'all '}{', '.join(words)}"] if words else []
    parts += [f"unknown: {', '.join(unknown)}"] if unknown else []
    title = "; ".join((grid.title, *parts))
    left = grid.with_only([at for at in filled if at not in shared])
    return replace(left, title=title.removeprefix("; "), notes=notes)


def _in_words(name: str, value: str = "") -> tuple[str, ...]:
    """``weights (MB)`` and ``9.2`` as ``weights``, ``9.2 MB``; no comma is within a name."""
    unit = _UNIT.fullmatch(name)
    name, value = (unit[1], f"{value} {unit[2]}") if unit else (name, value)
    return name.replace(", ", " "), value


def _with_bounds_in_heads(grid: _Grid) -> _Grid:
    """With "at best" in the header of a column whose cells all begin so."""
    heads, columns = [], []
    for at, name in enumerate(grid.columns):
        cells = grid.column(at)
        known = [cell for cell in cells if cell not in SILENT]
        bound = next((word for word in _BOUNDS if all(cell.startswith(word) for cell in known)), "")
        bound = bound if len(known) > 1 else ""
        heads.append(f"{name}, {bound}".rstrip(", ") if bound else name)
        columns.append([cell.removeprefix(bound) for cell in cells])
    rows = [*zip(*columns, strict=True)] if grid.rows else ()
    return replace(grid, columns=heads, rows=rows)


def _is_prose(text: str) -> bool:
    return width_of(text) > _LONG_REMARK and len(words_of(text)) >= _FEW_WORDS


def _with_notes(grid: _Grid, most: int) -> _Grid:
    """With texts of columns of prose in numbered lines below; equal ones have one number.

    ``most``: columns that a text may have to stay where it is.
    """
    numbers: dict[str, str] = {}
    columns = []
    for at in range(len(grid.columns)):
        cells = grid.column(at)
        is_moved = grid.columns[at].lower() in _REMARKS and any(map(_is_prose, cells))
        columns.append([_marked(cell, numbers, most) for cell in cells] if is_moved else cells)
    rows = tuple(zip(*columns, strict=True)) if grid.rows else ()
    notes = tuple((mark, text) for text, mark in numbers.items())
    return replace(grid, rows=rows, notes=(*grid.notes, *notes))


def _marked(cell: str, numbers: dict[str, str], most: int) -> str:
    """A cell with numbers for its long parts: ``recommended; [1]``."""
    return "; ".join(
        numbers.setdefault(part, f"[{len(numbers) + 1}]") if width_of(part) > most else part
        for part in cell.split("; ")
    )


def _widths(grid: _Grid, width: int, *, folds_cells: bool) -> list[int] | None:
    """The widths of columns so that the table fits, or None; headers may take several lines."""
    room = width - len(_GAP) * (len(grid.columns) - 1)
    natural, whole, least = [], [], []  # on one line; with the header folded; with all folded
    for at, name in enumerate(grid.columns):
        cells = grid.column(at)
        of_name = max(map(width_of, words_of(name)), default=0)
        of_cells = max(map(width_of, cells), default=0)
        word = max((width_of(word) for cell in cells for word in words_of(cell)), default=0)
        natural.append(max(width_of(name), of_cells))
        whole.append(max(of_name, of_cells))
        least.append(max(of_name, word))
    if sum(whole) <= room:
        return _cut(natural, whole, room)
    if not folds_cells or sum(least) > room:
        return None
    widths = _cut(whole, least, room)
    if any(
        len(_folded(cell, column_width)) > _MOST_LINES
        for row in grid.rows
        for cell, column_width in zip(row, widths, strict=True)
    ):
        return None
    return widths


def _cut(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """``widths``, the widest cut to one width so that all fit, but none below its ``least``."""
    most = max(widths)
    cut = list(widths)
    while sum(cut) > room:
        most -= 1
        cut = [min(natural, max(most, low)) for natural, low in zip(widths, least, strict=True)]
    return cut


def _folded(text: str, width: int) -> list[str]:
    return wrapped(text, width) if width_of(text) > width else [text]


def _grid_lines(grid: _Grid, widths: Sequence[int], rule: str, paint: Paint) -> Iterator[str]:
    numeric = [all(map(_is_number, grid.column(at))) for at in range(len(grid.columns))]
    for line in _row_lines(grid.columns, widths, numeric):
        yield _GAP.join(line).rstrip(" ")
    yield _GAP.join(rule * width for width in widths)
    for row in grid.rows:
        tones = [tone_of(cell) for cell in row]
        for cells in _row_lines(row, widths, numeric):
            yield _GAP.join(map(paint, cells, tones)).rstrip(" ")


def _row_lines(
    row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]
) -> Iterator[list[str]]:
    """The cells of each line of a row, as wide as their columns."""
    folded = (_folded(cell, width) for cell, width in zip(row, widths, strict=True))
    for parts in zip_longest(*folded, fillvalue=""):
        yield list(map(_padded, parts, widths, numeric))


def _padded(text: str, width: int, is_number: bool) -> str:
    blanks = " " * (width - width_of(text))
    return blanks + plain(text) if is_number else plain(text) + blanks


def _is_number(cell: str) -> bool:
    first, *_ = plain(cell).replace(",", "").split(" ")
    if len(words_of(cell)) > _MOST_IN_NUMBER:
        return False
    try:
        float(first.replace("−", "-").removesuffix("%"))
    except ValueError:
        return cell in SILENT
    return True


def _note_lines(grid: _Grid, width: int) -> Iterator[str]:
    for mark, text in grid.notes:
        for line in wrapped(text, width, f"{mark} ", " " * (len(mark) + 1)):
            yield plain(line)


def fact_lines(
    title: str, facts: Sequence[tuple[str, str]], width: int, *, has_colours: bool = False
) -> Iterator[str]:
    """A title, and below it a line or more for each name and what is known of it."""
    paint: Paint = painted if has_colours else lambda text, _: text
    for line in wrapped(shown(title), width, "", _GAP) if title else []:
        yield paint(plain(line), "title")
    names = [shown(name) for name, _ in facts]
    room = max(map(width_of, names), default=0)
    for name, (_, text) in zip(names, facts, strict=True):
        yield from _entry_lines(name, shown(text), room, width, paint)


def _records(grid: _Grid, width: int, paint: Paint) -> Iterator[str]:
    """One row under the other, each column on a line of its own; empty cells are left out."""
    room = max(map(width_of, grid.columns))
    for number, row in enumerate(grid.rows):
        if number:
            yield ""
        for name, cell in zip(grid.columns, row, strict=True):
            if cell == "" and name != grid.columns[0]:
                continue
            yield from _entry_lines(name, cell, room, width, paint)


def _entry_lines(name: str, text: str, room: int, width: int, paint: Paint) -> Iterator[str]:
    """``name`` and ``text`` beside it, where that leaves half of the width; else below it."""
    if 2 * room > width:
        yield from map(plain, wrapped(name, width))
        yield from map(plain, wrapped(text, width, _GAP, _GAP))
        return
    lead = name + " " * (room - width_of(name)) + _GAP
    rest = " " * width_of(lead)
    if any(width_of(rest) + width_of(word) > width for word in words_of(text)):
        rest = _GAP
    first, *others = wrapped(text, width, lead, rest)
    is_beside = first.startswith(lead)
    first = lead + paint(plain(first[len(lead) :]), tone_of(text)) if is_beside else first
    yield plain(first).rstrip(" ")
    yield from map(plain, others)


__all__ = [
    "print_facts",
    "print_fitting",
    "print_table",
    "print_tables",
    "without_silent",
]


def print_tables(tables: Iterable[Table], ratios: str = ROOF_FACTORS) -> None:
    """Tables on stdout, each with a blank line behind it; no cell is cut.

    Tables with times "at best" are followed by ``ratios``, how much longer real times are.
    """
    can_draw = (sys.stdout.encoding or "").lower().startswith("utf")
    is_bound = False
    for table in tables:
        lines = table_lines(
            table,
            columns(sys.stdout),
            rule="─" if can_draw else "-",
            has_colours=has_colours(sys.stdout),
        )
        _print(lines)
        is_bound |= "at best" in table.title
        is_bound |= any("at best" in cell for row in table.rows for cell in row)
    if is_bound:
        _print(wrapped(f"at best: by the roofs; {ratios}", columns(sys.stdout)))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One table on stdout."""
    print_tables([Table(title, columns, rows)])


def print_fitting(
    table: Table, droppable: Sequence[str], where: str, *, few: int = MOST_TURNED
) -> None:
    """Print a table, and drop columns of ``droppable`` in this order until it fits.

    A line names the dropped columns and ``where`` they can be found. A table of ``few`` rows keeps
    all columns: its records can be shown side by side.
    """
    left: list[str] = []
    for name in droppable:
        if fits(table, columns(sys.stdout)) or len(table.rows) <= few:
            break
        if name in table.columns:
            table = table.without({name})
            left.append(name)
    print_tables([table])
    if left:
        _print(wrapped(f"Left out: {', '.join(left)}; {where}", columns(sys.stdout)))


def print_facts(title: str, facts: Sequence[tuple[str, str]]) -> None:
    """Names and what is known of each, one under the other, with a blank line behind them."""
    lines = fact_lines(title, facts, columns(sys.stdout), has_colours=has_colours(sys.stdout))
    _print(lines)


def _print(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in (*lines, "")))


def with_items(table: Table, item: str) -> Table:
    """The table with ``item``, such as token, in the names of its columns."""
    columns = [name.replace("item", item) for name in table.columns]
    return replace(table, columns=columns)


def without_silent(table: Table, droppable: Collection[str]) -> Table:
    """The table without those columns of ``droppable`` that say nothing in any row."""
    silent = {table.columns[at] for at in redundant_columns(table).silent}
    return table.without(silent.intersection(droppable))


def measured_source(source: str) -> str:
    """The source of the figures of a network, a program or a server.

    With a simulated board these run on this host, whose speed does not follow simulated clocks.
    """
    return "times of this host, simulated energy" if source == "simulated" else source
