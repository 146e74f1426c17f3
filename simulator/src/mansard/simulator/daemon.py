"""Acts as kernel and sensors of a simulated tree until it is stopped or its parent ends."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import IO

from mansard.core.errors import DeviceError, InputError
from mansard.core.processes.programs import end_program, start_program
from mansard.device.file_watch import FileWatcher
from mansard.device.system import read_text
from mansard.simulator.boards import BY_NAME
from mansard.simulator.boards.spec import BoardSpec
from mansard.simulator.clocks import (
    AMBIENT_C,
    LoadSource,
    RunningClocks,
    most_power_w,
    rail_powers,
    warmer_c,
    with_noise,
)
from mansard.simulator.faults import read_faults
from mansard.simulator.kernel import SimulatedKernel, set_text
from mansard.simulator.sensors import MonitorBank, Surroundings
from mansard.simulator.tools.board import INFO, STATE

PERIOD_S = 0.01  # of the sensors; an INA3221 averages over about 8 ms
_SLOW = 5  # heat, counters of CPU time: every fifth time
_SLIP_S = 0.05
_TORN_S = 0.02  # a writer that has not written by then is dead


class Daemon:
    """A simulated board that is switched on."""

    def __init__(self, root: Path, seed: int = 0) -> None:
        self.root, self.board = root, board_of(root)
        self._lock = _take_lock(root)
        self.kernel = SimulatedKernel(self.board, root)
        self._load = LoadSource(root / STATE / "load.json")
        self._clocks = RunningClocks(self.board, root)
        self._monitors = MonitorBank(self.board, root)
        self._around = Surroundings(self.board, root)
        self._watcher = FileWatcher((*self.kernel.watched, root / STATE))
        if self._watcher.why_not:
            raise DeviceError(
                f"cannot watch files: {self._watcher.why_not}",
                fix="raise fs.inotify.max_user_instances with sysctl",
            )
        self._noise = Random(seed)  # noqa: S311
        self._most_w = most_power_w(self.board)
        self._temperature_c = AMBIENT_C
        self._slips: dict[str, float] = {}
        self._empty: dict[Path, float] = {}
        self._stopped = False
        self._reread()

    def stop(self, *_: object) -> None:
        """End after this step; every setting stays as it is."""
        self._stopped = True

    def run(self, parent: int) -> None:
        """Until SIGTERM, or until ``parent`` is no more."""
        n = 0
        due_s = before_s = time.monotonic()
        while not self._stopped:
            for path in self._watcher.wait(due_s - time.monotonic()):
                self._react(path)
            now_s = time.monotonic()
            if now_s < due_s:
                continue
            due_s = max(due_s + PERIOD_S, now_s)
            self._step(now_s)
            n += 1
            if n % _SLOW == 0:
                self._slow_step(now_s - before_s)
                before_s = now_s
                if os.getppid() != parent:
                    return

    def step_once(self) -> None:
        """Run every step once, so that the tree holds readings from the start."""
        self._step(time.monotonic())
        self._slow_step(0.0)

    def _react(self, path: Path) -> None:
        if path.name == STATE.rpartition("/")[2]:
            self._reread()
            return
        if path == self.kernel.rate and not self._clocks.rate_written(path):
            return
        self._changed = True
        if not read_text(path):
            self._empty[path] = time.monotonic() + _TORN_S
        domain = self.kernel.written(path)
        if domain is not None and domain == self.kernel.faults.get("clock_slips"):
            self._slips[domain] = time.monotonic() + _SLIP_S

    def _reread(self) -> None:
        self._changed = True
        self.kernel.faults = read_faults(self.root)
        self._load.reread()
        self.kernel.note_online()

    def _step(self, now_s: float) -> None:
        self._undo(now_s)
        if self._changed:
            self._changed = False
            self._settle()
        faults = self.kernel.faults
        alarm = bool(faults.get("over_current"))
        seen = with_noise(self.board.rails, self._powers, self._noise)
        self._monitors.show(seen, faults, alarm=alarm)

    def _undo(self, now_s: float) -> None:
        """Undo clocks that a fault rejects, and files that a killed writer left empty.

        Opening a file of /sys to truncate it changes nothing there; in a folder it does.
        """
        for path, when_s in list(self._empty.items()):
            if now_s >= when_s:
                del self._empty[path]
                content = self.kernel.kept(path)
                if content is not None and not read_text(path):
                    set_text(path, content)
        for domain, when_s in list(self._slips.items()):
            if now_s >= when_s:
                del self._slips[domain]
                self.kernel.put_back(domain)
                self._changed = True

    def _settle(self) -> None:
        """Clocks and power for the settings, the load and the heat of this moment."""
        throttled = self._around.is_throttled(self._temperature_c, self.kernel.faults)
        self._now = self._load.load(self.kernel.on)
        shares = self._clocks.run(self.kernel, self._now, throttled=throttled)
        self._powers = rail_powers(self.board.rails, shares, self._temperature_c)

    def _slow_step(self, elapsed_s: float) -> None:
        self._changed = True  # load and heat have moved on
        self._load.sample()
        parts = {part for rail in self.board.rails for part in rail.parts}
        power_w = sum(power for label, power in self._powers.items() if label not in parts)
        self._temperature_c = warmer_c(self._temperature_c, power_w, self._most_w, elapsed_s)
        self._around.show(self._temperature_c, self._now, self.kernel.faults, elapsed_s)


def board_of(root: Path) -> BoardSpec:
    """The board of a tree; raises InputError if it is not a simulated board."""
    try:
        return BY_NAME[json.loads((root / INFO).read_text())["name"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            "is not the root of a simulated board", where=str(root), fix="make one first"
        ) from error


def _take_lock(root: Path) -> IO[str]:
    handle = (root / STATE / "daemon.lock").open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise DeviceError(
            "this simulated board is running already", where=str(root), fix="stop it first"
        ) from error
    return handle


def serve(root: Path, ready: IO[str], parent: int) -> None:
    """Run a daemon for ``parent``; writes a line to ``ready`` once readings are there."""
    daemon = Daemon(root)
    signal.signal(signal.SIGTERM, daemon.stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is meant for the process that measures
    daemon.step_once()
    ready.write("ready\n")
    ready.flush()
    daemon.run(parent)


_STOP_S = 10.0
_MAX_WORDS = 1 << 16


@contextmanager
def running(root: Path) -> Iterator[Path]:
    """The board under ``root`` with its daemon: kernel and sensors act until the end.

    Its readings are there when this starts. Raises DeviceError where the daemon cannot start,
    or has stopped before the end.
    """
    program = [sys.executable, "-m", "mansard.simulator"]
    command = [*program, str(root), str(os.getpid())]
    daemon = start_program(command, stderr=subprocess.PIPE, error=DeviceError)
    try:
        if daemon.stdout is None or daemon.stdout.readline(_MAX_WORDS) != b"ready\n":
            raise _stopped(daemon, root, "does not start")
        yield root
        if daemon.poll() is not None:
            raise _stopped(daemon, root, "stopped by itself")
    finally:
        end_program(daemon, patience_s=_STOP_S)


def switched_on(root: Path) -> AbstractContextManager[Path | None]:
    """Run the board under ``root``, if it is a simulated one that no process runs already.

    Without its kernel a simulated board stays at its present clocks, whatever mode is set.
    """
    return running(root) if _is_off(root) else nullcontext()


def _is_off(root: Path) -> bool:
    try:
        board_of(root)
        _take_lock(root).close()
    except (InputError, DeviceError, OSError):  # a real board, one that runs, a read-only folder
        return False
    return True


def _stopped(daemon: subprocess.Popen[bytes], root: Path, how: str) -> DeviceError:
    said = daemon.stderr.read(_MAX_WORDS) if daemon.stderr is not None else b""
    words = (said or b"").decode("utf-8", "replace").strip()
    return DeviceError(f"the simulated board {how}: {words[-500:]}", where=str(root))
