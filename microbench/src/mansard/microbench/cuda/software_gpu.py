"""A GPU in software: it runs kernels' references and keeps a clock of its own.

The stand-in for simulated boards and for tests: nothing that it says was measured. Its physics is
stated in `Physics`: a launch takes ``launch_s`` plus, for every repetition, the longer of its work
over the peak and its traffic over the bandwidth of the level that holds the working set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mansard.core.caches import latency_windows
from mansard.core.clock import SYSTEM_CLOCK, VirtualClock
from mansard.core.errors import MeasurementError
from mansard.core.records import Gpu, MemoryKind
from mansard.microbench.cuda.runtime import MemoryInfo, Start
from mansard.microbench.kernel import Array, Case, Kernel, Launch, repeat_pattern, shape_of

MIB = 1 << 20

# An AGX Orin 64 in software: shapes and clocks of the module, round figures for the rest.
GPU = Gpu(
    name="Software Orin",
    sm=87,
    n_sms=16,
    l1_bytes=192 * 1024,
    l2_bytes=4 * MIB,
    memory_bytes=32 * 1024 * MIB,
    memory_bus_bits=256,
    memory_hz=3199e6,
    gpu_hz=1300.5e6,
    is_integrated=True,
    ecc=False,
    mig=None,
    driver_cuda="12.6",
    runtime_cuda="12.6",
    unknown={"mig": "this GPU has no MIG"},
)

# FLOP a cycle and SM. Those of compute capability 8.7 are in core/hardware; packed halves, of
# which none is published, at the rate of fp32.
RATES = {
    ("fma", "fp64"): 4.0,
    ("fma", "fp32"): 256.0,
    ("fma", "fp16"): 256.0,
    ("fma", "bf16"): 256.0,
    ("tensor", "fp16"): 2048.0,
    ("tensor", "bf16"): 2048.0,
    ("tensor", "tf32"): 1024.0,
    ("tensor", "int8"): 4096.0,
}


_IDLE = frozenset({"stalled", "launch", "latency"})  # families without arithmetic


class GpuUse(NamedTuple):
    """How busy a GPU and its memory are: shares from 0 to 1."""

    gpu: float
    memory: float


@dataclass(frozen=True)
class Physics:
    """What the software GPU can do. FLOP and bytes a cycle are of one SM."""

    gpu: Gpu = GPU
    n_sms: int | None = None  # that really work; None: all that the GPU says
    clock_hz: Callable[[float], float] = lambda _now_s: 1.3e9
    flop_per_cycle: Mapping[tuple[str, str], float] = field(default_factory=lambda: dict(RATES))
    l1_bytes_per_cycle: float = 128.0
    l2_bytes_per_cycle: float = 32.0
    memory_bytes_per_s: float = 190e9
    latency_s: float = 400e-9  # of loads from main memory, and from any level not named:
    cache_latency_s: Mapping[str, float] = field(default_factory=dict)  # L1, L2, L2 near, L2 far
    launch_s: float = 4e-6
    enqueue_s: float = 5e-6  # of the host
    node_s: float = 1.5e-6  # of a graph
    free_bytes: int = 24 * 1024 * MIB
    factor: Callable[[int], float] = lambda _launch: 1.0  # on the n-th launch's time
    counts_clock: bool = True
    # What its compiler or a library says to a kernel that it does not run; empty where it does.
    refuses: Callable[[Kernel, Case], str] = lambda _kernel, _case: ""

    def seconds(self, kernel: Kernel, case: Case, launch: Launch, hz: float) -> float:
        """One repetition."""
        if kernel.family == "stalled":
            return 100e-6
        if kernel.family == "launch":
            return self.node_s if kernel.is_graph else max(self.launch_s, self.enqueue_s)
        if kernel.family == "latency":
            return kernel.traffic_bytes(case, launch) / 4 * self.load_s(case)
        bandwidth = self.bandwidth(case, self.n_sms or self.gpu.n_sms, hz)
        traffic_s = kernel.traffic_bytes(case, launch) / bandwidth
        return max(self.work_s(kernel, case, launch, hz), traffic_s, 1e-9)

    def load(self, kernel: Kernel, case: Case, launch: Launch) -> GpuUse:
        """How busy GPU and memory are while the kernel runs, made up: three quarters of a GPU's
        dynamic power are its arithmetic's at the peak, a quarter its caches' at their bandwidth.
        """
        hz = self.clock_hz(0.0)
        duration_s = self.seconds(kernel, case, launch, hz)
        bandwidth = self.bandwidth(case, self.n_sms or self.gpu.n_sms, hz)
        traffic = kernel.traffic_bytes(case, launch) / bandwidth / duration_s
        work = 0.0 if kernel.family in _IDLE else self.work_s(kernel, case, launch, hz) / duration_s
        memory = traffic if bandwidth == self.memory_bytes_per_s else 0.0
        return GpuUse(min(1.0, 0.75 * work + 0.25 * traffic), min(1.0, memory))

    def load_s(self, case: Case) -> float:
        """One dependent load: from the first cache that holds the working set, as stated."""
        for window in latency_windows(self.gpu):
            passes = window.level == 1 and case.scope != "sm"
            if not passes and case.working_set_bytes <= window.capacity_bytes:
                return self.cache_latency_s.get(window.name, self.latency_s)
        return self.latency_s

    def work_s(self, kernel: Kernel, case: Case, launch: Launch, hz: float) -> float:
        """The time of one repetition's arithmetic at the peak."""
        unit = "tensor" if kernel.family == "tensor" else "fma"
        rates = self.flop_per_cycle
        # A product without tensor cores of its precision runs on CUDA cores.
        peak = rates.get((unit, case.precision)) or rates["fma", case.precision]
        return kernel.work_flop(case, launch) / ((self.n_sms or self.gpu.n_sms) * peak * hz)

    def bandwidth(self, case: Case, n_sms: int, hz: float) -> float:
        """Bytes per second of the level that holds the working set."""
        l1_bytes, l2_bytes = (self.gpu.l1_bytes or 0) * n_sms, self.gpu.l2_bytes or 0
        if case.scope == "sm" and case.working_set_bytes <= l1_bytes:
            return n_sms * self.l1_bytes_per_cycle * hz
        if case.working_set_bytes <= l2_bytes:
            return n_sms * self.l2_bytes_per_cycle * hz
        return self.memory_bytes_per_s


