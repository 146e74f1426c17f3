"""What a reader of a tool's files is, and what it returns.

A reader turns a file into a table of the fields that ``columns`` knows, so that what a file does
not say comes from ``--fixed`` as for any table, and every number meets the same checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from mansard.analytics.data.published.cells import LEAST, LONGEST_NAME, TextRow, TextTable
from mansard.analytics.data.published.readers.power_trace import PowerTrace
from mansard.core.errors import InputError
from mansard.core.line_channel import DECODE_ERRORS

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
                f"is no UTF-8 text: {error.reason} at byte {error.start}",
                where=self.where,
                fix="export it again",
            ) from error


@dataclass(frozen=True)
class Reading:
    """What a file says. ``rows``: one for each run of a network; ``notes``: a line each.

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
    """How one kind of file is told from all others, by what it holds, and read.

    ``recognise`` takes the first 64 KiB as text. ``read`` raises InputError.
    """

    name: str
    recognise: Callable[[str], bool]
    read: Callable[[ToolFile], Reading]
    most_bytes: int = MOST_USUAL_BYTES

    def read_source(self, source: ToolFile) -> Reading:
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
            f"is no whole file of {tool}: {error or type(error).__name__}",
            where=source.where,
            fix="export it again; a file that was cut or holds NaN cannot be read",
        ) from error


_ENDINGS = (".onnx", ".uff", ".prototxt", ".caffemodel", ".pb", ".gguf")


def network_of(path: str) -> str | None:
    """The name of the network in a path that a tool prints; None where it has none."""
    name = path.strip().replace("\\", "/").rpartition("/")[2]
    ending = next((each for each in _ENDINGS if name.endswith(each) and name != each), "")
    name = name.removesuffix(ending).strip()
    is_name = bool(name) and name.isprintable() and len(name) <= LONGEST_NAME and name != "*"
    return name if is_name else None
