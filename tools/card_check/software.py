"""An H100 in software, with NVML replayed beside it, in virtual time: to try the check without one.

Nothing that it says was measured. Physics "h100" reaches what such a card reaches, "slow" 0.7 of
its rates, and "broken" does 1.2 times the operations in int8 that its SMs can do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mansard.core.clock import Clock
from mansard.core.hardware import Unit, sm_flop_per_cycle
from mansard.core.precision import parse_precision
from mansard.core.records import Gpu
from mansard.device.meters.meter import Meters
from mansard.device.meters.processors import NvmlMeter
from mansard.device.totals import Total
from mansard.microbench.cuda.runtime import Start
from mansard.microbench.cuda.sampling import OpenGpu
from mansard.microbench.cuda.software_gpu import Physics, SoftwareGpu, SoftwareMemory
from mansard.microbench.kernel import Case, Kernel, Launch, cuda_kernels
from tools.card_check import Software
from tools.card_check.opening import Card
from tools.card_check.published import H200_COSTS

H100 = Gpu(
    name="Software H100",
    sm=90,
    n_sms=132,
    l1_bytes=256 << 10,
    l2_bytes=50 << 20,
    memory_bytes=85_000_000_000,
    memory_bus_bits=5120,
    memory_hz=2619e6,
    gpu_hz=1980e6,
    is_integrated=False,
    ecc=True,
    mig=None,
    driver_cuda="13.0",
    runtime_cuda="13.0",
    unknown={"mig": "the GPU is not sliced"},
)
CLOCK_HZ = 1.755e9
LIMIT_W = 700.0
_FREE_BYTES = 80 << 30
# Of the limit: what published measurements let expect; mma.sync is not for the peak of 9.0.
_SHARES = {"fma": 0.98, "mma": 0.62, "gemm": 0.90, "wgmma": 0.95}
_MEMORY_BYTES_PER_S = 0.93 * 2619e6 * 2 * 5120 / 8
_L1_BYTES_PER_CYCLE, _L2_BYTES_PER_CYCLE = 120.0, 32.0  # of one SM
# Of a load, as published for an H100 PCIe.
_CACHE_CYCLES, _DRAM_CYCLES = {"L1": 33, "L2 near": 265, "L2 far": 475}, 650
_SLOW, _BROKEN = 0.7, 1.2
_TENSOR_BIT_J, _CACHE_BYTE_J = 25e-15, 8e-12  # of a FLOP for each bit of its operands; made up
_COUNTER_S = 0.1  # between two values of the energy counter
_MILLI = 1e-3


@dataclass(frozen=True)
class CardPhysics(Physics):
    """`Physics` with a share of the peak for each kernel, and what a repetition costs."""

    speed: float = 1.0
    excess: float | None = None  # of the limit, of tensor cores in int8

    def work_s(self, kernel: Kernel, case: Case, launch: Launch, hz: float) -> float:
        share = self.speed * _SHARES.get(kernel.name, 1.0)
        if kernel.family == "tensor" and case.precision == "int8" and self.excess is not None:
            share = self.excess
        return super().work_s(kernel, case, launch, hz) / share

    def joules(self, kernel: Kernel, case: Case, launch: Launch) -> float:
        """The energy of one repetition beside the constant power."""
        if kernel.family not in {"fma", "stream", "tensor"}:
            return 0.0
        flop_j = H200_COSTS.flop_j
        if kernel.family == "tensor":
            flop_j = _TENSOR_BIT_J * parse_precision(case.precision).n_bits
        is_far = case.working_set_bytes > (self.gpu.l2_bytes or 0)
        byte_j = H200_COSTS.byte_j if is_far else _CACHE_BYTE_J
        work, traffic = kernel.work_flop(case, launch), kernel.traffic_bytes(case, launch)
        return flop_j * work + byte_j * traffic


def physics(name: Software, gpu: Gpu = H100) -> CardPhysics:
    """The physics of a name."""
    rates: dict[tuple[str, str], float] = {}
    units: tuple[Unit, ...] = ("fma", "tensor")
    for precision in {precision for one in cuda_kernels() for precision in one.precisions}:
        for unit in units:
            rate = sm_flop_per_cycle(gpu.sm, precision, unit)
            if rate is not None:
                rates[unit, precision] = float(rate)
    speed = _SLOW if name == "slow" else 1.0
    return CardPhysics(
        gpu=gpu,
        clock_hz=lambda _now_s: CLOCK_HZ,
        flop_per_cycle=rates,
        l1_bytes_per_cycle=speed * _L1_BYTES_PER_CYCLE,
        l2_bytes_per_cycle=speed * _L2_BYTES_PER_CYCLE,
        memory_bytes_per_s=speed * _MEMORY_BYTES_PER_S,
        latency_s=_DRAM_CYCLES / CLOCK_HZ,
        cache_latency_s={level: n / CLOCK_HZ for level, n in _CACHE_CYCLES.items()},
        free_bytes=_FREE_BYTES,
        speed=speed,
        excess=_BROKEN if name == "broken" else None,
    )


class MeteredGpu(SoftwareGpu):
    """A software GPU that keeps what each launch cost."""

    def __init__(self, physics: CardPhysics) -> None:
        super().__init__(physics)
        self._card = physics
        self._spans: list[tuple[float, float, float, float]] = []  # start, end, J, J before

    def load(
        self,
        kernel: Kernel,
        case: Case,
        launch: Launch,
        arrays: Sequence[SoftwareMemory],
        clock: SoftwareMemory,
    ) -> Start:
        start = super().load(kernel, case, launch, arrays, clock)
        joules = self._card.joules(kernel, case, launch)

        def metered(repetitions: int, slot: int) -> None:
            start(repetitions, slot)
            begin_s, end_s = self.busy[-1]
            before = self._spans[-1][3] + self._spans[-1][2] if self._spans else 0.0
            self._spans.append((begin_s, end_s, repetitions * joules, before))

        return metered

    def energy_j(self, now_s: float) -> float:
        """Energy in J from time 0 to ``now_s``."""
        at = bisect_right(self._spans, now_s, key=lambda span: span[0]) - 1
        spent = 0.0
        if at >= 0:
            begin_s, end_s, joules, before = self._spans[at]
            spent = before + joules * min(1.0, (now_s - begin_s) / (end_s - begin_s))
        return H200_COSTS.constant_w * now_s + spent


class ReplayedNvml:
    """Of NVML the functions that read a card, answered by a software GPU's energy.

    The counter has a new value ten times a second, in mJ; power is the mean since the last.
    """

    class NVMLError(Exception):
        """What NVML raises."""

    def __init__(self, gpu: MeteredGpu, clock: Clock) -> None:
        self._gpu, self._clock = gpu, clock

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802 - NVML's names
        return index

    def nvmlDeviceGetTotalEnergyConsumption(self, _card: int) -> int:  # noqa: N802
        return round(self._gpu.energy_j(self._counted_s()) / _MILLI)

    def nvmlDeviceGetPowerUsage(self, _card: int) -> int:  # noqa: N802
        end_s = self._counted_s()
        joules = self._gpu.energy_j(end_s) - self._gpu.energy_j(end_s - _COUNTER_S)
        return round(joules / _COUNTER_S / _MILLI)

    def _counted_s(self) -> float:
        return self._clock.now_s() // _COUNTER_S * _COUNTER_S


def software_card(name: Software, gpu: Gpu = H100) -> Card:
    """A card with the physics of a name."""
    return card_with(MeteredGpu(physics(name, gpu)))


def card_with(runtime: MeteredGpu) -> Card:
    """A card of that runtime, with NVML replayed by its energy."""
    clock = runtime.host.clock
    library: Any = ReplayedNvml(runtime, clock)
    meter = NvmlMeter(library, {"gpu0": (0, True, True)}, clock.now_s)
    total = Total(meter.rails, meter.total_rule, meter.boundary)
    return Card(
        OpenGpu(runtime.physics.gpu, runtime, clock),
        Meters((meter,), {}, total, "", clock),
        versions=dict.fromkeys(("cupy", "numba-cuda", "cublas"), "software"),
        notes=("a card in software: nothing here was measured",),
        is_software=True,
    )
