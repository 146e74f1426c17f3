"""What a machine does within one window: use and clocks of CPUs, GPU and memory, temperatures.

``OtherWork`` is the part of the CPUs' time that other programs had. Sources: proc(5) for
``/proc/stat`` (jiffies of each CPU; the 4th and 5th column are idle), columns 14 and 15 of
``/proc/<pid>/stat`` (the jiffies that all threads of a process ran; time that a hypervisor took is
other programs' as well) and ``/proc/meminfo``; Documentation/admin-guide/pm/cpufreq.rst of the
Linux kernel (scaling_cur_freq in kHz); ``load`` of L4T's GPU driver, per mille of the time; thermal
zones in m°C.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from mansard.core.records import Reading
from mansard.core.text import printable
from mansard.device.conditions.sources import COLDEST_C, HOTTEST_C, Sources
from mansard.device.system import SYSTEM_ROOT, below, find_paths, glob, read_int, read_text

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
        """Jiffies since boot in which the CPUs worked for other processes."""
        jiffies = read_jiffies(read_text(self._root / "proc/stat") or "")
        if not self._cpus <= jiffies.keys() or not processes.keys() >= set(self._pids):
            return None
        at_work = sum(total - idle for cpu, (total, idle) in jiffies.items() if cpu in self._cpus)
        return at_work - sum(processes[pid].n_jiffies for pid in self._pids)

    def _processes(self) -> dict[int, _Process]:
        processes = {}
        for file in (self._root / "proc").glob("[0-9]*/stat"):
            # The name may hold anything.
            name, _, rest = (read_text(file) or "").partition(" (")[2].rpartition(") ")
            columns = rest.split()
            if len(columns) > 12:
                processes[int(file.parent.name)] = _Process(
                    name, int(columns[11]) + int(columns[12])
                )
        return processes


PERIOD_S = 0.1
_CPU = re.compile(r"^cpu([0-9]{1,4}) ([0-9 ]+)$", re.MULTILINE)
_KIB = re.compile(r"^(MemTotal|MemAvailable|SwapTotal|SwapFree): +([0-9]{1,15}) kB$", re.MULTILINE)
_LOADS = ("/sys/devices/*/load", "/sys/devices/platform/*/load", "/sys/devices/platform/*/*/load")


def find_gpu_load(root: Path) -> Path | None:
    """The file with the GPU's use in per mille of the time; None where the board has none."""
    files = (below(root, path) for place in _LOADS for path in find_paths(root, place))
    return next(files, None)


def read_memory_bytes(root: Path) -> dict[str, int]:
    """MemTotal, MemAvailable, SwapTotal and SwapFree, those that the kernel tells."""
    text = read_text(root / "proc/meminfo") or ""
    return {name: int(number) * 1024 for name, number in _KIB.findall(text)}


def read_jiffies(stat: str) -> dict[int, tuple[int, int]]:
    """All jiffies of each CPU in ``/proc/stat``, and those in which it was idle."""
    jiffies = {}
    for cpu, text in _CPU.findall(stat):
        columns = [int(column) for column in text.split()[:8]]
        jiffies[int(cpu)] = (sum(columns), sum(columns[3:5]))
    return jiffies


class Telemetry:
    """``with Telemetry(sources) as seen: …`` and then ``seen.readings``; no reading raises.

    One reading in each period, the first and last included, in a thread.
    """

    def __init__(self, sources: Sources, period_s: float = PERIOD_S) -> None:
        self._sources, self._period_s = sources, period_s
        self._values: dict[str, list[float]] = {}
        self._jiffies: dict[int, tuple[int, int]] = {}
        root = sources.root
        cpus = glob(below(root, "/sys/devices/system/cpu"), "cpu[0-9]*")
        self._files = [(f"{cpu.name}_hz", cpu / "cpufreq/scaling_cur_freq", 1e3) for cpu in cpus]
        load = find_gpu_load(root)
        self._files += [("gpu_share", load, 1e-3)] if load is not None else []
        self._zones = [
            (f"{name}_temperature_c", zone / "temp")
            for zone in glob(below(root, "/sys/class/thermal"), "thermal_zone[0-9]*")
            if (name := read_text(zone / "type"))
        ]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def __enter__(self) -> Telemetry:
        self._read()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._read()

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Minimum, maximum and mean of everything that could be read."""
        return tuple(
            Reading(name=name, low=min(values), high=max(values), mean=sum(values) / len(values))
            for name, values in self._values.items()
        )

    def _run(self) -> None:
        while not self._is_over.wait(self._period_s):
            self._read()

    def _read(self) -> None:
        sources = self._sources
        self._read_cpus(read_text(sources.root / "proc/stat") or "")
        memory = read_memory_bytes(sources.root)
        for name, whole, free in (
            ("memory_bytes", "MemTotal", "MemAvailable"),
            ("swap_bytes", "SwapTotal", "SwapFree"),
        ):
            if whole in memory and free in memory:
                self._keep(name, float(memory[whole] - memory[free]))
        for name, path, unit in self._files:
            value = read_int(path)
            self._keep(name, None if value is None else value * unit)
        for name, path in self._zones:
            celsius = (read_int(path) or 0) / 1e3  # a zone at 0 °C is one that does not answer
            self._keep(name, celsius if celsius and COLDEST_C < celsius < HOTTEST_C else None)
        for name, clock in (("gpu_hz", sources.gpu_clock), ("memory_hz", sources.memory_clock)):
            self._keep(name, clock.read_hz() if clock else None)
        self._keep("memory_share", sources.read_memory_share())

    def _read_cpus(self, stat: str) -> None:
        """The share of the time since the last reading in which each CPU was not idle."""
        for cpu, (total, idle) in read_jiffies(stat).items():
            before, idle_before = self._jiffies.get(cpu, (total, idle))
            if total > before:
                busy = 1 - (idle - idle_before) / (total - before)
                self._keep(f"cpu{cpu}_share", min(1.0, max(0.0, busy)))
            if total > before or cpu not in self._jiffies:
                self._jiffies[cpu] = (total, idle)

    def _keep(self, name: str, value: float | None) -> None:
        if value is not None:
            self._values.setdefault(name, []).append(value)
