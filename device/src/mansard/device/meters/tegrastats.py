"""A running tegrastats of the board: its lines as they arrive, and the power that it prints.

``TegrastatsMeter`` is for boards whose chips cannot be read directly. Its program is started by the
first reading, at the shortest interval that boards keep (about 100 ms, recorded by others), and
ends when it was not read for a while. Between two lines a reading repeats the last one, so that
only the lines count as changes.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.processes.programs import end_program, start_program
from mansard.core.records import PowerSample
from mansard.core.text import printable
from mansard.device.meters.meter import READS_POWER
from mansard.device.system import SYSTEM_ROOT, find_tool
from mansard.device.tegrastats.grammar import refusals_of
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

    They end ``duration_s`` after the first line. Raises DeviceError where there is no tegrastats,
    or it ends by itself, or prints nothing. On leaving it has ended, whatever happened: it is
    asked, then killed; and where we are killed ourselves it dies of its closed pipe.
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
        silence = _Silence(tool, _SILENT_S + interval_s, duration_s, clock)
        yield _samples(process, silence, clock)
    finally:
        end_program(process, patience_s=_END_S)


class _Silence:
    """Watches that lines keep coming, until ``duration_s`` after the first of them."""

    def __init__(
        self, tool: Path, silent_s: float, duration_s: float | None, clock: Callable[[], float]
    ) -> None:
        self._tool = tool
        self._silent_s = silent_s
        self._duration_s = duration_s
        self._clock = clock
        self._heard_s = clock()
        self._end_s: float | None = None
        self.other = ""  # the last words that are no line

    def hear(self, arrived_s: float) -> None:
        """Note a line."""
        self._heard_s = arrived_s
        if self._end_s is None and self._duration_s is not None:
            self._end_s = arrived_s + self._duration_s

    def wait_s(self) -> float | None:
        """How long to wait for output; None at the end. Raises DeviceError after silence."""
        now_s = self._clock()
        if self._end_s is not None and now_s >= self._end_s:
            return None
        quiet_s = self._heard_s + self._silent_s
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
            silence.hear(arrived_s)
            yield arrived_s, sample


def _output(process: subprocess.Popen[bytes]) -> int:
    if process.stdout is None:  # never: it was asked for
        raise DeviceError("has no output")
    return process.stdout.fileno()


INTERVAL_S = 0.1
_FIRST_LINE_S = 10.0  # to wait for it: tegrastats may have to be loaded from a slow disk
_STALE_S = 1.0  # without a line: it has stopped
_UNREAD_S = 5.0  # after which it need not run any longer


class _PrintedLine(msgspec.Struct, frozen=True):
    arrived_s: float
    powers_w: dict[str, float]
    refused: tuple[str, ...] = ()  # what cannot be true, with the reasons


class TegrastatsMeter:
    """The rails of tegrastats' lines; ``rails`` are those of the first one."""

    name = "tegrastats"
    total_rule = None
    boundary = None
    period_s = INTERVAL_S / 4  # of looking for a new line
    pace_s = None

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._arrival = threading.Condition()
        self._line: _PrintedLine | None = None
        self._why: str | None = "it was not started"  # None while it runs
        self._read_s = clock()
        self._started_s = -_STALE_S + self._read_s
        self.rails: tuple[str, ...] = ()
        self.rails = tuple(self._last_line().powers_w)

    def read(self) -> tuple[PowerSample, ...]:
        line, now_s = self._last_line(), self._clock()
        return tuple(_sample(rail, line, now_s) for rail in self.rails)

    def step_w(self, rail: str) -> float | None:  # noqa: ARG002
        return None

    def step_note(self, rail: str) -> str:  # noqa: ARG002
        return "tegrastats does not say: the smallest change seen is used as the step"

    def sensor(self, rail: str) -> str:  # noqa: ARG002
        return "line"

    def take(self, line: _PrintedLine) -> bool:
        """Read a printed line; False when no more lines are wanted."""
        with self._arrival:
            self._line = line
            self._arrival.notify_all()
            return self._clock() - self._read_s < _UNREAD_S

    def end(self, why: str) -> None:
        """Note that tegrastats has ended; a later reading starts it again."""
        with self._arrival:
            self._why = why
            self._arrival.notify_all()

    def _last_line(self) -> _PrintedLine:
        """The latest line; raises DeviceError if none arrived for too long."""
        with self._arrival:
            self._read_s = self._clock()
            # A tool that ends at once is not started for every reading.
            if self._why is not None and self._read_s - self._started_s >= _STALE_S:
                self._start()
            self._arrival.wait_for(lambda: self._line or self._why, _FIRST_LINE_S)
            line, why = self._line, self._why
        if line is not None and self._clock() - line.arrived_s <= _STALE_S:
            return line
        raise DeviceError(
            f"tegrastats prints no lines: {why or 'none came for a while'}",
            fix="run it by hand: tegrastats --interval 1000",
        )

    def _start(self) -> None:
        self._line, self._why, self._started_s = None, None, self._read_s
        # The thread must not keep the meter alive, or it would never be let go.
        threading.Thread(
            target=_follow,
            args=(weakref.ref(self), self._root, self._clock),
            name="tegrastats",
            daemon=True,
        ).start()


def _follow(meter: weakref.ref[TegrastatsMeter], root: Path, clock: Callable[[], float]) -> None:
    why = "it was not read"
    try:
        with live(root, INTERVAL_S, clock=clock) as samples:
            for arrived_s, sample in samples:
                owner = meter()
                powers_w = {rail.name: rail.power_w for rail in sample.rails}
                line = _PrintedLine(arrived_s, powers_w, refusals_of(sample.shape))
                if owner is None or not owner.take(line):
                    break
                del owner
    except DeviceError as error:
        why = str(error)
    owner = meter()
    if owner is not None:
        owner.end(why)


def _sample(rail: str, line: _PrintedLine, now_s: float) -> PowerSample:
    power_w, unknown = line.powers_w.get(rail), READS_POWER
    if power_w is None:
        refused = [reason for reason in line.refused if reason.startswith(f"{rail} ")]
        why = f"tegrastats printed {refused[0]}" if refused else "tegrastats' line lacks this rail"
        unknown = {**READS_POWER, "power_w": why}
    return PowerSample(
        rail=rail, monotonic_s=now_s, power_w=power_w, energy_j=None, unknown=unknown
    )


def open_tegrastats(
    root: Path = SYSTEM_ROOT, clock: Callable[[], float] = time.monotonic
) -> tuple[TegrastatsMeter | None, str]:
    """The meter on the board's own tegrastats, or None and the reason."""
    try:
        meter = TegrastatsMeter(root, clock)
    except DeviceError as error:
        return None, str(error)
    if not meter.rails:
        return None, "its lines have no power rails: a carrier board without power monitor"
    return meter, ""
