"""The cells of an imported CSV file, as text and numbers, by the meaning of their columns.

Separators, byte order marks and quoting differ from tool to tool; none of them is guessed at
where it would change a number. Numbers that may mean two things are refused.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mansard.analytics.data.published.columns import FIELDS, KnownColumn, parse_precision_name
from mansard.analytics.data.published.origin import BOUNDS
from mansard.core.errors import InputError
from mansard.core.precision import PRECISIONS
from mansard.core.records import PublishedMode
from mansard.core.storage.files import read_whole
from mansard.core.units import format_frequency
from mansard.core.weight_formats import stored_weights

MOST_BYTES = 8 << 20  # published tables have kilobytes; more is a log, not a table
MOST_COLUMNS = 1000
LONGEST_CELL = 500  # characters
PANDAS_INDEX = "Unnamed: 0"  # a first column without a name, as pandas writes and calls it
_SEPARATORS = (",", ";", "\t", "|")
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class TextRow:
    """One line of a table: where it ends in the file, and its cells by column name.

    Readers of tools' files also give ``figures`` (see ``PublishedRun``) and timed ``layers``.
    """

    line: int
    cells: dict[str, str]
    figures: Mapping[str, float] = field(default_factory=dict)
    layers: Sequence[LayerRow] = ()


class LayerTensor(NamedTuple):
    """A tensor that a layer reads or writes; ``precision`` is empty for other types."""

    name: str
    dimensions: tuple[int, ...]
    precision: str

    @property
    def n_elements(self) -> int | None:
        """None where a dimension is open."""
        return math.prod(self.dimensions) if min(self.dimensions, default=0) >= 0 else None


@dataclass(frozen=True, kw_only=True)
class LayerRow:
    """One layer as a tool's file has it; what the file does not say is None or empty.

    ``n_weights``: the stored elements; ``weight_precision``: their precision.
    """

    name: str
    metadata: str = ""  # of TensorRT: the nodes that it came from
    is_copy: bool = False  # a reformat, as its type says
    op_type: str | None = None
    precision: str | None = None
    tactic: str | None = None
    mean_s: float | None = None
    median_s: float | None = None
    share: float | None = None
    runs: int | None = None
    reads: tuple[LayerTensor, ...] = ()
    writes: tuple[LayerTensor, ...] = ()
    n_weights: int | None = None
    weight_precision: str | None = None

    @property
    def time_s(self) -> float | None:
        """The median where the file has it, else the mean."""
        return self.median_s if self.median_s is not None else self.mean_s


@dataclass(frozen=True)
class TextTable:
    """A table as text. ``separator`` decides how a comma in a number is read.

    ``is_made``: a reader made it of a tool's file, so that it has no column that a user could name.
    """

    where: str
    separator: str
    columns: tuple[str, ...]
    rows: tuple[TextRow, ...]
    is_made: bool = False


def read_table(path: Path) -> TextTable:
    """The table in ``path``: a header line, then rows; empty lines and lines with # are skipped.

    Raises InputError for what is no such table, StorageError where it cannot be read.
    """
    return parse_table(read_whole(path, most_bytes=MOST_BYTES), str(path))


def parse_table(data: bytes, where: str) -> TextTable:
    """The table in ``data``, read from ``where``; raises InputError."""
    text = _decode(data, where)
    lines = text.splitlines()
    first = next((line for line in lines if line.strip() and not line.startswith("#")), None)
    if first is None:
        raise InputError("is empty", where=where, fix="give a CSV table with a header line")
    separator = max(_SEPARATORS, key=first.count)
    if separator not in first:
        raise InputError(
            f"its first line is one column, {first[:80]!r}",
            where=where,
            fix="give a CSV table with a header line; columns are separated by , ; tab or |",
        )
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    columns: tuple[str, ...] = ()
    rows: list[TextRow] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
                continue
            if not columns:
                columns = _header(cells, where)
            else:
                rows.append(_row(cells, columns, reader.line_num, where))
    except csv.Error as error:
        raise InputError(
            f"cannot read line {reader.line_num}: {error}", where=where, fix="mend its quotes"
        ) from error
    if not rows:
        raise InputError("has a header and no rows", where=where, fix="give a table with rows")
    return TextTable(where, separator, columns, tuple(rows))


def _decode(data: bytes, where: str) -> str:
    if len(data) > MOST_BYTES:
        raise InputError(
            f"has {len(data):,} bytes, more than the {MOST_BYTES:,} that a table may have",
            where=where,
            fix="import a summary of it",
        )
    name, encoding = ("UTF-8", "utf-8-sig")
    if data.startswith(_WIDE_MARKS):
        name, encoding = ("UTF-16", "utf-16")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            f"is not {name} text: {error.reason} at byte {error.start}",
            where=where,
            fix="save it as UTF-8",
        ) from error
    if "\0" in text:
        raise InputError("is not text", where=where, fix="give a CSV table")
    return text


def _header(cells: list[str], where: str) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in cells)
    while names and not names[-1]:  # a separator at the end of each line
        names = names[:-1]
    if len(names) > 1 and not names[0] and PANDAS_INDEX not in names:
        names = (PANDAS_INDEX, *names[1:])
    if len(names) > MOST_COLUMNS:
        raise InputError(
            f"its header has {len(names):,} columns, more than the {MOST_COLUMNS:,} that a table "
            "may have",
            where=where,
            fix="keep the columns of modes, networks, times and rates",
        )
    twice = sorted(name for name, count in Counter(names).items() if count > 1 or not name)
    if twice:
        raise InputError(
            f"its header has the column {twice[0]!r} more than once"
            if twice[0]
            else "its header has a column without a name",
            where=where,
            fix="give every column a name of its own",
        )
    return names


def _row(cells: list[str], columns: tuple[str, ...], line: int, where: str) -> TextRow:
    stripped = [cell.strip() for cell in cells]
    while len(stripped) > len(columns) and not stripped[-1]:
        stripped.pop()
    if len(stripped) != len(columns):
        raise InputError(
            f"line {line} has {len(stripped)} cells, its header {len(columns)}",
            where=where,
            fix="quote cells that hold a separator",
        )
    long = next((cell for cell in stripped if len(cell) > LONGEST_CELL), None)
    if long is not None:
        raise InputError(
            f"line {line} has a cell of {len(long):,} characters", where=where, fix="shorten it"
        )
    return TextRow(line, dict(zip(columns, stripped, strict=True)))


EMPTY = frozenset({"", "-", "–", "—", "n/a", "na", "none", "null"})
LARGEST_COUNT = 2**31 - 1
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:([,' \u00a0\u202f])\d{3})(?:\1\d{3})*(\.\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def parse_positive(text: str, separator: str, where: str, column: str) -> float | None:
    """A number above 0, or None where the cell is empty (also "-" and "n/a").

    ``1,234.5`` has thousands separated. Where the table's ``separator`` is a semicolon a
    comma may be the decimal one: then ``1,5`` is 1.5, and ``1,234`` is refused, since it
    may be either. Raises InputError for anything else, for 0, below 0, NaN and infinity.
    """
    if text.casefold() in EMPTY:
        return None
    value = _value(text, separator, where, column)
    if not math.isfinite(value) or value <= 0:
        raise InputError(
            f"{column} is {text}, and must be above 0",
            where=where,
            fix="leave the cell empty where it is unknown",
        )
    return value


def parse_count(text: str, separator: str, where: str, column: str) -> int | None:
    """A whole number above 0, or None where the cell is empty; raises InputError."""
    value = parse_positive(text, separator, where, column)
    if value is None:
        return None
    if value != int(value) or value > LARGEST_COUNT:
        raise InputError(
            f"{column} is {text}, no whole number of things", where=where, fix="correct it"
        )
    return int(value)


def _value(text: str, separator: str, where: str, column: str) -> float:
    if text.casefold().lstrip("+-") in {"nan", "inf", "infinity"}:
        return math.nan
    if _PLAIN.fullmatch(text):
        return float(text)
    by_thousands = _THOUSANDS.fullmatch(text)
    is_decimal = separator == ";" and _DECIMAL_COMMA.fullmatch(text) is not None
    if by_thousands and not (is_decimal and text.count(",") == 1):
        return float(re.sub(r"[,' \u00a0\u202f]", "", text))
    if is_decimal and not by_thousands:
        return float(text.replace(",", "."))
    what = "may be read in two ways" if by_thousands else "is not a number"
    raise InputError(f"{column} is {text!r}, which {what}", where=where, fix="write it as 1234.5")


LEAST, MOST = 1e-15, 1e24  # of any quantity in SI units: a slip of the keyboard is beyond
LONGEST_NAME = 200  # of a mode or a network, in characters
NOT_SAID = "the file does not say it"
_NO_COLUMN = "the table has no such column"
_EMPTY = "the table leaves it empty"


@dataclass(frozen=True)
class Cells:
    """The cells of one row; numbers come out in SI units, an empty cell as None."""

    table: TextTable
    columns: tuple[KnownColumn, ...]
    row: TextRow

    @property
    def where(self) -> str:
        """The file and the line, for messages."""
        return f"{self.table.where}, line {self.row.line}"

    def columns_of(self, field: str) -> list[KnownColumn]:
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

    def precision(self) -> str | None:
        """The precision as all tables call it, None where the cell is empty; raises InputError.

        Of a storage format of weights it is the precision that their products run in.
        """
        text = self.text("precision")
        if text is None or (parsed := parse_precision_name(text)) is not None:
            return None if text is None else parsed
        if (weights := stored_weights(text)) is None:
            raise InputError(
                f"unknown precision {text!r}",
                where=self.where,
                fix=f"use {', '.join(PRECISIONS)}; or a format of weights: Q4_K_M, IQ2_XXS, "
                "nvfp4, mxfp4, AWQ, GPTQ, …",
            )
        return weights.main.compute

    def weights(self) -> str:
        """The storage format that the precision names; "" where it is a plain precision."""
        text = self.text("precision")
        if text is None or parse_precision_name(text) is not None:
            return ""
        weights = stored_weights(text)
        return "" if weights is None else weights.name

    def needed(self, field: str) -> str:
        """A cell that must not be empty; raises InputError."""
        text = self.text(field)
        if text is None:
            has = self.columns_of(field)
            what = f"{has[0].name} is empty" if has else f"the table has no column for the {field}"
            if self.table.is_made:
                raise InputError(
                    f"the file does not say the {field}",
                    where=self.table.where,
                    fix=f"say --fixed {field}=VALUE",
                )
            raise InputError(what, where=self.where, fix=_how_to_give(field))
        return text

    def amount(self, column: KnownColumn) -> float | None:
        """A number above 0 in SI units; raises InputError."""
        text = self.row.cells[column.name]
        value = parse_positive(text, self.table.separator, self.where, column.name)
        if value is None:
            return None
        bound = BOUNDS[FIELDS[column.field] or "time"]
        if not bound.holds(value * column.factor):
            raise InputError(
                f"{column.name} is {text}, which is impossible: {bound.text}",
                where=self.where,
                fix="correct it, or the unit in the column's name",
            )
        return value * column.factor

    def number(self, field: str) -> float | None:
        """The number of the one column of ``field``, in SI units; raises InputError."""
        columns = self.columns_of(field)
        return self.amount(columns[0]) if columns else None

    def deviation(self) -> float | None:
        """The standard deviation of the time in seconds; None where it is 0, which is rounding."""
        for column in self.columns_of("deviation"):
            if re.fullmatch(r"[+-]?0*[.,]?0*", self.row.cells[column.name]):
                return None
            return self.amount(column)
        return None

    def count(self, field: str) -> int | None:
        """A whole number above 0; raises InputError."""
        for column in self.columns_of(field):
            text = self.row.cells[column.name]
            return parse_count(text, self.table.separator, self.where, column.name)
        return None

    def why_not(self, field: str) -> str:
        """Why ``field`` is None."""
        if self.table.is_made:
            return NOT_SAID
        return _EMPTY if self.columns_of(field) else _NO_COLUMN

    def reasons(self, values: Mapping[str, object], fields: Mapping[str, str]) -> dict[str, str]:
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
