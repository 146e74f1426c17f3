"""The kernel of a simulated board: which written values it accepts, and what follows from them.

Files that change by themselves are written in place in one piece, and keep their length: what
is left of it is blank, so that a reader finds the old number or the new one, never half. (A
rename is as safe and a hundred times slower, and a meter that keeps its file open would read
the first number for ever.)
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Any

from mansard.device.system import read_text
from mansard.simulator.boards.spec import BoardSpec, ClusterSpec
from mansard.simulator.tools.board import format_list

_WIDTH = 16


class ReadingFile:
    """One file; a write of what it already holds costs nothing."""

    def __init__(self, path: Path, width: int = _WIDTH) -> None:
        self._width = width
        self._last: object = None
        try:
            self._handle = os.open(path, os.O_WRONLY)
        except OSError:
            self._handle = -1  # a fault took the file away

    def show(self, value: object) -> None:
        """Make the file hold ``value`` and a newline."""
        if value != self._last and self._handle >= 0:
            self._last = value
            os.pwrite(self._handle, f"{value!s:<{self._width - 1}}\n".encode(), 0)

    def forget(self) -> None:
        """Write the file next time whatever its value: another program may have written it."""
        self._last = None

    def was_touched(self, text: str | None) -> bool:
        """Whether the file holds ``text`` by another's hand: then it is written next time."""
        ours = text == str(self._last)
        if not ours:
            self.forget()
        return not ours

    def is_awaited(self, text: str | None) -> bool:
        """Whether another has written ``text`` and its event is still on the way."""
        return self._last is not None and text != str(self._last)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)


def set_text(path: Path, text: str) -> None:
    """Write a setting's value; nothing happens if the file is gone."""
    try:
        handle = os.open(path, os.O_WRONLY)
    except OSError:
        return
    try:
        data = f"{text}\n".encode()
        size = os.fstat(handle).st_size
        os.pwrite(handle, data, 0)
        if size > len(data):
            os.ftruncate(handle, len(data))
    finally:
        os.close(handle)


def number_in(path: Path) -> int | None:
    """The integer that was written; None while a writer is half way, and for junk."""
    return _integer(read_text(path))


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None


class ClockLimits:
    """A lowest and a highest frequency, in the unit of their files."""

    def __init__(
        self, folder: Path, names: tuple[str, str], table: tuple[int, ...], *, resolves: bool
    ) -> None:
        self._resolves = resolves  # whether values are moved to the table
        self.paths = (folder / names[0], folder / names[1])
        self.table = table
        self.kept = [number_in(self.paths[0]) or table[0], number_in(self.paths[1]) or table[-1]]
        self.first = list(self.kept)

    @property
    def low(self) -> int:
        return self.kept[0]

    @property
    def high(self) -> int:
        return self.kept[1]

    def settle(self, path: Path, *, refused: bool = False, lower: bool = False) -> bool:
        """Take or refuse what was written to ``path``; whether a limit has changed.

        The lowest limit is moved up and the highest down to the next step of the table;
        a lowest above the highest is refused, as by EINVAL: the old value stands.
        """
        which = self.paths.index(path)
        text = read_text(path)
        written = _integer(text)
        if written is None:
            if text:  # junk; an empty file is one that is being written
                self._correct(path, text, self.kept[which])
            return False
        value = self._step(written, which)
        if lower and written != self.kept[which]:
            value = self.table[max(0, bisect_left(self.table, value) - 1)]
        wanted = [*self.kept]
        wanted[which] = value
        if wanted[0] > wanted[1]:
            # The other limit may have been written too, its event still on the way.
            other = number_in(self.paths[1 - which])
            wanted[1 - which] = self._step(other or wanted[1 - which], 1 - which)
        if refused or wanted[0] > wanted[1]:
            wanted = [*self.kept]
        if written != wanted[which]:
            self._correct(path, text, wanted[which])
        changed = wanted != self.kept
        self.kept = wanted
        return changed

    def _correct(self, path: Path, judged: str | None, value: int) -> None:
        """Put ``value`` there, unless a newer write is there already: its event is on the way."""
        if read_text(path) == judged:
            set_text(path, str(value))

    def _step(self, value: int, which: int) -> int:
        inside = min(max(value, self.table[0]), self.table[-1])
        return self._resolve(inside, which) if self._resolves else inside

    def _resolve(self, value: int, which: int) -> int:
        if which == 0:
            return self.table[bisect_left(self.table, value)]
        return self.table[bisect_right(self.table, value) - 1]

    def put_back(self) -> None:
        """Both limits as they were when the daemon started."""
        self.kept = list(self.first)
        for path, value in zip(self.paths, self.kept, strict=True):
            set_text(path, str(value))

    def step_for(self, share: float, ceiling: int) -> int:
        """The governor's choice for a utilisation: the next step up, within the limits."""
        wanted = self.low + (self.high - self.low) * min(1.0, 1.25 * share)
        index = min(bisect_left(self.table, wanted), len(self.table) - 1)
        step = max(min(self.table[index], self.high, ceiling), self.table[0])
        return self.table[bisect_right(self.table, step) - 1]


