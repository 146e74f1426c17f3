"""Questions and answers of a controller over the attached streams of its container."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from mansard.containers.engine import Engine
from mansard.containers.engine_errors import explained
from mansard.containers.stream import Attached, Chunk, split_lines
from mansard.core.errors import MansardError
from mansard.core.line_channel import HEARTBEAT
from mansard.core.text import printable

ANSWER_S = 1800.0  # the longest answer tries dozens of modes, a minute each at most
END_S = 120  # to put the board back: nvpmodel may take a minute
_SEND_S = 0.05
_TAIL_BYTES = 2048
_SHOWN_CHARACTERS = 500


class ContainerChannel:
    """A controller in a container; made before the container is started."""

    def __init__(self, engine: Engine, ident: str, attached: Attached) -> None:
        self._engine, self._ident, self._attached = engine, ident, attached
        self._tail = b""
        self._lines = split_lines()
        self._ready: deque[bytes] = deque()
        self._is_closed = False

    def send(self, line: bytes) -> None:
        """Have one line sent by the ``receive`` that follows."""
        if self._attached.has_ended or self._is_closed:
            raise BrokenPipeError("the board controller has ended")
        self._attached.send(line)

    def receive(self) -> bytes:
        """The next line; empty at the end. Raises TimeoutError, ContainerError."""
        if not self._ready:
            for chunk in self._attached.receive(ANSWER_S):
                self._keep(chunk)
                if self._ready:
                    break
        return self._ready.popleft() if self._ready else b""

    def beat(self) -> None:
        """Send an empty line now: no answer is awaited that would have it sent."""
        self.send(HEARTBEAT)
        with suppress(TimeoutError):
            for chunk in self._attached.receive(_SEND_S):
                self._keep(chunk)  # say an answer that nobody waited for

    def end(self) -> None:
        """End the questions."""
        self._attached.close_input()

    def close(self) -> str:
        """End the questions, and wait until the board is put back."""
        if not self._is_closed:
            self._is_closed = True
            self.end()
            try:
                for chunk in self._attached.receive(END_S):
                    self._keep(chunk)
            except TimeoutError:
                self._stop()
            finally:
                # Not removed by force: interrupted here, it goes on to put the board back.
                self._attached.close()
        return printable(self._tail.decode("utf-8", "replace").strip()[-_SHOWN_CHARACTERS:])

    def _keep(self, chunk: Chunk) -> None:
        if chunk.output == "stdout":
            self._ready.extend(self._lines.feed(chunk.data))
        else:
            self._tail = (self._tail + chunk.data)[-_TAIL_BYTES:]

    def _stop(self) -> None:
        with suppress(MansardError), explained(self._engine.address):
            self._engine.client.api.stop(self._ident, timeout=END_S)
