"""Readers of tools' files and their results; rows of CSV files, and traces of power.

A reader turns a file into a table of the fields that ``columns`` knows, so that what a file does
not say comes from ``--fixed`` as for any table, and every number meets the same checks.

A CSV file that a tool wrote is longer than a table, and perhaps cut at its end. A trace of power
has the samples of the rails that make a board's total, and the energies of windows.
"""

from __future__ import annotations

import csv
import io
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import msgspec

from mansard.analytics.data.published.cells import LEAST, LONGEST_NAME, TextRow, TextTable
from mansard.core.errors import InputError
from mansard.core.processes.line_channel import DECODE_ERRORS

_MOST_GAP = 0.5  # of a window may lie between two samples
_USUAL_GAPS = 3  # steps of the log; a longer gap is a pause of the logger

Points = Sequence[tuple[float, float]]  # seconds and watts


@dataclass(frozen=True)
class PowerTrace:
    """Samples by rail, in the order of their times; the total is the sum of all rails."""

    rails: Mapping[str, Points]

    @property
    def span_s(self) -> tuple[float, float]:
        """From when to when every rail has samples."""
        return (
            max(points[0][0] for points in self.rails.values()),
            min(points[-1][0] for points in self.rails.values()),
        )

    def energy_j(self, start_s: float, end_s: float) -> float | None:
        """The energy of all rails from ``start_s`` to ``end_s``; None if samples do not cover it.

        Trapezoids, with the power at both ends interpolated between the samples around them.
        """
        energies = [_energy_j(points, start_s, end_s) for points in self.rails.values()]
        known = [energy for energy in energies if energy is not None]
        return sum(known) if len(known) == len(energies) else None


def _energy_j(points: Points, start_s: float, end_s: float) -> float | None:
    if len(points) < 2 or not points[0][0] <= start_s < end_s <= points[-1][0]:
        return None
    times = [time_s for time_s, _ in points]
    first, last = bisect_right(times, start_s), bisect_left(times, end_s)
    inside = [
        (start_s, _power_at(points, first, start_s)),
        *points[first:last],
        (end_s, _power_at(points, max(last, 1), end_s)),
    ]
    around = times[max(first - 1, 0) : last + 1]
    longest = max(later - earlier for earlier, later in pairwise(around))
    usual = (times[-1] - times[0]) / (len(times) - 1)
    if longest > max(_MOST_GAP * (end_s - start_s), _USUAL_GAPS * usual):
        return None
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(inside))


def _power_at(points: Points, after: int, time_s: float) -> float:
    """Between the samples before and at ``after``."""
    (t0, w0), (t1, w1) = points[after - 1], points[min(after, len(points) - 1)]
    return w0 if t1 == t0 else w0 + (w1 - w0) * (time_s - t0) / (t1 - t0)


@dataclass(frozen=True)
class CsvRow:
    """One line: where it ends, and its cells by column name."""

    line: int
    cells: dict[str, str]


def header_of(head: str) -> list[str]:
    """The names in the first line of a file."""
    first = head.split("\n", 1)[0]
    return [name.strip().strip('"') for name in first.split(",")]


def read_csv(source: ToolFile, tool: str, *, is_log: bool = True) -> Iterator[CsvRow]:
    """All rows; raises InputError with the line.

    ``is_log``: the tool ends each line. A last one without its end may be cut in a number, and is
    left out.
    """
    text = source.text
    if is_log:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                _check_header(header, source)
            elif len(cells) == len(header):
                stripped = [cell.strip() for cell in cells]
                yield CsvRow(reader.line_num, dict(zip(header, stripped, strict=True)))
            else:
                raise InputError(
                    f"line {reader.line_num} has {len(cells)} cells, its header {len(header)}",
                    where=source.where,
                    fix=f"give it as {tool} wrote it",
                )
    except csv.Error as error:
        raise InputError(
            f"cannot read line {reader.line_num}: {error}",
            where=source.where,
            fix=f"give it as {tool} wrote it",
        ) from error


def _check_header(header: list[str], source: ToolFile) -> None:
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise InputError(
            f"its header has the column {twice[0]!r} more than once",
            where=source.where,
            fix="give every column a name of its own",
        )


def number(row: CsvRow, name: str, source: ToolFile) -> float | None:
    """A cell as a number; None where it is empty or absent. Raises InputError with the line."""
    text = row.cells.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f"line {row.line}: {name} is {text[:40]!r}, which is not a number",
            where=source.where,
            fix="remove the row",
        )
    return value


