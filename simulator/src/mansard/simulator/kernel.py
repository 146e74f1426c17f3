"""The kernel's part of a simulated board: which written values it takes, and what follows."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import Any

from mansard.device.system import read_text
from mansard.simulator.figures import Cluster, Figures
from mansard.simulator.limits import Limits, number_in
from mansard.simulator.readings import Reading, set_text
from mansard.simulator.tools.board import format_list

CPU = "sys/devices/system/cpu"
EMC = "sys/kernel/debug/bpmp/debug/clk/emc"


class Kernel:
    """All settings of one tree, as they were last accepted."""

    def __init__(self, board: Figures, root: Path) -> None:
        self.board, self.root = board, root
        self.faults: dict[str, Any] = {}
        self.cpu = {c.param: self._cpu_limits(c) for c in board.clusters}
        names = ("min_freq", "max_freq")
        devfreq = [(gpu.devfreq, gpu.hz) for gpu in board.gpus]
        devfreq += [(board.bwmgr, board.emc_hz)] if board.bwmgr else []
        found = [
            Limits(root / folder.lstrip("/"), names, table, resolves=board.resolves)
            for folder, table in devfreq
        ]
        self.gpu, self.memory = found[: len(board.gpus)], found[len(board.gpus) :]
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
        self._lists = [Reading(root / CPU / name, 40) for name in ("online", "offline")]
        self._affected = {
            c.param: Reading(root / CPU / f"cpufreq/policy{c.cpus[0]}/affected_cpus", 40)
            for c in board.clusters
        }

    def _cpu_limits(self, cluster: Cluster) -> Limits:
        folder = self.root / CPU / f"cpufreq/policy{cluster.cpus[0]}"
        names = ("scaling_min_freq", "scaling_max_freq")
        return Limits(folder, names, cluster.khz, resolves=self.board.resolves)

    @property
    def watched(self) -> list[Path]:
        """Every file that a write to has consequences."""
        limits = [path for group in self._groups().values() for x in group for path in x.paths]
        return [*limits, *self.switches, self.lock, self.rate, *self._texts]

    def _groups(self) -> dict[str, list[Limits]]:
        return {"cpu": list(self.cpu.values()), "gpu": self.gpu, "memory": self.memory}

    def written(self, path: Path) -> str | None:
        """React to a write; the domain whose limits changed, if any."""
        if path in self.switches:
            self._switch(path)
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
                    refused = any(limits is one for one in asleep)
                    changed = limits.settle(path, refused=refused, lower=lower)
                    return domain if changed else None
        return None

    def _is_asleep(self, cluster: Cluster) -> bool:
        if self.on & set(cluster.cpus):
            return False
        # A switch may have been written, its event still on the way.
        mine = [path for path, cpu in self.switches.items() if cpu in cluster.cpus]
        return not any(read_text(path) == "1" for path in mine)

    def kept(self, path: Path) -> str | None:
        """What a setting was when it was last accepted; None for what is no setting."""
        if path in self.switches:
            return str(int(self.switches[path] in self.on))
        if path == self.lock:
            return str(int(self.locked_hz is not None))
        for limits in (one for group in self._groups().values() for one in group):
            if path in limits.paths:
                return str(limits.kept[limits.paths.index(path)])
        return self._texts.get(path)

    def put_back(self, domain: str) -> None:
        """Somebody else wants the old limits of a domain back."""
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
        cap = _whole(self._texts[self._cap])
        return min(cap, self.board.emc_hz[-1]) if cap > 0 else self.board.emc_hz[-1]

    def is_at_full_speed(self, cluster: Cluster) -> bool:
        """Whether the governor is the one that never slows down."""
        return self._texts[self._governors[cluster.param]] == "performance"

    def active_tpcs(self) -> float:
        """The share of the GPU that is not gated off."""
        if not self.board.n_tpcs:
            return 1.0
        mask = _whole(self._texts[self._mask])
        n_gated = bin(mask & ((1 << self.board.n_tpcs) - 1)).count("1")
        return 1 - n_gated / self.board.n_tpcs


def _whole(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 20 else 0