CPU = "sys/devices/system/cpu"
EMC = "sys/kernel/debug/bpmp/debug/clk/emc"


class SimulatedKernel:
    """All settings of one tree, as they were last accepted."""

    def __init__(self, board: BoardSpec, root: Path) -> None:
        self.board, self.root = board, root
        self.faults: dict[str, Any] = {}
        self.cpu = {c.param: self._cpu_limits(c) for c in board.clusters}
        names = ("min_freq", "max_freq")
        devfreq = [(gpu.devfreq, gpu.hz) for gpu in board.gpus]
        devfreq += [(board.bwmgr, board.emc_hz)] if board.bwmgr else []
        limits = [
            ClockLimits(root / folder.lstrip("/"), names, table, resolves=board.resolves)
            for folder, table in devfreq
        ]
        self.gpu, self.memory = limits[: len(board.gpus)], limits[len(board.gpus) :]
        self.switches = {root / CPU / f"cpu{cpu}/online": cpu for cpu in board.cpus}
        self.on = {cpu for path, cpu in self.switches.items() if read_text(path) != "0"}
        self.lock = root / EMC / "mrq_rate_locked"
        self.rate = root / EMC / "rate"
        self._mask = root / (board.gpu_folder or "").lstrip("/") / "tpc_pg_mask"
        self._cap = root / (board.emc_cap or "none").lstrip("/")
        self._governors = {
            c.param: root / CPU / f"cpufreq/policy{c.cpus[0]}/scaling_governor"
            for c in board.clusters
        }
        others = (self._mask, self._cap, *self._governors.values())
        self._texts = {path: read_text(path) for path in others}
        self.locked_hz = number_in(self.rate) if number_in(self.lock) == 1 else None
        self._lists = [ReadingFile(root / CPU / name, 40) for name in ("online", "offline")]
        self._affected = {
            c.param: ReadingFile(root / CPU / f"cpufreq/policy{c.cpus[0]}/affected_cpus", 40)
            for c in board.clusters
        }

    def _cpu_limits(self, cluster: ClusterSpec) -> ClockLimits:
        folder = self.root / CPU / f"cpufreq/policy{cluster.cpus[0]}"
        names = ("scaling_min_freq", "scaling_max_freq")
        return ClockLimits(folder, names, cluster.khz, resolves=self.board.resolves)

    @property
    def watched(self) -> list[Path]:
        """Every file whose writes have consequences."""
        limits = [path for group in self._groups().values() for x in group for path in x.paths]
        return [*limits, *self.switches, self.lock, self.rate, *self._texts]

    def _groups(self) -> dict[str, list[ClockLimits]]:
        return {"cpu": list(self.cpu.values()), "gpu": self.gpu, "memory": self.memory}

    def written(self, path: Path) -> str | None:
        """React to a write; the domain whose limits changed, if any."""
        if path in self.switches:
            self._switch(path)
        elif path == self._mask and self.faults.get("gating_busy"):
            set_text(path, self._texts[path] or "0")
        elif path in self._texts:
            self._texts[path] = read_text(path) or self._texts[path]
        elif path in (self.lock, self.rate):
            before_hz = self.locked_hz
            self._lock_memory()
            return "memory" if self.locked_hz not in {None, before_hz} else None
        else:
            return self._limit(path)
        return None

    def _limit(self, path: Path) -> str | None:
        # A cluster that is off takes nothing: EBUSY.
        asleep = [self.cpu[c.param] for c in self.board.clusters if self._is_asleep(c)]
        lower = bool(self.faults.get("kernel_rounds"))
        for domain, group in self._groups().items():
            for limits in group:
                if path in limits.paths:
                    refused = any(limits is other for other in asleep)
                    changed = limits.settle(path, refused=refused, lower=lower)
                    return domain if changed else None
        return None

    def _is_asleep(self, cluster: ClusterSpec) -> bool:
        if self.on & set(cluster.cpus):
            return False
        # A switch may have been written, its event still on the way.
        mine = [path for path, cpu in self.switches.items() if cpu in cluster.cpus]
        return not any(read_text(path) == "1" for path in mine)

    def kept(self, path: Path) -> str | None:
        """The last accepted value of a setting; None for other files."""
        if path in self.switches:
            return str(int(self.switches[path] in self.on))
        if path == self.lock:
            return str(int(self.locked_hz is not None))
        for limits in (one for group in self._groups().values() for one in group):
            if path in limits.paths:
                return str(limits.kept[limits.paths.index(path)])
        return self._texts.get(path)

    def put_back(self, domain: str) -> None:
        """Restore the old limits of a domain, as another program would."""
        for limits in self._groups().get(domain, []):
            limits.put_back()
        if domain == "memory" and self.locked_hz is not None:
            set_text(self.lock, "0")
            self._lock_memory()

    def _switch(self, path: Path) -> None:
        cpu, text = self.switches[path], read_text(path)
        if not text:
            return
        if text in {"0", "1"}:
            (self.on.add if text == "1" else self.on.discard)(cpu)
        else:
            set_text(path, str(int(cpu in self.on)))
        self.note_online()

    def note_online(self) -> None:
        """The lists, and the folders where a fault makes them come and go."""
        off = [cpu for cpu in self.board.cpus if cpu not in self.on]
        for reading, cpus in zip(self._lists, (sorted(self.on), off), strict=True):
            reading.forget()
            reading.show(format_list(list(cpus)))
        for cluster in self.board.clusters:
            on = [cpu for cpu in cluster.cpus if cpu in self.on]
            self._affected[cluster.param].show(" ".join(map(str, on)))
            for cpu in cluster.cpus:
                self._link(cluster, cpu)

    def _link(self, cluster: ClusterSpec, cpu: int) -> None:
        link = self.root / CPU / f"cpu{cpu}/cpufreq"
        wanted = cpu in self.on or not self.faults.get("cpufreq_gone")
        if wanted and not link.is_symlink():
            link.symlink_to(f"../cpufreq/policy{cluster.cpus[0]}")
        elif not wanted and link.is_symlink():
            link.unlink()

    def _lock_memory(self) -> None:
        rate, table = number_in(self.rate), self.board.emc_hz
        if number_in(self.lock) != 1 or rate is None:
            self.locked_hz = None
            return
        index = min(bisect_left(table, min(rate, self.memory_cap_hz())), len(table) - 1)
        self.locked_hz = table[index]

    def is_lock_awaited(self) -> bool:
        """Whether another has locked the memory's rate and its event is still on the way."""
        known = number_in(self.lock) == 1 and number_in(self.rate) is not None
        return known and self.locked_hz is None

    def memory_cap_hz(self) -> int:
        """The highest clock of the memory: nvpmodel's cap, 0 of it being none."""
        if self.memory:
            return self.memory[0].high
        cap = _whole(self._texts[self._cap])
        return min(cap, self.board.emc_hz[-1]) if cap > 0 else self.board.emc_hz[-1]

    def governed_share(self, cluster: ClusterSpec, share: float) -> float:
        """The utilisation that the governor goes by; performance and powersave ignore it."""
        fixed = {"performance": 1.0, "powersave": 0.0}
        return fixed.get(self._texts[self._governors[cluster.param]] or "", share)

    def active_tpcs(self) -> float:
        """The share of the GPU that is not gated off."""
        if not self.board.n_tpcs:
            return 1.0
        mask = _whole(self._texts[self._mask])
        n_gated = bin(mask & ((1 << self.board.n_tpcs) - 1)).count("1")
        return 1 - n_gated / self.board.n_tpcs


def _whole(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 20 else 0