class _Host:
    """The host's time: virtual, or the real one, which passes by itself."""

    def __init__(self, virtual: VirtualClock | None) -> None:
        self._virtual = virtual
        self.clock = SYSTEM_CLOCK if virtual is None else virtual.clock()

    def now_s(self) -> float:
        return self.clock.now_s()

    def spend(self, duration_s: float) -> None:
        """Let the host's work last this long; in real time it does by itself."""
        if self._virtual is not None:
            self._virtual.sleep(duration_s)

    def wait_until(self, moment_s: float) -> None:
        if self._virtual is not None:
            self._virtual.wait_until(moment_s)
        else:
            self.clock.sleep(max(0.0, moment_s - self.now_s()))


@dataclass
class SoftwareMemory:
    """Memory of the software GPU: the bytes are made when they are read."""

    n_bytes: int
    kind: MemoryKind
    pattern: Array | None = None
    owner: LoadedKernel | None = None
    words: Array | None = None  # the buffer for the kernels' clock words


@dataclass
class LoadedKernel:
    """A kernel with its arrays, and how often it has run since they were filled."""

    kernel: Kernel
    case: Case
    launch: Launch
    arrays: tuple[SoftwareMemory, ...]
    n_repetitions: int = 0


@dataclass
class Mark:
    """A mark of time in the stream."""

    at_s: float


