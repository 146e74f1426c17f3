"""How much of the CPUs' time other programs had.

Source: proc(5), ``/proc/stat`` (jiffies of each CPU; the 4th and 5th column are idle) and columns
14 and 15 of ``/proc/<pid>/stat``, the jiffies that all threads of a process ran. Time that a
hypervisor took is other programs' as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path

from mansard.device.conditions.telemetry import read_jiffies
from mansard.device.system import SYSTEM_ROOT, read_text

_STEPS = 5  # jiffies by which such counts may be wrong, on each CPU


class OtherWork:
    """``with OtherWork(cpus, pids) as others: …`` and then ``others.share``.

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
        self.share: float | None = None  # of the CPUs' time; None: the kernel does not say

    def __enter__(self) -> OtherWork:
        self._start_s, self._before = self._clock(), self._read()
        return self

    def __exit__(self, *_: object) -> None:
        after, n_jiffies = self._read(), os.sysconf("SC_CLK_TCK")
        taken_s = self._clock() - self._start_s
        if after is None or self._before is None:
            return
        others = max(0, after - self._before - _STEPS * len(self._cpus))
        self.share = min(1.0, others / (n_jiffies * taken_s * len(self._cpus)))

    def _read(self) -> int | None:
        """Jiffies in which the CPUs were at work for others, since the machine was started."""
        found = read_jiffies(read_text(self._root / "proc/stat") or "")
        own = [self._of_process(pid) for pid in self._pids]
        if not self._cpus <= found.keys() or None in own:
            return None
        at_work = sum(total - idle for cpu, (total, idle) in found.items() if cpu in self._cpus)
        return at_work - sum(each or 0 for each in own)

    def _of_process(self, pid: int) -> int | None:
        text = read_text(self._root / f"proc/{pid}/stat") or ""
        columns = text.rpartition(")")[2].split()  # the name before it may hold anything
        return int(columns[11]) + int(columns[12]) if len(columns) > 12 else None
