"""The board's own tegrastats, running: its lines as they come, and none of it left behind."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mansard.core.errors import DeviceError
from mansard.core.processes.programs import end_program, start_program
from mansard.core.text import printable
from mansard.device.system import find_tool
from mansard.device.tegrastats.parse import Parser
from mansard.device.tegrastats.sample import TegrastatsSample

SHORTEST_S = 0.001  # the option counts in ms; boards keep about 100 ms at best
_SILENT_S = 5.0  # beyond the interval: without a line it has stopped
_LONGEST_LINE = 1 << 16
_END_S = 2.0  # for tegrastats to end when asked to
_READ_BYTES = 1 << 16

Stamped = tuple[float, TegrastatsSample]


@contextlib.contextmanager
def live(
    root: Path,
    interval_s: float,
    duration_s: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Iterator[Stamped]]:
    """Samples of a running tegrastats, each with the time at which its line arrived (``clock``).

    They end after ``duration_s``. Raises DeviceError where there is no tegrastats, or it ends
    by itself, or prints nothing. On leaving it has ended, whatever happened: it is asked,
    then killed; and where we are killed ourselves it dies of its closed pipe.
    """
    tool = find_tool(root, "tegrastats")
    if tool is None:
        raise DeviceError(
            "this machine has no tegrastats",
            fix="give a recorded log, or run this on a Jetson (in a container, mount the tool)",
        )
    command = [str(tool), "--interval", str(max(1, round(interval_s * 1000)))]
    process = start_program(command, stderr=subprocess.STDOUT, error=DeviceError)
    try:
        end_s = None if duration_s is None else clock() + duration_s
        silence = _Silence(tool, _SILENT_S + interval_s, end_s, clock)
        yield _samples(process, silence, clock)
    finally:
        end_program(process, patience_s=_END_S)


class _Silence:
    """Watches that lines keep coming, until ``end_s``."""

    def __init__(
        self, tool: Path, silent_s: float, end_s: float | None, clock: Callable[[], float]
    ) -> None:
        self._tool = tool
        self._silent_s = silent_s
        self._end_s = end_s
        self._clock = clock
        self.heard_s = clock()
        self.other = ""  # the last words that are no line

    def wait_s(self) -> float | None:
        """How long to wait for output; None at the end. Raises DeviceError after silence."""
        now_s = self._clock()
        if self._end_s is not None and now_s >= self._end_s:
            return None
        quiet_s = self.heard_s + self._silent_s
        if now_s >= quiet_s:
            raise self.error(f"prints no line of tegrastats for {self._silent_s:g} s")
        return (quiet_s if self._end_s is None else min(quiet_s, self._end_s)) - now_s

    def error(self, what: str) -> DeviceError:
        """``what`` went wrong, with the tool's last words."""
        words = f"; it says {printable(self.other, 200)!r}" if self.other else ""
        return DeviceError(
            f"{what}{words}",
            where=str(self._tool),
            fix=f"run it by hand: {self._tool.name} --interval 1000",
        )


def _samples(
    process: subprocess.Popen[bytes], silence: _Silence, clock: Callable[[], float]
) -> Iterator[Stamped]:
    read = Parser().read
    handle = _output(process)
    rest = b""
    while (wait_s := silence.wait_s()) is not None:
        if not select.select([handle], [], [], wait_s)[0]:
            continue
        data = os.read(handle, _READ_BYTES)
        arrived_s = clock()
        if not data:
            raise silence.error("ended by itself")
        *lines, rest = (rest + data).split(b"\n")
        rest = rest[:_LONGEST_LINE]
        for line in lines:
            text = line.decode("utf-8", "replace")
            sample = read(text)
            if sample is None:
                silence.other = text.strip() or silence.other
                continue
            silence.heard_s = arrived_s
            yield arrived_s, sample


def _output(process: subprocess.Popen[bytes]) -> int:
    if process.stdout is None:  # never: it was asked for
        raise DeviceError("has no output")
    return process.stdout.fileno()
