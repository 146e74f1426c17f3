"""The clocks of a simulated board as they run: between their limits, by load and heat."""

from __future__ import annotations

from pathlib import Path

from mansard.device.system import read_text
from mansard.simulator.figures import Figures
from mansard.simulator.kernel import Kernel
from mansard.simulator.load import Load
from mansard.simulator.physics import Shares, dynamic, mean
from mansard.simulator.readings import Reading

THROTTLED = 0.6  # of the highest clock; made up
_CPU = "sys/devices/system/cpu"


class RunningClocks:
    """What cur_freq and its like show."""

    def __init__(self, board: Figures, root: Path) -> None:
        self._board = board
        self._cpu = {
            c.param: Reading(root / _CPU / f"cpufreq/policy{c.cpus[0]}/scaling_cur_freq")
            for c in board.clusters
        }
        self._gpu = []
        for gpu in board.gpus:
            folder = root / gpu.devfreq.lstrip("/")
            names = ("cur_freq", "target_freq", "load")
            self._gpu.append(tuple(Reading(folder / name) for name in names))
        # Its own folder shows the load as well.
        self._gpu_load = Reading(root / (board.gpu_folder or "none").lstrip("/") / "load")
        rate = root / "sys/kernel/debug/bpmp/debug/clk/emc/rate"
        self._memory = [Reading(rate)]
        if board.bwmgr:
            self._memory.append(Reading(root / board.bwmgr.lstrip("/") / "cur_freq"))
        self._activity = Reading(root / (board.cactmon or "none").lstrip("/"))

    def run(self, kernel: Kernel, load: Load, *, throttled: bool) -> Shares:
        """Set every clock for this load; returns what it costs."""
        scale = THROTTLED if throttled else 1.0
        return Shares(
            cpu=self._run_cpus(kernel, load, scale),
            gpu=self._run_gpus(kernel, load, scale),
            memory=self._run_memory(kernel, load),
        )

    def _run_cpus(self, kernel: Kernel, load: Load, scale: float) -> float:
        total = 0.0
        for cluster in self._board.clusters:
            on = [cpu for cpu in cluster.cpus if cpu in kernel.on]
            if not on:
                continue
            limits = kernel.cpu[cluster.param]
            ceiling = round(cluster.khz[-1] * scale)
            busiest = max(load.cpus.get(cpu, 0.0) for cpu in on)
            share = 1.0 if kernel.is_at_full_speed(cluster) else busiest
            khz = limits.step_for(share, ceiling)
            self._cpu[cluster.param].show(khz)
            clock = khz / cluster.khz[-1]
            total += sum(dynamic(clock, load.cpus.get(cpu, 0.0)) for cpu in on)
        return total / len(self._board.cpus)

    def _run_gpus(self, kernel: Kernel, load: Load, scale: float) -> float:
        shares = []
        for gpu, limits, files in zip(self._board.gpus, kernel.gpu, self._gpu, strict=True):
            hz = limits.step_for(load.gpu, round(gpu.hz[-1] * scale))
            for file, value in zip(files, (hz, hz, round(load.gpu * 1000)), strict=True):
                file.show(value)
            shares.append(dynamic(hz / gpu.hz[-1], load.gpu))
        self._gpu_load.show(round(load.gpu * 1000))
        return mean(shares) * kernel.active_tpcs()

    def _run_memory(self, kernel: Kernel, load: Load) -> float:
        table, cap = self._board.emc_hz, kernel.memory_cap_hz()
        low = kernel.memory[0].low if kernel.memory else table[0]
        wanted = max(low, load.memory * cap)
        hz = kernel.locked_hz or min(next(f for f in table if f >= wanted), cap)
        for file in self._memory:
            file.show(hz)
        # cactmon counts kHz of activity: utilisation is activity over rate.
        self._activity.show(round(load.memory * hz / 1000))
        return dynamic(hz / table[-1], load.memory)

    def rate_written(self, path: Path) -> bool:
        """Whether it was somebody else who wrote the memory's rate file."""
        return self._memory[0].was_touched(read_text(path))
