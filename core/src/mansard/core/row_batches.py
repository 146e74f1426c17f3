"""Rows of a file of JSON lines in pieces, so that a file larger than the memory can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Generic

import msgspec

from mansard.core.errors import SchemaError
from mansard.core.files import check_regular, storage_error
from mansard.core.jsonl import Row, check_header, decode_row

BATCH_BYTES = 16 * 1024**2  # of text; the records made of it take about five times as much
LONGEST_LINE = 256 * 1024**2  # bytes; no trial has so many repetitions
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

    def __init__(self, path: Path, row_type: type[Row], batch_bytes: int = BATCH_BYTES) -> None:
        self.path = path
        self.n_torn_bytes = 0
        self.n_malformed = 0
        self.first_malformed = ""
        self._row_type = row_type
        self._batch_bytes = batch_bytes
        self._decoder = msgspec.json.Decoder(row_type)

    def batches(self) -> Iterator[list[Row]]:
        """The rows in lists; raises SchemaError or StorageError."""
        try:
            check_regular(self.path)
            with self.path.open("rb") as stream:
                header = stream.readline(LONGEST_LINE)
                if not header.endswith(b"\n"):
                    self.n_torn_bytes = len(header)
                    return
                check_header(header, self.path, self._row_type)
                yield from self._rows(stream)
        except OSError as error:
            raise storage_error(error, self.path) from error

    def _rows(self, stream: IO[bytes]) -> Iterator[list[Row]]:
        number, pieces, n_bytes = 2, [b""], 0  # pieces: of a line that is not whole yet
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
                what = f"a line has more than {LONGEST_LINE // 1024**2} MiB"
                raise SchemaError(what, where=f"{self.path}, line {number}", fix="remove it")
        self.n_torn_bytes = n_bytes

    def _decode(self, lines: bytes, number: int) -> list[Row]:
        try:
            rows = self._decoder.decode_lines(lines)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            rows = []
        if len(rows) == lines.count(b"\n"):
            return rows
        # Once more, line by line, to tell which one it is; an empty line is no row either.
        found = (
            self._decode_line(line, at)
            for at, line in enumerate(lines.split(b"\n")[:-1], start=number)
        )
        return [row for row in found if row is not None]

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
