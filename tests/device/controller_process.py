"""A controller that is a child of this process: the tests' stand-in for a container."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from mansard.core.errors import DeviceError
from mansard.core.processes.line_channel import HEARTBEAT, MAX_LINE_BYTES
from mansard.core.text import printable

_END_S = 120  # a restore calls nvpmodel, which may take a minute
_LAST_WORDS = 500


class ProcessChannel:
    """A controller that is a child of this process."""

    def __init__(self, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
        self.process = process
        self._said = said

    def send(self, line: bytes) -> None:
        """Send one line."""
        if self.process.stdin is None or self.process.stdin.closed:
            raise BrokenPipeError("the board controller is asked no more")
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def receive(self, timeout_s: float) -> bytes:
        """The next line, however long it takes."""
        del timeout_s
        return self.process.stdout.readline(MAX_LINE_BYTES) if self.process.stdout else b""

    def beat(self) -> None:
        """Send an empty line."""
        self.send(HEARTBEAT)

    def end(self) -> None:
        """Close its standard input."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended before it read all
                self.process.stdin.close()

    def close(self) -> str:
        """Let it end, and wait for that."""
        self.end()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()  # its journal stays: the next controller puts the board back
            self.process.wait()
        self._said.seek(0)
        return printable(self._said.read().decode("utf-8", "replace").strip()[-_LAST_WORDS:])


@contextlib.contextmanager
def controller_process(root: Path, *, python: str = sys.executable) -> Iterator[ProcessChannel]:
    """A controller of ``root`` in a process of its own; raises DeviceError if it cannot start."""
    command = (python, "-m", "mansard.device.controller", "--board", str(root))
    with started(command) as channel:
        yield channel


@contextlib.contextmanager
def started(command: Sequence[str]) -> Iterator[ProcessChannel]:
    """What ``command`` starts is a controller; raises DeviceError if it cannot start.

    It gets a session of its own: a Ctrl-C for us does not end it before it was asked to.
    """
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        except OSError as error:
            raise DeviceError(
                f"the board controller cannot be started: {(error.strerror or str(error)).lower()}",
                where=command[0],
            ) from error
        with process:
            channel = ProcessChannel(process, said)
            try:
                yield channel
            finally:
                channel.close()