MOST_TOOL_BYTES = 64 << 20  # of times, logs of a build and logs over time
MOST_USUAL_BYTES = 16 << 20  # of any other file of a tool's; the longest known have 1 MB
MOST_RUNS = 20_000  # of one file
MOST_LAYERS = 50_000
HEAD_BYTES = 64 << 10  # what a reader is recognised by
_SEPARATOR = ","  # of the tables that readers make: a comma is never a decimal one


@dataclass(frozen=True)
class ToolFile:
    """The bytes of a file, and where it is."""

    where: str
    data: bytes

    @property
    def head(self) -> str:
        """The first 64 KiB as text."""
        return self.data[:HEAD_BYTES].decode("utf-8", "replace").removeprefix("\ufeff")

    @property
    def text(self) -> str:
        """All of it; raises InputError where it is no UTF-8."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"is not UTF-8 text: {error.reason} at byte {error.start}",
                where=self.where,
                fix="export it again",
            ) from error


@dataclass(frozen=True)
class ToolReading:
    """The content of a file. ``rows``: one for each run of a network; ``notes``: a line each.

    ``says``: of a file without a run or a layer, what it says of the others of its engine.
    ``trace``: samples of power, from which the energies of windows in a file beside it are made.
    """

    rows: Sequence[TextRow] = ()
    notes: Sequence[str] = ()
    says: Mapping[str, str] = field(default_factory=dict)
    trace: PowerTrace | None = None
    trace_rule: str = ""  # which rails its total adds


@dataclass(frozen=True)
class Reader:
    """How one kind of file is recognised by its content, and read.

    ``recognise`` takes the first 64 KiB as text. ``read`` raises InputError.
    """

    name: str
    recognise: Callable[[str], bool]
    read: Callable[[ToolFile], ToolReading]
    most_bytes: int = MOST_USUAL_BYTES

    def read_source(self, source: ToolFile) -> ToolReading:
        """``read``, after a look at the file's length; raises InputError."""
        if len(source.data) > self.most_bytes:
            raise InputError(
                f"has {len(source.data) >> 20} MiB, more than the {self.most_bytes >> 20} that "
                f"a file of {self.name} may have",
                where=source.where,
                fix="export less at once",
            )
        return self.read(source)


Item = TypeVar("Item")


def at_most(items: Iterable[Item], most: int, what: str, source: ToolFile) -> Iterator[Item]:
    """The items as they come; raises InputError at the first above ``most``."""
    for number, item in enumerate(items):
        if number == most:
            raise InputError(f"holds more than {most:,} {what}", where=source.where, fix="split it")
        yield item


def as_table(where: str, rows: Sequence[TextRow]) -> TextTable:
    """The rows as a table: a column for each field that any of them has."""
    columns = tuple(dict.fromkeys(name for row in rows for name in row.cells))
    whole = tuple(
        TextRow(
            row.line, {name: row.cells.get(name, "") for name in columns}, row.figures, row.layers
        )
        for row in rows
    )
    return TextTable(where, _SEPARATOR, columns, whole, is_made=True)


def cells(**fields: str | float | None) -> dict[str, str]:
    """Cells of the fields that are known; numbers as they are, to the last digit."""
    return {
        name: value if isinstance(value, str) else repr(value)
        for name, value in fields.items()
        if value is not None and value != ""
    }


def seconds_of_ms(milliseconds: float | None) -> float | None:
    """Milliseconds, as trtexec prints them, in seconds."""
    return None if milliseconds is None else milliseconds / 1e3


def known(**figures: float | None) -> dict[str, float]:
    """The figures that are known and above 0: a 0 of a tool is what it did not time.

    A deviation of less than any quantity can have is rounding, and is 0 as well.
    """
    return {name: value for name, value in figures.items() if value is not None and value >= LEAST}


Parsed = TypeVar("Parsed")


def parse_json(source: ToolFile, kind: type[Parsed], tool: str) -> Parsed:
    """The file as ``kind``; other fields are skipped. Raises InputError with the place."""
    try:
        return msgspec.json.decode(source.data.removeprefix(b"\xef\xbb\xbf"), type=kind)
    except DECODE_ERRORS as error:
        raise InputError(
            f"is not a whole file of {tool}: {error or type(error).__name__}",
            where=source.where,
            fix="export it again; a file that was cut or holds NaN cannot be read",
        ) from error


_ENDINGS = (".onnx", ".uff", ".prototxt", ".caffemodel", ".pb", ".gguf")


def network_of(path: str) -> str | None:
    """The name of the network in a path that a tool prints; None where it has none."""
    name = path.strip().replace("\\", "/").rpartition("/")[2]
    ending = next((suffix for suffix in _ENDINGS if name.endswith(suffix) and name != suffix), "")
    name = name.removesuffix(ending).strip()
    is_name = bool(name) and name.isprintable() and len(name) <= LONGEST_NAME and name != "*"
    return name if is_name else None
