"""Kills a sweep at every one of its steps, and has another process restore: see test_hold_kills.

Run as a program, for it forks: ``kill_at_every_step.py BOARD KIND FIRST STRIDE``. Says of each
kill what came of it, and ends with 1 if one left the board other than it was. Kinds: ``before``
a step, ``torn`` between a write's truncation and its data, ``during`` a tool or the writing of
the journal, ``tool``: nvpmodel dies with it, before its n-th write.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from mansard.device.holding.acting import MachineStep
from mansard.device.holding.hold import hold_machine
from mansard.device.holding.restoring import restore
from mansard.device.nvpmodel.modes import read_modes
from mansard.simulator.create import snapshot
from mansard.simulator.faults import set_fault


def main(board: Path, kind: str, first: int, stride: int) -> int:
    before = snapshot(board)
    n_kills, n_wrong, number = 0, 0, first
    while True:  # a board that was brought back serves again
        set_fault(board, "power_cut", number if kind == "tool" else None)
        status = in_child(partial(sweep, board, number, kind))
        set_fault(board, "power_cut", None)
        is_killed = os.WIFSIGNALED(status)
        restored = in_child(partial(restore, board))
        after = snapshot(board)
        changed = [path for path in before | after if before.get(path) != after.get(path)]
        left = [path.name for path in (board / "var/lib").glob("mansard*/**")]
        is_wrong = bool(changed or left or restored or not (is_killed or status == 0))
        if is_wrong:
            say(f"{kind} {number}: status {status}, {restored}, changed {changed}, left {left}")
        n_kills, n_wrong = n_kills + is_killed, n_wrong + is_wrong
        if not is_killed:  # the sweep has fewer steps, and ended by itself
            say(f"{n_kills} kills, {n_wrong} wrong")
            return int(n_wrong > 0)
        number += stride


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def in_child(action: Callable[[], object]) -> int:
    """How a child that runs ``action`` ended, as os.waitpid has it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException:
            traceback.print_exc()  # os._exit tells nothing
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def sweep(root: Path, number: int, kind: str) -> None:
    """One of the board's modes and one of our own: set, measure nothing, restore."""
    killer = Killer(root, number, kind)
    found = read_modes(root).find("MAXN")
    assert found is not None
    with hold_machine(root, on_step=killer, settle_s=0) as hold:
        read_back = hold.set(found.mode)
        own = msgspec.structs.replace(
            read_back, kind="clocks", gpu_hz=612e6, n_cpus=5, clusters=(), dla_hz=614_400_000.0
        )
        hold.set(own)
    killer.wait()


class Killer:
    """Kills its process at the n-th step of those that its kind is about."""

    def __init__(self, root: Path, number: int, kind: str) -> None:
        self._root, self._number, self._kind = root, number, kind
        self._n_steps = 0
        self._child = 0  # that kills this process

    def __call__(self, step: MachineStep) -> None:
        counts = {"before": True, "torn": step.kind == "write", "during": step.kind != "write"}
        if not counts.get(self._kind):
            return
        self._n_steps += 1
        if self._n_steps != self._number:
            return
        if self._kind == "during":
            parent = os.getpid()
            self._child = os.fork()
            if self._child:
                return  # and on with the step
            time.sleep(0.02)
            if os.getppid() == parent:  # else it has ended, and another has adopted this process
                os.kill(parent, signal.SIGKILL)
            os._exit(0)
        if self._kind == "torn":
            os.truncate(self._root / step.target.lstrip("/"), 0)
        os.kill(os.getpid(), signal.SIGKILL)

    def wait(self) -> None:
        """Wait for a kill that is under way: on a busy machine it is late."""
        if self._child:
            os.waitpid(self._child, 0)


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main(Path(words[0]), words[1], int(words[2]), int(words[3])))