class SoftwareGpu:
    """A `Runtime`; from its ``breaks_at``-th launch on it answers everything with an error."""

    def __init__(
        self,
        physics: Physics | None = None,
        *,
        real_time: bool = False,
        breaks_at: int = 0,
        time: VirtualClock | None = None,
    ) -> None:
        self.physics = physics or Physics()
        self.host = _Host(None if real_time else time or VirtualClock())
        self.busy_until_s = self.host.now_s()
        self.busy: list[tuple[float, float]] = []  # spans in which a kernel ran
        self.live: list[SoftwareMemory] = []
        self.n_launches = 0
        self.n_fills = 0
        self._breaks_at = breaks_at
        self._is_broken = False
        self._load = GpuUse(0.0, 0.0)  # of the kernel that was started last

    def load_now(self) -> GpuUse:
        """How busy it is at this moment."""
        return self._load if self.host.now_s() < self.busy_until_s else GpuUse(0.0, 0.0)

    @property
    def used_bytes(self) -> int:
        return sum(memory.n_bytes for memory in self.live)

    def memory_info(self) -> MemoryInfo:
        total = self.physics.gpu.memory_bytes or 0
        return MemoryInfo(self.physics.free_bytes - self.used_bytes, total)

    def allocate(self, n_bytes: int, memory: MemoryKind) -> SoftwareMemory:
        self._check()
        if n_bytes > self.memory_info().free_bytes:
            raise MemoryError("out of memory")
        buffer = SoftwareMemory(n_bytes, memory)
        self.live.append(buffer)
        return buffer

    def release(self, buffer: SoftwareMemory) -> None:
        self.live = [memory for memory in self.live if memory is not buffer]

    def fill(self, buffer: SoftwareMemory, pattern: Array) -> None:
        self._occupy(buffer.n_bytes / self.physics.memory_bytes_per_s)
        self.n_fills += 1
        buffer.pattern = pattern
        buffer.words = None
        if buffer.owner is not None:
            buffer.owner.n_repetitions = 0

    def read(self, buffer: SoftwareMemory, n_bytes: int) -> Array:
        self.host.wait_until(self.busy_until_s)
        if buffer.words is not None:
            return buffer.words.view(np.uint8)[:n_bytes]
        loaded = buffer.owner
        if loaded is None or loaded.n_repetitions == 0:
            return repeat_pattern(_filled(buffer).ravel().view(np.uint8), n_bytes)
        before = tuple(repeat_pattern(_filled(memory), memory.n_bytes) for memory in loaded.arrays)
        after = loaded.kernel.reference(loaded.case, loaded.launch, before, loaded.n_repetitions)
        index = next(k for k, memory in enumerate(loaded.arrays) if memory is buffer)
        return np.ascontiguousarray(after[index]).view(np.uint8).ravel()[:n_bytes]

    def load(
        self,
        kernel: Kernel,
        case: Case,
        launch: Launch,
        arrays: Sequence[SoftwareMemory],
        clock: SoftwareMemory,
    ) -> Start:
        words = self.physics.refuses(kernel, case)
        if words:
            raise MeasurementError(words)
        loaded = LoadedKernel(kernel, case, launch, tuple(arrays))
        load = self.physics.load(kernel, case, launch)
        for memory in arrays:
            memory.owner = loaded

        def start(repetitions: int, slot: int) -> None:
            self.n_launches += 1
            self._is_broken = self._is_broken or self.n_launches == self._breaks_at
            self._check()
            physics = self.physics
            self.host.spend(physics.enqueue_s)
            hz = physics.clock_hz(max(self.busy_until_s, self.host.now_s()))
            running_s = repetitions * physics.seconds(kernel, case, launch, hz)
            running_s *= physics.factor(self.n_launches)
            self._occupy(physics.launch_s + running_s)
            self._load = load
            loaded.n_repetitions += repetitions
            if clock.words is None:
                clock.words = np.zeros(clock.n_bytes // 8, dtype=np.uint64)
            if physics.counts_clock:
                clock.words[2 * slot] = round(running_s * hz)
                clock.words[2 * slot + 1] = round(running_s * 1e9)

        return start

    def record(self, *, spin: bool = False) -> Mark:  # noqa: ARG002 - no wait of it sleeps
        self._check()
        self.host.spend(2e-6)
        self.busy_until_s = max(self.busy_until_s, self.host.now_s())
        return Mark(self.busy_until_s)

    def synchronize(self, event: Mark) -> None:
        self.host.wait_until(event.at_s)
        self.host.spend(5e-6)

    def elapsed_s(self, first: Mark, second: Mark) -> float:
        return second.at_s - first.at_s

    def _check(self) -> None:
        """Raise as CUDA does, which answers every call after an illegal access with its error."""
        if self._is_broken:
            raise MeasurementError("an illegal memory access was encountered", where="CUDA")

    def _occupy(self, seconds_s: float) -> None:
        begin_s = max(self.busy_until_s, self.host.now_s())
        self.busy_until_s = begin_s + seconds_s
        self.busy.append((begin_s, self.busy_until_s))


def _filled(memory: SoftwareMemory) -> Array:
    if memory.pattern is None:
        raise MeasurementError("memory is read that was never filled", where="CUDA")
    return memory.pattern


def launch_of(kernel: Kernel, case: Case, gpu: Gpu = GPU) -> Any:
    """The launch of a case on that GPU."""
    return kernel.launch(case, shape_of(gpu))
