"""How much of the CPUs' time other programs had, and which of them had most.

Source: proc(5), ``/proc/stat`` (jiffies of each CPU; the 4th and 5th column are idle) and columns
14 and 15 of ``/proc/<pid>/stat``, the jiffies that all threads of a process ran. Time that a
hypervisor took is other programs' as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from mansard.core.text import printable
from mansard.device.conditions.telemetry import read_jiffies
from mansard.device.system import SYSTEM_ROOT, read_text

_STEPS = 2  # jiffies by which such counts may be wrong, on each CPU
_LONGEST_NAME = 40


class _Process(NamedTuple):
    name: str
    n_jiffies: int


class OtherWork:
    """``with OtherWork(cpus, pids) as others: …`` and then ``others.share``, ``others.busiest``.

    ``pids``: processes that are not others. They run on ``cpus`` alone.
    """

    def __init__(
        self,
        cpus: Collection[int],
        pids: Collection[int],
        root: Path = SYSTEM_ROOT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cpus, self._pids, self._root, self._clock = frozenset(cpus), pids, root, clock
        self._before: dict[int, _Process] = {}
        self.share: float | None = None  # of the CPUs' time; None: the kernel does not say
        self.busiest = ""  # the program that had most, on whatever CPU; empty: none is seen

    def __enter__(self) -> OtherWork:
        self._start_s, self._before = self._clock(), self._processes()
        self._before_jiffies = self._of_others(self._before)
        return self

    def __exit__(self, *_: object) -> None:
        processes, n_per_s = self._processes(), os.sysconf("SC_CLK_TCK")
        after, taken_s = self._of_others(processes), self._clock() - self._start_s
        if after is None or self._before_jiffies is None:
            return
        others = max(0, after - self._before_jiffies - _STEPS * len(self._cpus))
        self.share = min(1.0, others / (n_per_s * taken_s * len(self._cpus)))
        most = 0
        for pid, (name, n_jiffies) in processes.items():
            used = n_jiffies - self._before.get(pid, _Process("", 0)).n_jiffies
            if used > most and pid not in self._pids:
                most, self.busiest = used, printable(name, _LONGEST_NAME)

    def _of_others(self, processes: dict[int, _Process]) -> int | None:
        """Jiffies in which the CPUs were at work for others, since the machine was started."""
        found = read_jiffies(read_text(self._root / "proc/stat") or "")
        if not self._cpus <= found.keys() or not processes.keys() >= set(self._pids):
            return None
        at_work = sum(total - idle for cpu, (total, idle) in found.items() if cpu in self._cpus)
        return at_work - sum(processes[pid].n_jiffies for pid in self._pids)

    def _processes(self) -> dict[int, _Process]:
        found = {}
        for file in (self._root / "proc").glob("[0-9]*/stat"):
            # The name may hold anything.
            name, _, rest = (read_text(file) or "").partition(" (")[2].rpartition(") ")
            columns = rest.split()
            if len(columns) > 12:
                found[int(file.parent.name)] = _Process(name, int(columns[11]) + int(columns[12]))
        return found
