"""The lines of who asks a controller, and the silence of one who is gone."""

from __future__ import annotations

import os
import select
from collections import deque

from mansard.device.controller.messages import MAX_LINE_BYTES

BEAT = b"\n"  # says nothing but that somebody is there
BEAT_S = 10.0
# Longer than a measuring container waits for its heartbeat (60 s): nothing is to be measured in
# the modes of a board that was put back.
QUIET_S = 180.0
_READ_BYTES = 1 << 16


class Questions:
    """Reads lines from a file descriptor."""

    def __init__(self, handle: int, quiet_s: float | None = None) -> None:
        self._handle, self._quiet_s = handle, quiet_s
        self._lines: deque[bytes] = deque()
        self._pieces: list[bytes] = []  # of a line whose end has not come yet
        self._has_ended = False

    def next(self) -> bytes | None:
        """The next line that says something; None at the end, or after ``quiet_s`` of silence.

        A link can be cut so that its ends do not notice for hours: then silence is the end.
        Half a line at the end is of someone who was killed, and none.
        """
        while not self._lines and not self._has_ended:
            self._read()
        return self._lines.popleft() if self._lines else None

    def _read(self) -> None:
        more = os.read(self._handle, _READ_BYTES) if self._wait() else b""
        self._has_ended = not more or sum(map(len, self._pieces)) > MAX_LINE_BYTES
        *ended, rest = more.split(b"\n")
        for piece in ended:
            line = b"".join((*self._pieces, piece))
            self._pieces.clear()
            if line:
                self._lines.append(line)
        self._pieces.append(rest)

    def _wait(self) -> bool:
        return bool(select.select([self._handle], [], [], self._quiet_s)[0])
