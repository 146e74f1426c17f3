"""The model of a simulated board: clocks from load, power from clocks, heat from power.

The physics are made up but for their shape. Dynamic power of a clocked circuit is proportional to
f·V²·utilisation, and its voltage rises with the clock; heat follows power through one resistance
and one capacity: C·dT/dt = P − (T − T_ambient)/R.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

import msgspec

from mansard.device.system import read_text
from mansard.simulator.boards.spec import BoardSpec, RailSpec
from mansard.simulator.kernel import ReadingFile, SimulatedKernel

AMBIENT_C = 32.0
_LOWEST_V = 0.6  # at no clock, of 1 at the highest
_CLOCK_TREE = 0.06  # share of a unit's dynamic power that it draws when idle
_TIME_CONSTANT_S = 12.0
_RISE_C = 55.0  # at full power
_LEAK_PER_C = 0.002
NOISE = 0.005  # relative, of one reading

SHUNT_STEP_V = 40e-6  # INA3221, data sheet: 40 µV of the shunt, 8 mV of the bus
BUS_STEP_MV = 8
_INA238_STEP_W = 0.0005  # made up: the chip's own is finer than anything seen


class Shares(msgspec.Struct, frozen=True):
    """The dynamic power of each unit, relative to full load at the highest clock."""

    cpu: float
    gpu: float
    memory: float


def voltage(share_of_clock: float) -> float:
    """The voltage, relative to that at the highest clock."""
    return _LOWEST_V + (1 - _LOWEST_V) * share_of_clock


def dynamic(share_of_clock: float, utilisation: float) -> float:
    """f·V²·utilisation with the clock tree's share, relative to full load at the highest clock."""
    busy = _CLOCK_TREE + (1 - _CLOCK_TREE) * utilisation
    return float(share_of_clock * voltage(share_of_clock) ** 2 * busy)


def mean(values: Iterable[float]) -> float:
    """The mean; 0 of no values."""
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else 0.0


def rail_powers(
    rails: tuple[RailSpec, ...], shares: Shares, temperature_c: float
) -> dict[str, float]:
    """Watts of every rail, without noise; a rail carries its parts as well."""
    leak = 1 + _LEAK_PER_C * (temperature_c - AMBIENT_C)
    without_parts_w = {
        rail.label: rail.idle_w * leak
        + rail.cpu_w * shares.cpu
        + rail.gpu_w * shares.gpu
        + rail.memory_w * shares.memory
        for rail in rails
    }
    return {
        rail.label: without_parts_w[rail.label] + sum(without_parts_w[part] for part in rail.parts)
        for rail in rails
    }


def with_noise(
    rails: tuple[RailSpec, ...], powers: Mapping[str, float], noise: Random
) -> dict[str, float]:
    """The powers with the noise of one reading."""
    return {
        rail.label: powers[rail.label] * (1 + noise.gauss(0, NOISE))
        + (noise.gauss(0, rail.noise_w) if rail.noise_w else 0.0)
        for rail in rails
    }


def most_power_w(board: BoardSpec) -> float:
    """The power of all rails, each counted once, at full load and the highest clocks."""
    return sum(r.idle_w + r.cpu_w + r.gpu_w + r.memory_w for r in board.rails)


def warmer_c(temperature_c: float, power_w: float, most_w: float, elapsed_s: float) -> float:
    """The temperature after ``elapsed_s`` at ``power_w``."""
    goal = AMBIENT_C + _RISE_C * power_w / most_w
    return goal + (temperature_c - goal) * math.exp(-elapsed_s / _TIME_CONSTANT_S)


def ina3221_reading(rail: RailSpec, power_w: float) -> tuple[int, int, int]:
    """The chip's readings of a rail: bus in mV, current in mA, shunt in µV."""
    bus_mv = round(rail.volt * 1000) // BUS_STEP_MV * BUS_STEP_MV
    n_steps = round(power_w / (bus_mv / 1000) * rail.shunt_ohm / SHUNT_STEP_V)
    shunt_v = n_steps * SHUNT_STEP_V
    return bus_mv, round(shunt_v / rail.shunt_ohm * 1000), round(shunt_v * 1e6)


def ina238_uw(power_w: float) -> int:
    """The reading of an INA238, µW."""
    return round(round(power_w / _INA238_STEP_W) * _INA238_STEP_W * 1e6)


class BoardLoad(msgspec.Struct, frozen=True):
    """Utilisations from 0 to 1."""

    cpus: dict[int, float]
    gpu: float
    memory: float


