"""The rails of a simulated board in virtual time: the readings of its sensors under load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from mansard.core.clock import VirtualClock
from mansard.core.records import PowerSample
from mansard.device.meters.meter import Meter, Meters, power_sample
from mansard.simulator.boards.spec import BoardSpec, MonitorSpec, RailSpec
from mansard.simulator.clocks import (
    AMBIENT_C,
    Shares,
    dynamic,
    ina238_uw,
    ina3221_reading,
    mean,
    rail_powers,
    with_noise,
)
from mansard.simulator.daemon import PERIOD_S, board_of
from mansard.simulator.kernel import SimulatedKernel, number_in

_WARM_C = AMBIENT_C + 15.0  # a board in the middle of a sweep; it heats up over more than a trial
_EMC_RATE = "sys/kernel/debug/bpmp/debug/clk/emc/rate"


class VirtualClocks:
    """The clocks and switches of a simulated board, read once from its files."""

    def __init__(self, root: Path) -> None:
        self.board = board_of(root)
        self._kernel = SimulatedKernel(self.board, root)
        folder = root / self.board.gpus[0].devfreq.lstrip("/")
        self.gpu_hz = float(number_in(folder / "cur_freq") or self._kernel.gpu[0].high)
        self.memory_hz = float(number_in(root / _EMC_RATE) or self._kernel.memory_cap_hz())

    def shares(self, gpu: float, memory: float) -> Shares:
        """The dynamic power of each unit at these loads of GPU and memory, with idle CPUs."""
        board, kernel = self.board, self._kernel
        idle = [
            dynamic(kernel.cpu[cluster.param].high / cluster.khz[-1], 0.0)
            if cpu in kernel.on
            else 0.0
            for cluster in board.clusters
            for cpu in cluster.cpus
        ]
        return Shares(
            cpu=mean(idle),
            gpu=dynamic(self.gpu_hz / board.gpus[0].hz[-1], gpu) * kernel.active_tpcs(),
            memory=dynamic(self.memory_hz / board.emc_hz[-1], memory),
        )


class VirtualRails:
    """A `Meter` with the rails of ``real``; ``load_now``: how busy GPU and memory are."""

    def __init__(
        self,
        real: Meter,
        clocks: VirtualClocks,
        time: VirtualClock,
        load_now: Callable[[], tuple[float, float]],
    ) -> None:
        self._real, self._clocks, self._time, self._load_now = real, clocks, time, load_now
        self.name, self.rails = real.name, real.rails
        self.period_s, self.pace_s = real.period_s, real.pace_s
        self.total_rule, self.boundary = real.total_rule, real.boundary
        self.step_w, self.step_note, self.sensor = real.step_w, real.step_note, real.sensor
        self._noise = Random(0)  # noqa: S311
        self._chips = _chips(clocks.board)
        self._tick = -1
        self._shown_w: dict[str, float] = {}

    def read(self) -> tuple[PowerSample, ...]:
        """One sample of each rail; the sensors convert every 10 ms."""
        now_s = self._time.now_s()
        tick = int(now_s / PERIOD_S)
        if tick != self._tick:
            self._tick, self._shown_w = tick, self._convert()
        return tuple(power_sample(rail, now_s, self._shown_w[rail]) for rail in self.rails)

    def _convert(self) -> dict[str, float]:
        rails = self._clocks.board.rails
        powers_w = rail_powers(rails, self._clocks.shares(*self._load_now()), _WARM_C)
        seen_w = with_noise(rails, powers_w, self._noise)
        return {rail.label: _shown_w(self._chips[rail.label], rail, seen_w) for rail in rails}


def virtual_meters(
    real: Meters,
    clocks: VirtualClocks,
    time: VirtualClock,
    load_now: Callable[[], tuple[float, float]],
) -> Meters:
    """The meters of a simulated board, ``real``, in virtual time, with the same total."""
    meters = tuple(VirtualRails(meter, clocks, time, load_now) for meter in real.found)
    return Meters(meters, real.missing, real.total, real.why_no_total, time.clock())


def _chips(board: BoardSpec) -> dict[str, MonitorSpec]:
    return {rail.label: chip for chip in board.monitors for rail in chip.rails if rail is not None}


def _shown_w(chip: MonitorSpec, rail: RailSpec, seen_w: dict[str, float]) -> float:
    power_w = seen_w[rail.label]
    if chip.chip == "ina238":
        return ina238_uw(power_w) * 1e-6
    bus_mv, current_ma, _ = ina3221_reading(rail, power_w)
    return bus_mv * current_ma * 1e-6
