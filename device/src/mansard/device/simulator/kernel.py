"""The kernel's part of a simulated board: which written values it takes, and what follows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Any

from mansard.device.simulator.figures import Cluster, Figures
from mansard.device.simulator.readings import Reading, set_text
from mansard.device.simulator.tools.board import format_list
from mansard.device.system import read_text

CPU = "sys/devices/system/cpu"
EMC = "sys/kernel/debug/bpmp/debug/clk/emc"


def number_in(path: Path) -> int | None:
    """The integer that was written; None while a writer is half way, and for junk."""
    text = read_text(path)
    try:
        return int(text) if text else None
    except ValueError:
        return None


class Limits:
    """A lowest and a highest frequency, in the unit of their files."""

    def __init__(self, folder: Path, names: tuple[str, str], table: tuple[int, ...]) -> None:
        self.paths = (folder / names[0], folder / names[1])
        self.table = table
        self.resolves = True  # whether values are moved to the table
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
        written = number_in(path)
        if written is None:
            if read_text(path):  # junk; an empty file is one that is being written
                set_text(path, str(self.kept[which]))
            return False
        value = min(max(written, self.table[0]), self.table[-1])
        if self.resolves:
            value = self._resolve(value, which)
        if lower and written != self.kept[which]:
            value = self.table[max(0, bisect_left(self.table, value) - 1)]
        wanted = [value, self.high] if which == 0 else [self.low, value]
        if refused or wanted[0] > wanted[1]:
            wanted = list(self.kept)
        if written != wanted[which]:
            set_text(path, str(wanted[which]))
        changed = wanted != self.kept
        self.kept = wanted
        return changed

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
        return max(min(self.table[index], self.high, ceiling), self.table[0])


class Kernel:
    """All settings of one tree, as they were last accepted."""

    def __init__(self, board: Figures, root: Path) -> None:
        self.board, self.root = board, root
        self.faults: dict[str, Any] = {}
        self.cpu = {c.param: self._cpu_limits(c) for c in board.clusters}
        names = ("min_freq", "max_freq")
        self.gpu = [Limits(root / g.devfreq.lstrip("/"), names, g.hz) for g in board.gpus]
        self.memory: list[Limits] = []
        if board.bwmgr:
            self.memory = [Limits(root / board.bwmgr.lstrip("/"), names, board.emc_hz)]
        self.switches = {root / CPU / f"cpu{cpu}/online": cpu for cpu in board.cpus}
        self.on = {cpu for path, cpu in self.switches.items() if read_text(path) != "0"}
        self.lock = root / EMC / "mrq_rate_locked"
        self.rate = root / EMC / "rate"
        self.locked_hz = number_in(self.rate) if number_in(self.lock) == 1 else None
        self._lists = [Reading(root / CPU / name, 40) for name in ("online", "offline")]
        self._affected = {
            c.param: Reading(root / CPU / f"cpufreq/policy{c.cpus[0]}/affected_cpus", 40)
            for c in board.clusters
        }

    def _cpu_limits(self, cluster: Cluster) -> Limits:
        folder = self.root / CPU / f"cpufreq/policy{cluster.cpus[0]}"
        limits = Limits(folder, ("scaling_min_freq", "scaling_max_freq"), cluster.khz)
        limits.resolves = self.board.resolves_cpu
        return limits

    @property
    def watched(self) -> list[Path]:
        """Every file that a write to has consequences."""
        limits = [path for group in self._groups().values() for x in group for path in x.paths]
        return [*limits, *self.switches, self.lock, self.rate]

    def _groups(self) -> dict[str, list[Limits]]:
        return {"cpu": list(self.cpu.values()), "gpu": self.gpu, "memory": self.memory}

    def written(self, path: Path) -> str | None:
        """React to a write; the domain whose limits changed, if any."""
        if path in self.switches:
            self._switch(path)
        elif path in (self.lock, self.rate):
            self._lock_memory()
        else:
            return self._limit(path)
        return None

    def _limit(self, path: Path) -> str | None:
        asleep = {param for c in self.board.clusters if not self.on & set(c.cpus)
                  for param in (c.param,)}
        for domain, group in self._groups().items():
            for limits in group:
                if path in limits.paths:
                    refused = domain == "cpu" and any(self.cpu[p] is limits for p in asleep)
                    lower = bool(self.faults.get("kernel_rounds"))
                    changed = limits.settle(path, refused=refused, lower=lower)
                    return domain if changed else None
        return None

    def put_back(self, domain: str) -> None:
        """Somebody else wants the old limits of a domain back."""
        for limits in self._groups().get(domain, []):
            limits.put_back()

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
            reading.touched()
            reading.show(format_list(list(cpus)))
        for cluster in self.board.clusters:
            on = [cpu for cpu in cluster.cpus if cpu in self.on]
            self._affected[cluster.param].show(" ".join(map(str, on)))
            for cpu in cluster.cpus:
                self._link(cluster, cpu)

    def _link(self, cluster: Cluster, cpu: int) -> None:
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

    def memory_cap_hz(self) -> int:
        """The highest clock of the memory: nvpmodel's cap, 0 of it being none."""
        if self.memory:
            return self.memory[0].high
        cap = number_in(self.root / (self.board.emc_cap or "").lstrip("/")) or 0
        return min(cap, self.board.emc_hz[-1]) if cap > 0 else self.board.emc_hz[-1]

    def active_tpcs(self) -> float:
        """The share of the GPU that is not gated off."""
        if not self.board.gpu_folder or not self.board.n_tpcs:
            return 1.0
        mask = number_in(self.root / self.board.gpu_folder.lstrip("/") / "tpc_pg_mask") or 0
        n_gated = bin(mask & ((1 << self.board.n_tpcs) - 1)).count("1")
        return 1 - n_gated / self.board.n_tpcs
