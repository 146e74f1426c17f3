"""Power as tegrastats prints it: for boards whose chips cannot be read directly.

It is started by the first reading, at the shortest interval that boards keep (about 100 ms,
recorded by others), and ends by itself when nobody has read for a while. Between two lines
a reading repeats the last one, so that only the lines count as changes.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import PowerSample
from mansard.device.meters.rails import READS_POWER
from mansard.device.system import find_tool
from mansard.device.tegrastats.parse import Parser

INTERVAL_S = 0.1
_FIRST_LINE_S = 5.0  # to wait for it; tegrastats prints one per interval
_STALE_S = 1.0  # without a line: it has stopped
_UNREAD_S = 5.0  # after which it need not run any longer


class _Line(msgspec.Struct, frozen=True):
    arrived_s: float
    powers_w: dict[str, float]


class TegrastatsMeter:
    """The rails of tegrastats' lines; ``rails`` are those of the first line."""

    name = "tegrastats"
    total_rule = None
    boundary = None
    period_s = INTERVAL_S / 4  # of looking for a new line

    def __init__(self, tool: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._tool = tool
        self._clock = clock
        self._process: subprocess.Popen[str] | None = None
        self._line: _Line | None = None
        self._arrival = threading.Condition()
        self._read_s = clock()
        self._started_s: float | None = None
        self.rails: tuple[str, ...] = ()
        self.rails = tuple(self._last_line().powers_w)

    def read(self) -> tuple[PowerSample, ...]:
        line, now_s = self._last_line(), self._clock()
        return tuple(self._sample(rail, line, now_s) for rail in self.rails)

    def step_w(self, rail: str) -> float | None:  # noqa: ARG002
        return None

    def step_note(self, rail: str) -> str:  # noqa: ARG002
        return "tegrastats does not say: the smallest change seen stands for the step"

    def sensor(self, rail: str) -> str:  # noqa: ARG002
        return "line"

    def _sample(self, rail: str, line: _Line, now_s: float) -> PowerSample:
        power_w = line.powers_w.get(rail)
        unknown = READS_POWER
        if power_w is None:
            unknown = {**READS_POWER, "power_w": "tegrastats' line no longer has this rail"}
        return PowerSample(
            rail=rail, monotonic_s=now_s, power_w=power_w, energy_j=None, unknown=unknown
        )

    def _last_line(self) -> _Line:
        """The line that holds now; raises DeviceError where none came for too long."""
        with self._arrival:
            self._read_s = self._clock()
            # A tool that ends at once is not started for every reading.
            rested = self._started_s is None or self._read_s - self._started_s > _STALE_S
            if self._process is None and rested:
                self._line, self._started_s = None, self._read_s
                self._start()
            self._arrival.wait_for(lambda: self._line or self._process is None, _FIRST_LINE_S)
            line = self._line
        if line is None or self._clock() - line.arrived_s > _STALE_S:
            raise DeviceError(
                "tegrastats prints no lines",
                where=str(self._tool),
                fix=f"run it by hand: {self._tool.name} --interval 1000",
            )
        return line

    def _start(self) -> None:
        command = [str(self._tool), "--interval", str(round(INTERVAL_S * 1000))]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
                start_new_session=True,  # a Ctrl-C is for us, who stop it
            )
        except OSError as error:
            raise DeviceError(
                f"cannot be run: {(error.strerror or str(error)).lower()}", where=str(self._tool)
            ) from error
        self._process = process
        weakref.finalize(self, _end, process)
        # The thread must not keep the meter alive, or it would never be let go.
        follower = threading.Thread(
            target=_follow, args=(weakref.ref(self), process), name="tegrastats", daemon=True
        )
        follower.start()

    def take(self, line: str, parser: Parser) -> bool:
        """Take in a line that was printed; False when nobody wants more of them."""
        sample = parser.read(line[:_LONGEST_LINE])
        with self._arrival:
            now_s = self._clock()
            if sample is not None:
                powers_w = {rail.name: rail.power_w for rail in sample.rails}
                self._line = _Line(now_s, powers_w)
                self._arrival.notify_all()
            return now_s - self._read_s < _UNREAD_S

    def lose(self, process: subprocess.Popen[str]) -> None:
        """Note that ``process`` has ended; the next reading starts another."""
        with self._arrival:
            if self._process is process:
                self._process = None
                self._arrival.notify_all()


_LONGEST_LINE = 1 << 14  # characters; a real one has some hundreds


def _follow(meter: weakref.ref[TegrastatsMeter], process: subprocess.Popen[str]) -> None:
    parser = Parser()
    lines = process.stdout
    while lines is not None and (line := lines.readline(_LONGEST_LINE)):
        owner = meter()
        if owner is None or not owner.take(line, parser):
            break
        del owner
    _end(process)
    owner = meter()
    if owner is not None:
        owner.lose(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()  # it only reads: there is nothing to finish
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
    if process.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            process.stdout.close()


def open_tegrastats(
    root: Path, clock: Callable[[], float] = time.monotonic
) -> tuple[TegrastatsMeter | None, str]:
    """The meter on the board's own tegrastats, or None and the reason."""
    tool = find_tool(root, "tegrastats")
    if tool is None:
        return None, "the tool is not here; in a container, mount it from the board"
    try:
        meter = TegrastatsMeter(tool, clock)
    except DeviceError as error:
        return None, str(error)
    if not meter.rails:
        return None, "its lines have no power rails: a carrier board without power monitor"
    return meter, ""
