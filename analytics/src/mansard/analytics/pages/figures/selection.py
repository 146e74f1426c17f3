"""Which rows of a figure a choice shows, and the words and tables that follow it.

The same rule serves the page as it opens (here) and every choice of its reader (report.js).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import altair as alt
import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.pages.figures.parameters import EVERY, Chosen, Name
from mansard.analytics.pages.figures.tables import MOST_TABLE_ROWS, Column, Table, tabulate

# equal: rows of the chosen value. all: every row where none is chosen, and always those without
# one. first: where no network is chosen, those of the first. main: where no precision is chosen,
# those of the one marked ``is_main``.
How: TypeAlias = Literal["equal", "all", "first", "main"]
MOST_NAMED = 3  # values of a column that a caption lists; of more it says how many
NONE_KNOWN = ": none are known"
_PLURALS = {"batch": "batch sizes"}


@dataclass(frozen=True, eq=False)
class Shown:
    """The rows of ``frame`` that a choice shows: each parameter in the order of ``by``.

    ``within``: the most that a column may be. ``first``: the network shown while none is chosen.
    """

    frame: pl.DataFrame
    by: Mapping[Name, How]
    first: str = EVERY
    within: Mapping[str, float] = field(default_factory=dict)

    def resolve(self, chosen: Chosen) -> tuple[Chosen, pl.DataFrame]:
        """``chosen`` with the network and the precision that stand in for none, and the rows."""
        rows = self.frame
        for name, how in self.by.items():
            value = getattr(chosen, name)
            if value == EVERY and how in {"first", "main"}:
                value = self._stand_in(name, rows)
                chosen = replace(chosen, **{name: value})
            if how == "all":
                either = (pl.col(name) == EVERY) | (pl.col(name) == value)
                rows = rows if value == EVERY else rows.filter(either)
            else:
                rows = rows.filter(pl.col(name) == value)
        for column, most in self.within.items():
            rows = rows.filter(pl.col(column) <= most)
        return chosen, rows

    def _stand_in(self, name: Name, rows: pl.DataFrame) -> str:
        there = rows.filter("is_main") if self.by[name] == "main" else rows
        values = sorted((rows if there.is_empty() else there)[name].unique().to_list())
        return self.first if self.first in values else str(values[0]) if values else EVERY

    def rule(self, rows: str) -> dict[str, Any]:
        """For report.js: this, with the name of the rows in the page's data."""
        return {
            "rows": rows,
            "by": dict(self.by),
            "first": self.first,
            "within": dict(self.within),
        }


def words(template: str, rows: pl.DataFrame, chosen: Chosen) -> str:
    """``template`` with each {column} as ``rows`` have it, or as it was chosen."""

    def said(match: re.Match[str]) -> str:
        name = match[1]
        values: list[Any] = []
        if name in rows.columns:
            values = rows[name].unique(maintain_order=True).drop_nulls().to_list()
        if len(values) > MOST_NAMED:
            return f"{len(values)} {_PLURALS.get(name, name + 's')}"
        texts = [display_name(str(value)) for value in values if value != EVERY]
        return " and ".join(texts) or _chosen_text(chosen, name)

    return re.sub(r"\{(\w+)\}", said, template)


def _chosen_text(chosen: Chosen, name: str) -> str:
    value = getattr(chosen, name, EVERY)
    return display_name(value) if value else f"any {name}"


def heading(text: str) -> alt.TitleParams:
    """A chart's title: ``text``, and what the chart shows now."""
    return alt.TitleParams(text=title_lines(f"'{text}, ' + heading"))


def title_lines(expression: str) -> alt.ExprRef:
    """A title by a Vega expression, in the lines that report.js breaks ``heading`` into."""
    return alt.ExprRef(f"split({expression}, '\\n')")


@dataclass(frozen=True, eq=False)
class LiveTable:
    """A table whose rows and caption follow the choice; its columns name fields of the rows."""

    name: str
    caption: str  # a template of ``words``
    columns: Sequence[Column]
    shown: Shown
    order: str = ""  # the column by which rows are sorted, the least first

    def at(self, chosen: Chosen) -> Table:
        """The table as ``chosen`` shows it."""
        own, rows = self.shown.resolve(chosen)
        if self.order:
            rows = rows.sort(self.order, nulls_last=True, maintain_order=True)
        caption = words(self.caption, rows, own) + ("" if len(rows) else NONE_KNOWN)
        if len(rows) > MOST_TABLE_ROWS:
            caption += f", the first {MOST_TABLE_ROWS} of {len(rows):,} rows"
        table = tabulate(caption, self.columns, rows.head(MOST_TABLE_ROWS).iter_rows(named=True))
        return replace(table, live=self.name)

    def script(self, rows: str) -> dict[str, Any]:
        """For report.js: how to write the table again."""
        return {
            "name": self.name,
            "caption": self.caption,
            "columns": [
                [each.field, each.form, each.title, each.is_numeric] for each in self.columns
            ],
            "order": self.order,
            "rule": self.shown.rule(rows),
        }
