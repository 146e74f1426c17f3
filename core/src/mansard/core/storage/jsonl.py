"""Rows in JSON lines: appended one by one, so that a kill loses at most the last.

The first line of a file names its schema and version; a file of another version,
or a row with a field this version does not know, is refused by name. A last line
without its newline is a row that was being written when the power went: reading
puts it aside and says so, writing moves it into a file of its own. ``within`` is explained in
``core.storage.files``.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Generic, TypeVar

import msgspec

from mansard.core.errors import SchemaError, StorageError
from mansard.core.processes.line_channel import DECODE_ERRORS
from mansard.core.records import Record
from mansard.core.storage.files import (
    append_whole,
    check_one_name,
    entries_in,
    open_file,
    open_rows,
    read_whole,
    storage_errors,
    write_atomic,
)

Row = TypeVar("Row", bound=Record)


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of every file of rows."""

    schema: str
    version: int


class Rows(msgspec.Struct, Generic[Row], frozen=True):
    """What a file held: its rows, and the torn last line where there was one."""

    rows: tuple[Row, ...]
    torn: bytes | None


def read_rows(path: Path, row_type: type[Row], within: Path | None = None) -> Rows[Row]:
    """All rows of ``path``; raises SchemaError or StorageError, never skips a row."""
    data = read_whole(path, within, most_bytes=_MOST_BYTES)
    complete, torn = _split_torn(data)
    lines = complete.split(b"\n")[:-1]
    if not lines:
        return Rows((), torn)
    check_header(lines[0], path, row_type)
    decoder = msgspec.json.Decoder(row_type)
    rows = tuple(
        decode_row(decoder, line, f"{path}, line {number}")
        for number, line in enumerate(lines[1:], start=2)
    )
    return Rows(rows, torn)


def write_rows(
    path: Path, row_type: type[Row], rows: Iterable[Row], within: Path | None = None
) -> None:
    """Replace ``path`` by ``rows``, all of them or none; raises StorageError."""
    header = Header(row_type.schema.name, row_type.schema.version)
    lines = [msgspec.json.encode(line) for line in (header, *rows)]
    write_atomic(path, b"\n".join(lines) + b"\n", within)


class RowWriter(Generic[Row]):
    """Appends rows to a file, each with one write and one sync.

    Holds a lock on the file: a second writer raises StorageError instead of
    mixing its rows in. A torn last line found on opening is moved to
    ``torn_path``; a row that only half fits on the disk is taken back. A link is
    refused, and a file that has a second name, whose content would change with it. ``is_private``:
    only this user may read the file.
    """

    def __init__(
        self,
        path: Path,
        row_type: type[Row],
        within: Path | None = None,
        *,
        is_private: bool = False,
    ) -> None:
        self.path = path
        self._within = within
        self.torn_path: Path | None = None
        self._encoder = msgspec.json.Encoder()
        self._handle = open_rows(path, within, is_private=is_private)
        try:
            self._lock()
            self._prepare(row_type)
        except BaseException:
            self.close()
            raise

    def append(self, row: Row) -> None:
        """Write one row; when this returns, the row survives a kill and a power cut."""
        self.extend((row,))

    def extend(self, rows: Iterable[Row]) -> None:
        """Write some rows at once, synced together."""
        self._write(b"".join(self._encoder.encode(row) + b"\n" for row in rows))

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> RowWriter[Row]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StorageError(
                "another process is writing this file",
                where=str(self.path),
                fix="wait for it to end, or choose another folder",
            ) from error

    def _prepare(self, row_type: type[Row]) -> None:
        n_complete, torn = self._ends()
        if torn:
            check_one_name(self._handle, self.path)
            self._set_aside(torn)
            os.ftruncate(self._handle, n_complete)
        if n_complete:
            head = os.pread(self._handle, _HEADER_BYTES, 0)
            check_header(head.split(b"\n", 1)[0], self.path, row_type, is_written=True)
        else:
            schema = row_type.schema
            self._write(self._encoder.encode(Header(schema.name, schema.version)) + b"\n")

    def _ends(self) -> tuple[int, bytes]:
        """The length of the whole lines in bytes, and what follows them."""
        start = max(os.fstat(self._handle).st_size - LONGEST_LINE - 1, 0)
        tail = os.pread(self._handle, LONGEST_LINE + 1, start)
        n_complete = tail.rfind(b"\n") + 1
        if start and not n_complete:
            raise _too_long(f"{self.path}, last line")
        return start + n_complete, tail[n_complete:]

    def _set_aside(self, torn: bytes) -> None:
        folder = self.path.parent
        taken = entries_in(folder, self._within or folder)
        names = (f"{self.path.name}.torn-{number}" for number in itertools.count(1))
        self.torn_path = folder / next(name for name in names if name not in taken)
        write_atomic(self.torn_path, torn, self._within)

    def _write(self, line: bytes) -> None:
        append_whole(self._handle, line, self.path)


def _split_torn(data: bytes) -> tuple[bytes, bytes | None]:
    end = data.rfind(b"\n") + 1
    return data[:end], data[end:] or None