class LoadSource:
    """Reads the tree's load file, or this machine's /proc/stat where there is none."""

    def __init__(self, file: Path, host_stat: Path = Path("/proc/stat")) -> None:
        self._file, self._host_stat = file, host_stat
        self._fixed = self._read_file()
        self._before = self._ticks()
        self._shares: dict[int, float] = {}

    def reread(self) -> None:
        """Note that the load file was replaced."""
        self._fixed = self._read_file()

    def _read_file(self) -> dict[str, float] | None:
        try:
            loads = json.loads(self._file.read_text())
            return {key: min(1.0, max(0.0, float(value))) for key, value in loads.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def sample(self) -> None:
        """Look at this machine's counters again; they tick every 10 ms."""
        if self._fixed is not None:
            return
        now = self._ticks()
        for cpu, (busy, total) in now.items():
            old_busy, old_total = self._before.get(cpu, (0, 0))
            if total > old_total:
                self._shares[cpu] = min(1.0, max(0.0, (busy - old_busy) / (total - old_total)))
        self._before = now

    def load(self, on: set[int]) -> BoardLoad:
        """The load of the cores that are on, the GPU and the memory."""
        if self._fixed is None:
            cpus = {cpu: self._shares.get(cpu, 0.0) for cpu in on}
            busiest = max(cpus.values(), default=0.0)
            return BoardLoad(cpus, 0.0, 0.3 * busiest)
        every = self._fixed.get("cpu", 0.0)
        gpu = self._fixed.get("gpu", 0.0)
        memory = self._fixed.get("memory", max(0.3 * every, 0.5 * gpu))
        return BoardLoad(dict.fromkeys(on, every), gpu, memory)

    def _ticks(self) -> dict[int, tuple[int, int]]:
        ticks: dict[int, tuple[int, int]] = {}
        try:
            lines = self._host_stat.read_text().splitlines()
        except OSError:
            return {}
        for line in lines:
            words = line.split()
            if words and words[0].startswith("cpu") and words[0] != "cpu":
                counts = [int(word) for word in words[1:9]]
                idle = counts[3] + counts[4]
                ticks[int(words[0][3:])] = (sum(counts) - idle, sum(counts))
        return ticks


THROTTLED = 0.6  # of the highest clock; made up
_CPU = "sys/devices/system/cpu"


class RunningClocks:
    """The clocks that cur_freq and similar files show."""

    def __init__(self, board: BoardSpec, root: Path) -> None:
        self._board = board
        self._cpu = {
            c.param: ReadingFile(root / _CPU / f"cpufreq/policy{c.cpus[0]}/scaling_cur_freq")
            for c in board.clusters
        }
        self._gpu = []
        for gpu in board.gpus:
            folder = root / gpu.devfreq.lstrip("/")
            names = ("cur_freq", "target_freq", "load")
            self._gpu.append(tuple(ReadingFile(folder / name) for name in names))
        # Its own folder shows the load as well.
        self._gpu_load = ReadingFile(root / (board.gpu_folder or "none").lstrip("/") / "load")
        self._rate = root / "sys/kernel/debug/bpmp/debug/clk/emc/rate"
        self._memory = [ReadingFile(self._rate)]
        if board.bwmgr:
            self._memory.append(ReadingFile(root / board.bwmgr.lstrip("/") / "cur_freq"))
        self._activity = ReadingFile(root / (board.cactmon or "none").lstrip("/"))

    def run(self, kernel: SimulatedKernel, load: BoardLoad, *, throttled: bool) -> Shares:
        """Set every clock for this load; returns what it costs."""
        scale = THROTTLED if throttled else 1.0
        return Shares(
            cpu=self._run_cpus(kernel, load, scale),
            gpu=self._run_gpus(kernel, load, scale),
            memory=self._run_memory(kernel, load),
        )

    def _run_cpus(self, kernel: SimulatedKernel, load: BoardLoad, scale: float) -> float:
        total = 0.0
        for cluster in self._board.clusters:
            on = [cpu for cpu in cluster.cpus if cpu in kernel.on]
            if not on:
                continue
            limits = kernel.cpu[cluster.param]
            ceiling = round(cluster.khz[-1] * scale)
            busiest = max(load.cpus.get(cpu, 0.0) for cpu in on)
            khz = limits.step_for(kernel.governed_share(cluster, busiest), ceiling)
            self._cpu[cluster.param].show(khz)
            clock = khz / cluster.khz[-1]
            total += sum(dynamic(clock, load.cpus.get(cpu, 0.0)) for cpu in on)
        return total / len(self._board.cpus)

    def _run_gpus(self, kernel: SimulatedKernel, load: BoardLoad, scale: float) -> float:
        shares = []
        for gpu, limits, files in zip(self._board.gpus, kernel.gpu, self._gpu, strict=True):
            hz = limits.step_for(load.gpu, round(gpu.hz[-1] * scale))
            for file, value in zip(files, (hz, hz, round(load.gpu * 1000)), strict=True):
                file.show(value)
            shares.append(dynamic(hz / gpu.hz[-1], load.gpu))
        self._gpu_load.show(round(load.gpu * 1000))
        return mean(shares) * kernel.active_tpcs()

    def _run_memory(self, kernel: SimulatedKernel, load: BoardLoad) -> float:
        table, cap = self._board.emc_hz, kernel.memory_cap_hz()
        low = kernel.memory[0].low if kernel.memory else table[0]
        wanted = max(low, load.memory * cap)
        hz = kernel.locked_hz or min(next(f for f in table if f >= wanted), cap)
        # A new rate, or the one that a lock still on its way is to hold, would be lost.
        if not (kernel.is_lock_awaited() or self._memory[0].is_awaited(read_text(self._rate))):
            self._memory[0].show(hz)
        for file in self._memory[1:]:
            file.show(hz)
        # cactmon counts kHz of activity: utilisation is activity over rate.
        self._activity.show(round(load.memory * hz / 1000))
        return dynamic(hz / table[-1], load.memory)

    def rate_written(self, path: Path) -> bool:
        """Whether another program wrote the memory's rate file."""
        return self._memory[0].was_touched(read_text(path))
