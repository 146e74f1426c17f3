"""Messages between two of our processes: one JSON line each, over any pair of byte streams.

A measuring process, the controller of a board and the engine's attached streams use the same
lines. An empty line is a heartbeat: a link can be cut so that its ends do not notice for hours,
so a reader may take silence for the end. Errors travel as data and are raised on the other side
as what they were.
"""

from __future__ import annotations

import io
import os
import select
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import IO

import msgspec

from mansard.core import errors
from mansard.core.errors import MansardError, SchemaError
from mansard.core.processes.programs import is_readable_within

HEARTBEAT = b"\n"
HEARTBEAT_S = 10.0  # between two heartbeats
# A grid of 100 000 modes; raw readings of minutes at 1 kHz on ten rails are some 10 MB.
MAX_LINE_BYTES = 1 << 26
_READ_BYTES = 1 << 16

# What decoding raises of content that is nested too deeply, too large or of another shape.
DECODE_ERRORS = (
    *(msgspec.DecodeError, RecursionError, MemoryError),
    *(TypeError, ValueError, OverflowError),
)

_ERROR_KINDS = {
    one.__name__: one
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, MansardError)
}


class WireError(msgspec.Struct, frozen=True):
    """An error as data."""

    kind: str  # name of its class
    what: str
    where: str | None
    fix: str | None
    exit_code: int = 1


def to_wire(error: MansardError) -> WireError:
    """``error`` as data."""
    name = type(error).__name__
    return WireError(name, error.what, error.where, error.fix, error.exit_code)


def from_wire(error: WireError, source: str | None = None) -> MansardError:
    """The error of ``error``'s own class, with ``source`` before its place."""
    kind = _ERROR_KINDS.get(error.kind, MansardError)
    where = ": ".join(part for part in (source, error.where) if part)
    raised = kind(error.what, where=where or None, fix=error.fix)
    if isinstance(raised, errors.ProgramFailed) and 0 < error.exit_code < 256:
        raised.exit_code = error.exit_code
    return raised


def encode_line(message: object) -> bytes:
    """``message`` as one line, its end included."""
    return msgspec.json.encode(message) + b"\n"


class LineSplitter:
    """Puts pieces of a stream together to lines.

    A line of more than ``max_bytes`` is an error of the class ``error``, in which ``source``
    is the subject.
    """

    def __init__(
        self,
        max_bytes: int = MAX_LINE_BYTES,
        *,
        source: str = "the other side",
        error: type[MansardError] = SchemaError,
    ) -> None:
        self._pieces: list[bytes] = []  # of the unfinished line
        self._n_bytes = 0
        self._max_bytes, self._source, self._error = max_bytes, source, error

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that ``data`` ends, without their ends."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._keep(piece)
            yield b"".join(self._pieces)
            self._pieces.clear()
            self._n_bytes = 0
        self._keep(rest)

    @property
    def rest(self) -> bytes:
        """What came after the last end of a line."""
        return b"".join(self._pieces)

    def _keep(self, piece: bytes) -> None:
        self._n_bytes += len(piece)
        if self._n_bytes > self._max_bytes:
            raise self._error(
                f"{self._source} wrote a line of more than {self._max_bytes} bytes",
                fix="report this; what was measured before it is kept",
            )
        if piece:
            self._pieces.append(piece)


class LineReader:
    """Reads lines from a file descriptor; with ``quiet_s``, silence for so long is the end."""

    def __init__(
        self, handle: int, quiet_s: float | None = None, *, max_bytes: int = MAX_LINE_BYTES
    ) -> None:
        self._handle, self._quiet_s = handle, quiet_s
        self._splitter = LineSplitter(max_bytes)
        self._lines: deque[bytes] = deque()
        self._has_ended = False

    def next(self) -> bytes | None:
        """The next line that is not empty; None at the end, or after ``quiet_s`` of silence.

        Half a line at the end, of a writer that was killed, does not count; a line that is too
        long is the end.
        """
        while not self._lines and not self._has_ended:
            self.read_more()
        return self._lines.popleft() if self._lines else None

    def is_ready_within(self, seconds: float) -> bool:
        """Whether a line or the end arrives within the timeout; signals end the wait."""
        end_s = time.monotonic() + seconds
        while not self._lines and not self._has_ended:
            if not is_readable_within(self._handle, max(0.0, end_s - time.monotonic())):
                return False
            self.read_more()
        return True

    def wait_for_end(self) -> None:
        """Read on until the end, or silence; whatever comes is dropped."""
        while self.next() is not None:
            pass

    def read_more(self) -> None:
        """Wait for bytes once, and take the lines that they end."""
        is_ready = select.select([self._handle], [], [], self._quiet_s)[0]
        more = os.read(self._handle, _READ_BYTES) if is_ready else b""
        self._has_ended = not more
        try:
            self._lines.extend(line for line in self._splitter.feed(more) if line)
        except SchemaError:
            self._has_ended = True


def claim_stdout() -> IO[bytes]:
    """Standard output for messages alone: whatever else prints there goes to standard error."""
    messages = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return messages


class _DataOutput(io.TextIOWrapper):
    """Standard output of a process whose output is data: its bytes are, text goes elsewhere."""

    def write(self, text: str) -> int:
        """Write text, which is nothing but what a library prints, on standard error."""
        return sys.stderr.write(text)


def give_stdout_to_data() -> None:
    """From now on ``sys.stdout.buffer`` alone reaches standard output.

    Whatever libraries print there, in Python or below it, goes to standard error.
    """
    sys.stdout.flush()
    sys.stdout = _DataOutput(claim_stdout(), encoding="utf-8")
