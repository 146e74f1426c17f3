"""How many CPUs other programs used meanwhile, and which: their traffic passes for contention."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mansard.core.text import printable
from mansard.device.system import SYSTEM_ROOT, read_text

_MOST_SHARE = 0.075  # of the CPUs that are measured: of two 0.15
_LOST_TICKS = 3  # of 10 ms: what the counts of a trial, of some tenths of a second, are off by
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE, _WAITING, _GUEST = 3, 4, 8  # numbers of /proc/stat (man proc_stat); guests count as user
_USER, _SYSTEM = 11, 12  # numbers of /proc/PID/stat after the name (man proc_pid_stat)
_LONGEST_NAME = 40


class OtherWork:
    """A context manager; afterwards ``words`` says how many CPUs others used, if that was much.

    That is the busy time of all CPUs, also what a hypervisor took, without that of this process;
    the program that used most is named where it can be seen. Nothing is said where the kernel does
    not count it. A board that is simulated lends no CPU: this machine's kernel counts.
    """

    def __init__(self, n_cpus: int, root: Path = SYSTEM_ROOT) -> None:
        self._folder, self._most_cpus = root / "proc", _MOST_SHARE * n_cpus
        self._start_s = self._before_s = 0.0
        self._before: dict[str, tuple[str, int]] = {}
        self.words: tuple[str, ...] = ()

    def __enter__(self) -> OtherWork:
        self._before = self._by_process()
        self._start_s, self._before_s = time.monotonic(), self._others_s()
        return self

    def __exit__(self, *_: object) -> None:
        used_s, passed_s = self._others_s() - self._before_s, time.monotonic() - self._start_s
        if used_s - _LOST_TICKS / _TICKS_PER_S <= self._most_cpus * passed_s:
            return
        n_most, most = max(
            (
                (n_ticks - self._before.get(number, ("", 0))[1], name)
                for number, (name, n_ticks) in self._by_process().items()
            ),
            default=(0, ""),
        )
        name = f", most of all {printable(most, _LONGEST_NAME)}" if n_most else ""
        self.words = (f"other programs used {used_s / passed_s:.1f} CPUs{name}",)

    def _others_s(self) -> float:
        line = (read_text(self._folder / "stat") or "").partition("\n")[0].split()
        ticks = [int(word) for word in line[1:] if word.isdecimal()]
        if len(ticks) <= _WAITING or line[0] != "cpu":
            return 0.0
        busy = sum(ticks[:_GUEST]) - ticks[_IDLE] - ticks[_WAITING]
        own = os.times()
        return busy / _TICKS_PER_S - own.user - own.system

    def _by_process(self) -> dict[str, tuple[str, int]]:
        """The name of each other process, and its ticks, by its number."""
        found = {}
        for folder in self._folder.glob("[0-9]*"):
            number, _, rest = (read_text(folder / "stat") or "").partition(" (")
            name, _, numbers = rest.rpartition(") ")
            ticks = numbers.split()[_USER : _SYSTEM + 1]
            if len(ticks) == 2 and number != str(os.getpid()):
                found[number] = name, sum(int(one) for one in ticks if one.isdecimal())
        return found
