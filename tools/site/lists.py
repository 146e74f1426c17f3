"""Tables of words are lists on a narrow page.

A page of 420 pixels has room for one column of sentences. Tables of two to four columns are
marked here, and ``docs/assets/site.css`` draws each of their rows as a block there: the first cell
in bold, the others below it, labelled where there are several. Tables of figures stay tables, which
scroll in a box of their own.
"""

from __future__ import annotations

import re
from html import escape, unescape

_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_HEADS = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr>(?:(?!<tr>).)*?<td.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<td\b([^>]*)>(.*?)</td>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_FIGURE_WIDTH = 16  # characters: a longer cell with a digit is a sentence


def with_lists(html: str) -> str:
    """``html`` of a page with a mark on each table that a narrow page shows as a list."""
    return _TABLE.sub(lambda table: _marked(table[0]), html)


def _marked(table: str) -> str:
    heads = [_text(head) for head in _HEADS.findall(table)]
    rows = _ROW.findall(table)
    if not 2 <= len(heads) <= 4 or _is_of_figures(rows):
        return table
    if len(heads) > 2:
        table = _ROW.sub(lambda row: _labelled(row[0], heads), table)
    return table.replace("<table>", "<table data-list>", 1)


def _is_of_figures(rows: list[str]) -> bool:
    """Whether most cells after the first of each row are numbers with their units."""
    cells = [_text(cell) for row in rows for _, cell in _CELL.findall(row)[1:]]
    n_figures = sum(
        len(cell) <= _FIGURE_WIDTH and any(sign.isdigit() for sign in cell) for cell in cells
    )
    return 2 * n_figures > len(cells)


def _labelled(row: str, heads: list[str]) -> str:
    """A row whose cells, but for the first, name their column."""
    names = iter(["", *heads[1:]])

    def cell(match: re.Match[str]) -> str:
        name = next(names, "")
        label = f' data-label="{escape(name)}"' if name else ""
        return f"<td{match[1]}{label}>{match[2]}</td>"

    return _CELL.sub(cell, row)


def _text(html: str) -> str:
    return " ".join(unescape(_TAG.sub("", html)).split())
