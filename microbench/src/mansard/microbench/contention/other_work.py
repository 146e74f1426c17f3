"""How many CPUs other programs used meanwhile: their traffic passes for contention."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mansard.device.system import read_text

_MOST_CPUS = 0.15  # the kernel counts ticks of 10 ms, and a trial lasts some tenths of a second
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE, _WAITING, _GUEST = 3, 4, 8  # numbers of /proc/stat (man proc_stat); guests count as user


class OtherWork:
    """A context manager; afterwards ``words`` says how many CPUs others used, if that was much.

    That is the busy time of all CPUs, also what a hypervisor took, without that of this process.
    Nothing is said where the kernel does not count it.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / "proc/stat"
        self._start_s = self._before_s = 0.0
        self.words: tuple[str, ...] = ()

    def __enter__(self) -> OtherWork:
        self._start_s, self._before_s = time.monotonic(), self._others_s()
        return self

    def __exit__(self, *_: object) -> None:
        n_cpus = (self._others_s() - self._before_s) / (time.monotonic() - self._start_s)
        if n_cpus > _MOST_CPUS:
            self.words = (f"other programs used {n_cpus:.1f} CPUs",)

    def _others_s(self) -> float:
        line = (read_text(self._path) or "").partition("\n")[0].split()
        ticks = [int(word) for word in line[1:] if word.isdecimal()]
        if len(ticks) <= _WAITING or line[0] != "cpu":
            return 0.0
        busy = sum(ticks[:_GUEST]) - ticks[_IDLE] - ticks[_WAITING]
        own = os.times()
        return busy / _TICKS_PER_S - own.user - own.system
