"""One row of a table, read by what its columns are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mansard.analytics.published.columns import Column
from mansard.analytics.published.csv_text import TextRow, TextTable
from mansard.analytics.published.numbers import EMPTY, parse_count, parse_positive
from mansard.core.errors import InputError
from mansard.core.records import PublishedMode
from mansard.core.units import format_frequency

LEAST, MOST = 1e-15, 1e24  # of any quantity in SI units: a slip of the keyboard is beyond
LONGEST_NAME = 200  # of a mode or a network, in characters
_NO_COLUMN = "the table has no such column"
_EMPTY = "the table leaves it empty"


@dataclass(frozen=True)
class Cells:
    """The cells of one row; numbers come out in SI units, an empty cell as None."""

    table: TextTable
    columns: tuple[Column, ...]
    row: TextRow

    @property
    def where(self) -> str:
        """The file and the line, for messages."""
        return f"{self.table.where}, line {self.row.line}"

    def columns_of(self, field: str) -> list[Column]:
        """The columns of ``field``; wide tables have several of a peak."""
        return [column for column in self.columns if column.field == field]

    def text(self, field: str) -> str | None:
        """A cell as text, None where it is empty or has no column; raises InputError."""
        for column in self.columns_of(field):
            cell = self.row.cells[column.name]
            if cell.casefold() in EMPTY:
                return None
            if len(cell) > LONGEST_NAME and field != "remark":
                raise InputError(
                    f"{column.name} has {len(cell)} characters", where=self.where, fix="shorten it"
                )
            return cell
        return None

    def needed(self, field: str) -> str:
        """A cell that must hold something; raises InputError."""
        found = self.text(field)
        if found is None:
            has = self.columns_of(field)
            what = f"{has[0].name} is empty" if has else f"the table has no column for the {field}"
            raise InputError(what, where=self.where, fix=_how_to_give(field))
        return found

    def amount(self, column: Column) -> float | None:
        """A number above 0 in SI units; raises InputError."""
        text = self.row.cells[column.name]
        value = parse_positive(text, self.table.separator, self.where, column.name)
        if value is None:
            return None
        if not LEAST <= value * column.factor <= MOST:
            raise InputError(
                f"{column.name} is {text}, which nothing real is", where=self.where, fix="mend it"
            )
        return value * column.factor

    def number(self, field: str) -> float | None:
        """The number of the one column of ``field``, in SI units; raises InputError."""
        columns = self.columns_of(field)
        return self.amount(columns[0]) if columns else None

    def count(self, field: str) -> int | None:
        """A whole number above 0; raises InputError."""
        for column in self.columns_of(field):
            text = self.row.cells[column.name]
            return parse_count(text, self.table.separator, self.where, column.name)
        return None

    def why_not(self, field: str) -> str:
        """Why ``field`` is None."""
        return _EMPTY if self.columns_of(field) else _NO_COLUMN

    def reasons(self, values: dict[str, object], fields: dict[str, str]) -> dict[str, str]:
        """Why each of ``values`` that is None is so; ``fields`` names the columns' fields."""
        return {name: self.why_not(fields[name]) for name, value in values.items() if value is None}

    def mode(self) -> PublishedMode:
        """The power mode of the row, with its clocks; raises InputError."""
        values: dict[str, object] = {
            "gpu_hz": self.number("gpu"),
            "memory_hz": self.number("emc"),
            "cpu_hz": self.number("cpu"),
            "n_sms": self.count("sms"),
            "n_cpus": self.count("cpus"),
            "power_limit_w": self.number("power_limit"),
        }
        fields = ("gpu", "emc", "cpu", "sms", "cpus", "power_limit")
        unknown = self.reasons(values, dict(zip(values, fields, strict=True)))
        name = self.text("mode") if self.columns_of("mode") else _name_of(values)
        name = name or self.needed("mode")
        return PublishedMode(name=name, **values, unknown=unknown)  # type: ignore[arg-type]


def _name_of(values: Mapping[str, object]) -> str | None:
    """A mode by its clocks, as ``core.power_mode`` names one, where a table names none."""
    clocks = (("gpu", "gpu_hz"), ("emc", "memory_hz"), ("cpu", "cpu_hz"))
    parts = [
        f"{short}{format_frequency(float(str(values[name])))}"
        for short, name in clocks
        if values[name] is not None
    ]
    parts += [] if values["n_cpus"] is None else [f"{values['n_cpus']}c"]
    return "_".join(parts) or None


def check_modes(modes: Sequence[tuple[int, PublishedMode]], where: str) -> None:
    """Raises InputError where two rows (with their lines) disagree about a mode's clocks."""
    seen: dict[str, tuple[int, PublishedMode]] = {}
    for line, mode in modes:
        first, known = seen.setdefault(mode.name, (line, mode))
        if known != mode:
            raise InputError(
                f"lines {first} and {line} give mode {mode.name!r} different clocks",
                where=where,
                fix="give modes with different clocks different names",
            )


def _how_to_give(field: str) -> str:
    return f"name its column with --column {field}=NAME, or say --fixed {field}=VALUE for all rows"
