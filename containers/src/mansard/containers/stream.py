"""The attached streams of a container: what goes in, and what comes out in frames.

Without a terminal the engine sends both outputs over one connection, in frames with a header
of 8 bytes: the stream's number, three zeros, and the length (big-endian).
Source: Docker Engine API, ContainerAttach, "Stream format".
"""

from __future__ import annotations

import math
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any, Literal

import msgspec

from mansard.core.errors import ContainerError
from mansard.core.processes.line_channel import HEARTBEAT, HEARTBEAT_S, LineSplitter

Output = Literal["stdout", "stderr"]
_OUTPUTS: dict[int, Output] = {1: "stdout", 2: "stderr"}
_HEADER_BYTES = 8
_READ_BYTES = 1 << 16


class Chunk(msgspec.Struct, frozen=True):
    """A piece of one output as received: frames and lines may be cut anywhere."""

    output: Output
    data: bytes


class Frames:
    """Splits the engine's bytes into frames; buffers at most a header."""

    def __init__(self) -> None:
        self._header = b""
        self._output: Output | None = None
        self._n_left = 0

    def feed(self, data: bytes) -> Iterator[Chunk]:
        """The pieces in ``data``; raises ContainerError where it has no frames."""
        while data:
            if self._output is None or not self._n_left:
                n_lacking = _HEADER_BYTES - len(self._header)
                self._header, data = self._header + data[:n_lacking], data[n_lacking:]
                if len(self._header) == _HEADER_BYTES:
                    self._open(self._header)
                continue
            piece, data = data[: self._n_left], data[self._n_left :]
            self._n_left -= len(piece)
            yield Chunk(self._output, piece)

    def _open(self, header: bytes) -> None:
        self._output = _OUTPUTS.get(header[0])
        if self._output is None or header[1:4] != b"\0\0\0":
            raise ContainerError(
                f"the engine's stream has no frames: {header!r}",
                fix="update the engine; a proxy between it and Mansard must not change the stream",
            )
        self._n_left = int.from_bytes(header[4:], "big")
        self._header = b""


def split_lines() -> LineSplitter:
    """A splitter of a container's output into lines; raises ContainerError for an endless line."""
    return LineSplitter(source="the container", error=ContainerError)


class Attached:
    """The connection to a container's streams: sends without waiting, receives what is there."""

    def __init__(
        self,
        connection: socket.socket,
        holder: IO[bytes] | None = None,
        *,
        beat_s: float = HEARTBEAT_S,
    ) -> None:
        connection.setblocking(False)
        self._connection, self._holder = connection, holder
        self._frames = Frames()
        self._pending: deque[Chunk] = deque()
        self._unsent = memoryview(b"")
        self._beat_s, self._beaten_s = beat_s, time.monotonic()
        self._is_open = True  # for input
        self.has_ended = False

    def send(self, data: bytes) -> None:
        """Queue ``data``; the next ``receive`` sends as much as the container reads."""
        self._unsent = memoryview(bytes(self._unsent) + data)

    def close_input(self) -> None:
        """Close the container's standard input; unsent data is dropped."""
        self._unsent = memoryview(b"")
        self._is_open = False
        try:
            self._connection.shutdown(socket.SHUT_WR)
        except OSError:
            self.has_ended = True  # the other side is gone

    def receive(
        self, timeout_s: float, check: Callable[[], object] = lambda: None
    ) -> Iterator[Chunk]:
        """What comes within ``timeout_s``, until the container's end; raises TimeoutError.

        What comes does not lengthen the time. ``check`` is called at every heartbeat at least, and
        ends the waiting by what it raises. A caller that stops early loses nothing: the next
        call continues there.
        """
        end_s = time.monotonic() + timeout_s
        while True:
            while self._pending:
                yield self._pending.popleft()
            if self.has_ended:
                return
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            check()
            self._beat()
            if not self._wait(min(left_s, self._beat_s)):
                continue
            try:
                data = self._connection.recv(_READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""  # the engine died rather than ending the stream
            self.has_ended = not data
            self._pending.extend(self._frames.feed(data))

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        if self._holder is not None:
            self._holder.close()  # the connection stays open as long as its file is

    def _beat(self) -> None:
        """Send a heartbeat: an engine that dies does not end the input."""
        now_s = time.monotonic()
        if self._is_open and now_s >= self._beaten_s + self._beat_s:
            self._beaten_s = now_s
            self.send(HEARTBEAT)

    def _wait(self, timeout_s: float) -> bool:
        """Send what can be sent; returns whether there is something to receive."""
        # Not select(): it takes no descriptor from 1024 on, which fifty boards come to.
        poll = select.poll()
        poll.register(self._connection, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        events = dict(poll.poll(math.ceil(1000 * timeout_s))).get(self._connection.fileno(), 0)
        if events & select.POLLOUT:
            try:
                self._unsent = self._unsent[self._connection.send(self._unsent) :]
            except BlockingIOError:
                pass
            except OSError:
                self._unsent = memoryview(b"")  # it reads no more; its outputs tell why
        return bool(events & ~select.POLLOUT)  # also where it has ended


def attach(client: Any, container: str) -> Attached:
    """Attach to all streams of a container before it starts, so that no output is missed."""
    wanted = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    stream = client.api.attach_socket(container, params=wanted)
    # What the SDK returns is a file that cannot be written; the connection below it can.
    return Attached(stream._sock, stream)
