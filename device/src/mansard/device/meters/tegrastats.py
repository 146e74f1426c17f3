"""Power as tegrastats prints it: for boards whose chips cannot be read directly.

It is started by the first reading, at the shortest interval that boards keep (about 100 ms,
recorded by others), and ends when it was not read for a while. Between two lines
a reading repeats the last one, so that only the lines count as changes.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import PowerSample
from mansard.device.meters.meter import READS_POWER
from mansard.device.system import SYSTEM_ROOT
from mansard.device.tegrastats.grammar import refusals_of
from mansard.device.tegrastats.live import live

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
        return "tegrastats does not say: the smallest change seen stands for the step"

    def sensor(self, rail: str) -> str:  # noqa: ARG002
        return "line"

    def take(self, line: _PrintedLine) -> bool:
        """Take in a line that was printed; False when no more of them are wanted."""
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
        """The line that holds now; raises DeviceError where none came for too long."""
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