def check_header(line: bytes, path: Path, row_type: type[Row], *, is_written: bool = False) -> None:
    """Raises SchemaError where the first line of ``path`` names other rows or versions.

    ``is_written``: rows are to be added, which takes the newest version.
    """
    expected = row_type.schema
    header = decode_row(msgspec.json.Decoder(Header), line, f"{path}, line 1")
    if header.schema != expected.name:
        raise SchemaError(
            f"holds {header.schema!r} rows, not {expected.name!r}",
            where=str(path),
            fix="give the right file",
        )
    oldest = expected.version if is_written else expected.oldest or expected.version
    if not oldest <= header.version <= expected.version:
        raise SchemaError(
            f"schema {header.schema!r} has version {header.version}, "
            f"this Mansard reads version {expected.version}",
            where=str(path),
            fix="use the Mansard that wrote it, or measure again into another folder",
        )


Decoded = TypeVar("Decoded")


def decode_row(decoder: msgspec.json.Decoder[Decoded], line: bytes, where: str) -> Decoded:
    """One row; raises SchemaError that names ``where`` it is."""
    try:
        return decoder.decode(line)
    except DECODE_ERRORS as error:
        raise SchemaError(
            f"cannot read this row: {error or type(error).__name__}",
            where=where,
            fix="it was changed by hand or written by another version; remove it or measure again",
        ) from error


def _too_long(where: str) -> SchemaError:
    what = f"a line has more than {LONGEST_LINE // 1024**2} MiB"
    return SchemaError(what, where=where, fix="remove it")


BATCH_BYTES = 8 * 1024**2  # of text; the records made of it take five to twenty times as much
LONGEST_LINE = 8 * 1024**2  # bytes: 200,000 repetitions of a trial
_MOST_BYTES = 256 * 1024**2  # limit of a file that is read whole
_HEADER_BYTES = 4096
# What other programs write for a number that is none.
_NO_NUMBER = re.compile(rb"[:,\[]\s*-?(NaN|nan|Infinity|inf)\b")
_BEYOND = "Number out of range"  # msgspec's words for 1e999


class RowReader(Generic[Row]):
    """Reads the rows of ``path`` once, some at a time.

    A header of another version, and a row with a field that is not known or has another type,
    raise SchemaError as ``read_rows`` does. Lines that are no JSON, as NaN and 1e999 make them,
    are put aside: after the last batch ``n_malformed`` counts them, ``first_malformed`` names the
    first, and ``n_torn_bytes`` is the length of a torn last line, 0 for none.
    """

    def __init__(
        self,
        path: Path,
        row_type: type[Row],
        batch_bytes: int = BATCH_BYTES,
        within: Path | None = None,
    ) -> None:
        self.path = path
        self._within = within
        self.n_torn_bytes = 0
        self.n_malformed = 0
        self.first_malformed = ""
        self._row_type = row_type
        self._batch_bytes = batch_bytes
        self._decoder = msgspec.json.Decoder(row_type)

    def batches(self) -> Iterator[list[Row]]:
        """The rows in lists; raises SchemaError or StorageError."""
        with storage_errors(self.path), open_file(self.path, self._within) as stream:
            header = stream.readline(_HEADER_BYTES)
            if not header.endswith(b"\n"):
                self.n_torn_bytes = len(header)
                return
            check_header(header, self.path, self._row_type)
            yield from self._rows(stream)

    def _rows(self, stream: IO[bytes]) -> Iterator[list[Row]]:
        number, pieces, n_bytes = 2, [b""], 0  # pieces of the unfinished line
        while piece := stream.read(self._batch_bytes):
            text, newline, after = piece.rpartition(b"\n")
            if newline:
                lines = b"".join([*pieces, text, newline])
                yield self._decode(lines, number)
                number += lines.count(b"\n")
                pieces, n_bytes = [], 0
            pieces.append(after)
            n_bytes += len(after)
            if n_bytes > LONGEST_LINE:
                raise _too_long(f"{self.path}, line {number}")
        self.n_torn_bytes = n_bytes

    def _decode(self, lines: bytes, number: int) -> list[Row]:
        try:
            rows = self._decoder.decode_lines(lines)
        except DECODE_ERRORS:
            rows = []
        if len(rows) == lines.count(b"\n"):
            return rows
        # Once more, line by line, to tell which one it is; an empty line is no row either.
        decoded = (
            self._decode_line(line, at)
            for at, line in enumerate(lines.split(b"\n")[:-1], start=number)
        )
        return [row for row in decoded if row is not None]

    def _decode_line(self, line: bytes, number: int) -> Row | None:
        try:
            return decode_row(self._decoder, line, f"{self.path}, line {number}")
        except SchemaError as error:
            cause = error.__cause__
            if isinstance(cause, msgspec.ValidationError) and _BEYOND not in str(cause):
                raise
            if not self.n_malformed:
                why = "it holds NaN or Infinity" if _NO_NUMBER.search(line) else error.what
                self.first_malformed = f"line {number}, {why}"
            self.n_malformed += 1
            return None
