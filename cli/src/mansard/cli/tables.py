"""Tables on stdout.

Rich draws tables too, but its import alone takes a fifth of the time of scoring a small network;
it is left to the progress bar, which no quick command shows.
"""

from __future__ import annotations

import re
import shutil
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest

from mansard.core.text import printable

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]  # title, columns, rows
_LONGEST_WORD = 16  # columns that a word may hold while others are folded
_WIDTH = 160  # columns of a table that is not for a terminal
_LINES = ("┌─┬─┐", "│", "├─┼─┤", "└─┴─┘")
_ASCII_LINES = ("+-+-+", "|", "+-+-+", "+-+-+")


def print_tables(tables: Iterable[Table]) -> None:
    """Tables on stdout, without the no-break spaces between numbers and units."""
    for title, columns, rows in tables:
        print_table(plain(title), columns, [tuple(map(plain, row)) for row in rows])


def without_silent(table: Table, droppable: Collection[str]) -> Table:
    """The table without those columns of ``droppable`` that say nothing in any row."""
    _, columns, rows = table
    silent = [all(row[at] in {"", "–", "unknown"} for row in rows) for at in range(len(columns))]
    names = [name for name, is_silent in zip(columns, silent, strict=True) if is_silent]
    return without(table, {*names} & {*droppable})


def without_shared(table: Table, shared: Sequence[str]) -> Table:
    """The table without those columns of ``shared`` that say the same in every row; its title does
    instead: ``Networks; all fp32``."""
    title, columns, rows = table
    alike = {
        name: rows[0][at]
        for at, name in enumerate(columns)
        if name in shared and len({row[at] for row in rows}) == 1
    }
    whole = without(table, alike)
    return (f"{title}; all {', '.join(alike.values())}" if alike else title, *whole[1:])


def without(table: Table, names: Collection[str]) -> Table:
    """The table without the columns ``names``."""
    title, columns, rows = table
    kept = [at for at, name in enumerate(columns) if name not in names]
    return title, [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def plain(text: str) -> str:
    """``text`` with ordinary spaces for no-break ones."""
    return text.replace("\u00a0", " ")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; every cell is shown as text.

    Columns of numbers are set flush right. The widest columns are folded until the table fits the
    terminal, or 160 columns elsewhere; nothing is cut off.
    """
    can_draw = (sys.stdout.encoding or "").lower().startswith("utf")
    top, bar, middle, bottom = _LINES if can_draw else _ASCII_LINES
    cells = [[printable(cell) for cell in row] for row in (columns, *rows)]
    widths = _widths(cells)
    numeric = [all(map(_is_number, column[1:])) for column in zip(*cells, strict=True)]

    def rule(line: str) -> str:
        return line[0] + line[2].join(line[1] * (width + 2) for width in widths) + line[4] + "\n"

    sys.stdout.write(f"{printable(title)}\n{rule(top)}")
    for number, row in enumerate(cells):
        folded = (_fold(cell, width) for cell, width in zip(row, widths, strict=True))
        for parts in zip_longest(*folded, fillvalue=""):
            padded = map(_padded, parts, widths, numeric)
            sys.stdout.write(f"{bar} {f' {bar} '.join(padded)} {bar}\n")
        if number == 0:
            sys.stdout.write(rule(middle))
    sys.stdout.write(rule(bottom))


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    """The widths of columns so that the table fits: the widest are cut to one width.

    Words, such as numbers, are broken only where the table does not fit without, the longest first.
    """
    columns = list(zip(*cells, strict=True))
    widths = [max(map(_width, column)) for column in columns]
    words = [
        min(_LONGEST_WORD, max(_width(word) for cell in column for word in cell.split(" ")))
        for column in columns
    ]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH
    room -= 3 * len(widths) + 1  # a space on both sides of each column, and the lines between
    least = _cut(words, [2] * len(words), room)  # 2: a wide character
    return _cut(widths, least, room)


def _cut(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """``widths``, the widest cut to one width so that all fit, but none below its ``least``."""
    most = max(widths)
    found = list(widths)
    while most > 2 and sum(found) > room:
        most -= 1
        found = [min(width, max(most, low)) for width, low in zip(widths, least, strict=True)]
    return found


def _fold(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` columns: broken at blanks, and inside long words."""
    if _width(text) <= width:
        return [text]
    lines, line, room = [], "", width
    for word in re.findall(r"\S+|\s+", text):
        if line and room < _width(word) <= width:
            lines.append(line)
            line, room = "", width
            if word.isspace():
                continue
        for character in word:
            room -= _width(character)
            if room < 0:
                lines.append(line)
                line, room = "", width - _width(character)
            line += character
    return [*lines, line]


def _padded(text: str, width: int, is_number: bool) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if is_number else text + blanks


def _width(text: str) -> int:
    """Columns that a terminal needs for ``text``: East Asian characters take two."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _is_number(cell: str) -> bool:
    first = cell.partition(" ")[0].replace(",", "")
    try:
        float(first)
    except ValueError:
        return cell in {"–", "unknown"}
    return True
