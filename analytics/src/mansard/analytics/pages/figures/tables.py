"""Tables, their columns, and the texts of their cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from mansard.analytics.data.names import display_name, short_devices
from mansard.analytics.data.quantities import (
    MIXED,
    NBSP,
    UNKNOWN,
    capacity,
    digits,
    limit_word,
    percent,
    quantity,
)
from mansard.analytics.models.roofs.ceilings import Ceiling
from mansard.core.table import Table, redundant_columns

MOST_TABLE_ROWS = 200  # of the table under a chart
LEAST_COLUMNS = 2  # of a table that loses columns
FIRST_ROWS = ", the first {few} of {all} rows"
IN_EVERY_ROW = "; in every row: {same}"
_DASH = "–"


class Bar(str):
    """The text of a cell with a bar beside it; ``share``: of the longest bar."""

    share: float

    def __new__(cls, text: str, share: float) -> Bar:
        cell = super().__new__(cls, text)
        cell.share = share
        return cell


@dataclass(frozen=True)
class Column:
    """A title, the text of a row's cell, and whether the cells stand at the right."""

    title: str
    cell: Callable[[Any], str]
    is_numeric: bool = False
    field: str = ""  # of the row; "" where the cell is made of several
    form: str = ""  # of a number; "" where the field is a text
    per: float = 1.0  # of the field's unit: that of the title

    def script(self) -> dict[str, Any]:
        """For report.js: the field, its title, and the options of Intl.NumberFormat."""
        column = {"field": self.field, "title": self.title, "is_numeric": self.is_numeric}
        column["within_sentence"] = within_sentence(self.title)
        if self.form:
            n_digits = re.search(r"\.(\d+)", self.form)
            column["format"] = {
                "maximumSignificantDigits": int(n_digits[1]) if n_digits else 15,
                "signDisplay": "always" if self.form.startswith("+") else "auto",
            }
            column["per"] = self.per
        return column

    @staticmethod
    def text(title: str, name: str, *, is_numeric: bool = False) -> Column:
        """The text ``row[name]`` as it stands, or that it is unknown."""
        return Column(title, lambda row: str(_or_unknown(row[name])), is_numeric, name)

    @staticmethod
    def name(title: str, name: str) -> Column:
        """A name from outside, made readable."""
        return Column(title, lambda row: display_name(row[name]), field=name)

    @staticmethod
    def number(title: str, name: str, form: str = ",.4g", per: float = 1.0) -> Column:
        """The number ``row[name]`` over ``per`` in the format ``form``, or that it is unknown."""
        return Column(
            title,
            lambda row: (
                UNKNOWN
                if row[name] is None
                else _formatted(row[name] if per == 1.0 else row[name] / per, form)
            ),
            is_numeric=True,
            field=name,
            form=form,
            per=per,
        )


def device_columns(rows: Iterable[Any]) -> list[Column]:
    """The column that says which board each of ``rows`` is of; none where all are of one."""
    names = short_devices(row.device for row in rows)
    return [Column("Device", lambda row: names[row.device])] if len(names) > 1 else []


def tabulate(title: str, columns: Sequence[Column], rows: Iterable[Any]) -> Table:
    """A table with a line for each of ``rows``."""
    return Table(
        title,
        [column.title for column in columns],
        [[column.cell(row) for column in columns] for row in rows],
        frozenset(at for at, column in enumerate(columns) if column.is_numeric),
    )


def shortened(table: Table) -> Table:
    """``table`` with at most MOST_TABLE_ROWS rows; its title says how many there were."""
    n_rows = len(table.rows)
    if n_rows <= MOST_TABLE_ROWS:
        return table
    title = table.title + FIRST_ROWS.format(few=MOST_TABLE_ROWS, all=f"{n_rows:,}")
    return msgspec.structs.replace(table, title=title, rows=table.rows[:MOST_TABLE_ROWS])


def condensed(table: Table, *, tells_same: bool = True) -> Table:
    """``table`` without the columns that say nothing or, in every row, what its title then says.

    Of a single row nothing is the same, and two columns stay. ``tells_same``: else only columns
    without a word go. report.js does the same to the rows that a reader chooses.
    """
    if not table.rows:
        return table
    redundant = redundant_columns(table)
    several = tells_same and len(table.rows) > 1
    gone = sorted(redundant.silent | redundant.same if several else redundant.silent)
    gone = gone[: max(0, len(table.columns) - LEAST_COLUMNS)]
    repeated = [at for at in gone if at not in redundant.empty] if tells_same else []
    same = ", ".join(f"{within_sentence(table.columns[at])} {table.rows[0][at]}" for at in repeated)
    title = table.title + (IN_EVERY_ROW.format(same=same) if same else "")
    shown = table.with_only([at for at in range(len(table.columns)) if at not in gone])
    return msgspec.structs.replace(shown, title=title)


def within_sentence(title: str) -> str:
    """A column's title within a sentence: ``batch``, but ``GFLOP``."""
    title = title.replace(", ", " in ")
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def scaled(value: float | None, unit: float, n_digits: int = 4) -> str:
    """``value`` in multiples of ``unit``, or that it is unknown."""
    return UNKNOWN if value is None else digits(value / unit, n_digits)


def ceiling_text(ceiling: Ceiling) -> str:
    """A ceiling in words: "16.0 ± 0.1 GB/s (read)"."""
    text = quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high)
    return f"{text} ({ceiling.kernel})" if ceiling.unit == "B/s" and ceiling.kernel else text


def sets_text(ceiling: Ceiling) -> str:
    """The working sets that a bandwidth rests on: "8.25 MiB", "1 MiB to 2 MiB"."""
    if ceiling.family != "stream" or ceiling.sets_bytes is None:
        return _DASH
    return " to ".join(dict.fromkeys(capacity(n_bytes) for n_bytes in ceiling.sets_bytes))


def value_text(ceiling: Ceiling) -> str:
    """A ceiling without its interval: "16.00 GB/s"."""
    return quantity(ceiling.value, ceiling.unit)


def batch_text(batch: object) -> str:
    """A batch size, or that the model has none."""
    return "none" if batch is None else str(batch)


def bound_text(bound: str | None, share: float | None) -> str:
    """What bounds a network, and for which share of its time if that is known."""
    if bound is None:
        return UNKNOWN
    if share is None:
        return bound
    text = f"{bound}{NBSP}{percent(share)}"
    return text if limit_word(bound, share) == bound else f"{MIXED}, {text}"


def clock_text(clock_hz: float | None) -> str:
    """A clock in MHz, four digits."""
    return UNKNOWN if clock_hz is None else f"{scaled(clock_hz, 1e6)}{NBSP}MHz"


def percent_fine(share: float | None) -> str:
    """A share of a limit in percent with one decimal: 97.4 and 97.6 differ."""
    return UNKNOWN if share is None else f"{100 * share:.1f}{NBSP}%"


def _formatted(value: float, form: str) -> str:
    """``value`` in ``form``, without an exponent: 13,520 and not 1.352e+04."""
    text = format(value, form)
    if "e" not in text:
        return text
    sign = "+" if form.startswith("+") else ""
    return format(Decimal(text.replace(",", "")), f"{sign},f")


def _or_unknown(value: object) -> object:
    return UNKNOWN if value is None or value == "" else value
