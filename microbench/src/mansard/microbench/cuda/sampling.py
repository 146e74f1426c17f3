"""One trial on the GPU: samples until they agree, energy, and no result above its limit.

Where a result exceeds its limit, something is miscounted, and the trial fails. The limit of a chain
or of tensor cores is FLOP a cycle and SM (core/hardware) times the SMs that CUDA reports times
the clock that the kernel measured. That of main memory is clock × 2 × bus / 8. What is not known
checks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import median

from mansard.core.caches import dram_low_bytes
from mansard.core.clock import SYSTEM_CLOCK, Clock
from mansard.core.errors import DeviceError, MeasurementError
from mansard.core.hardware import MODULES, memory_bytes_per_s, sm_flop_per_cycle
from mansard.core.records import ABOVE_LIMIT, Gpu, MachineIdentity, PowerMode
from mansard.device.clocks.domains import read_gpu_step_hz
from mansard.measuring.metering import UNMETERED, EnergyMetering
from mansard.measuring.plan import RunPlan
from mansard.measuring.protocol import Protocol
from mansard.measuring.raw_samples import RawSample
from mansard.measuring.sampling import Samples, collect
from mansard.microbench.cuda.probe import probe_gpu
from mansard.microbench.cuda.runtime import Runtime
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.cuda.timing import (
    describe_change,
    describe_drift,
    judge_clocks,
    off_clock_s,
)
from mansard.microbench.kernel import Case, Kernel, Launch, TrialSpec, find_kernel

_COMPUTE = frozenset({"fma", "tensor"})
_CARD_STEP_HZ = 15e6  # of the clocks that NVML lists of cards since Volta


class AboveLimitError(MeasurementError):
    """A result above the GPU's limit; ``samples`` are those behind it."""

    def __init__(self, what: str, samples: Samples) -> None:
        super().__init__(
            f"{ABOVE_LIMIT}: {what}",
            fix="something is miscounted: report this with the run's folder",
        )
        self.samples = samples


@dataclass(frozen=True)
class OpenGpu:
    """The GPU that trials run on, and the runtime that reaches it."""

    gpu: Gpu
    runtime: Runtime
    clock: Clock = SYSTEM_CLOCK
    listed_step_hz: float | None = None  # between two of its clocks; None: nothing lists them

    @property
    def clock_step_hz(self) -> float | None:
        """Between two of its clocks; of a card whose clocks are not listed, that of all cards."""
        if self.listed_step_hz is not None or self.gpu.is_integrated:
            return self.listed_step_hz
        return _CARD_STEP_HZ


@cache
def open_gpu() -> OpenGpu:
    """The first visible GPU, opened once a process; raises DeviceError with the reason."""
    from mansard.microbench.cuda.cupy_runtime import CupyRuntime

    probed = probe_gpu()
    if probed.gpu is None:
        raise DeviceError(probed.reason, fix="'mansard doctor' says what is missing")
    return OpenGpu(probed.gpu, CupyRuntime(), listed_step_hz=read_gpu_step_hz())


def sample_on_gpu(spec: TrialSpec, plan: RunPlan, metering: EnergyMetering | None) -> Samples:
    """Samples of the plan's trial on the GPU of this machine."""
    return sample_with(open_gpu(), spec, plan, metering)


def sample_with(
    opened: OpenGpu, spec: TrialSpec, plan: RunPlan, metering: EnergyMetering | None
) -> Samples:
    """Samples of the plan's trial on a GPU that is open.

    Raises DeviceError where the GPU is lost, and what ``sample_cuda_case`` raises.
    """
    kernel = find_kernel(spec.kernel, spec.backend)
    limits = limits_of(opened.gpu, plan.machine, plan.mode)
    try:
        return sample_cuda_case(
            kernel, spec.case(), opened, plan.protocol, limits, metering=metering
        )
    except MeasurementError as error:
        check_answers(opened.runtime, str(error))
        raise


def check_answers(runtime: Runtime, failure: str) -> None:
    """Raise DeviceError where the GPU answers nothing any more after ``failure``.

    A kernel that is not compiled or not loaded leaves the GPU as it was. After an illegal access,
    an uncorrectable error of memory or the loss of the card CUDA answers every later call of the
    process with that error (CUDA Runtime API, cudaErrorIllegalAddress and others), whichever
    library makes it.
    """
    try:
        runtime.synchronize(runtime.record())
    except MeasurementError as error:
        raise DeviceError(
            f"the GPU does not answer any more, since this: {failure}",
            fix="what was measured is kept: look at 'dmesg' and nvidia-smi; the same command "
            "resumes in a new process",
        ) from error


def sample_cuda_case(
    kernel: Kernel,
    case: Case,
    opened: OpenGpu,
    protocol: Protocol,
    limits: GpuLimits,
    *,
    metering: EnergyMetering | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Samples:
    """Measure ``case``, then meter it while it runs on without pause.

    Raises UsageError for a case that the GPU does not have, MeasurementError where it cannot be
    run at all, AboveLimitError where its result exceeds what the GPU can do.
    """
    interval = protocol.fma_interval if kernel.family in _COMPUTE else protocol.stream_interval
    with CudaSource(kernel, case, opened.gpu, opened.runtime, opened.clock) as source:
        judge = _ClockJudge(opened.clock_step_hz)
        samples = collect(source, protocol, interval, should_stop, opened.clock, judge)
        check_limits(kernel, case, source.launch, limits, samples)
        energy = UNMETERED
        if metering is not None and not should_stop():
            off_clock = partial(off_clock_s, step_hz=opened.clock_step_hz)
            repetitions = samples.repetitions_per_sample
            energy = metering.run(source, repetitions, should_stop, off_clock)
    drift = describe_change(judge.raw) or describe_drift(
        len(samples.seconds_s), samples.rejected_reason
    )
    return replace(samples, energy=energy, disturbances=() if drift is None else (drift,))


class _ClockJudge:
    """Judges samples by their clocks, and keeps them in their order: the last call has them all."""

    def __init__(self, step_hz: float | None) -> None:
        self._step_hz = step_hz
        self.raw: Sequence[RawSample] = ()

    def __call__(self, raw: Sequence[RawSample]) -> list[str | None]:
        self.raw = raw
        return judge_clocks(raw, self._step_hz)


EXCESS = 1.02  # over a limit: the most that errors of time and clock add up to

# Where a product has no tensor cores of its precision, CUDA cores do it.
_ON_CUDA_CORES = frozenset({"fp32", "fp64"})


@dataclass(frozen=True)
class GpuLimits:
    """The limits of this GPU now."""

    gpu: Gpu
    memory_bytes_per_s: float | None


def limits_of(gpu: Gpu, machine: MachineIdentity | None, mode: PowerMode | None) -> GpuLimits:
    """The limits of a card by what CUDA says, of a board by its module and the mode's clock.

    CUDA's memory clock of an integrated GPU is not that of its memory, so there only the
    module counts (core/hardware); a mode that does not cap its clock leaves the highest.
    """
    if not gpu.is_integrated:
        if gpu.memory_hz is None or gpu.memory_bus_bits is None or gpu.mig is not None:
            return GpuLimits(gpu, None)
        return GpuLimits(gpu, gpu.memory_hz * 2 * gpu.memory_bus_bits / 8)
    board = machine.board if machine is not None else None
    module = MODULES.get((board.part_number or "") if board is not None else "")
    if module is None:
        return GpuLimits(gpu, None)
    memory_hz = (mode.memory_hz if mode is not None else None) or module.highest_memory_hz
    return GpuLimits(gpu, memory_bytes_per_s(module, memory_hz))


def flop_per_cycle_limit(kernel: Kernel, case: Case, gpu: Gpu) -> int | None:
    """FLOP of one SM in a cycle that this kernel cannot exceed; None where it is not known."""
    if kernel.family == "tensor":
        limit = sm_flop_per_cycle(gpu.sm, case.precision, "tensor")
        if limit is not None or case.precision not in _ON_CUDA_CORES:
            return limit
    elif kernel.family != "fma":
        return None
    return sm_flop_per_cycle(gpu.sm, case.precision, "fma")


def sweeps_memory(kernel: Kernel, case: Case, gpu: Gpu) -> bool:
    """Whether a case's traffic all comes from main memory."""
    if kernel.family != "stream" or case.scope != "gpu" or gpu.l2_bytes is None:
        return False
    return case.working_set_bytes >= dram_low_bytes(gpu.l2_bytes)


def share_of_limit(
    kernel: Kernel,
    case: Case,
    launch: Launch,
    limits: GpuLimits,
    seconds_s: Sequence[float],
    clock_hz: Sequence[float] | None,
) -> float | None:
    """The median of the samples' rates over their limit; None where there is no limit.

    ``seconds_s`` are of one repetition; ``clock_hz`` has the SM clock of each of them.
    """
    if not seconds_s:
        return None
    if limits.memory_bytes_per_s is not None and sweeps_memory(kernel, case, limits.gpu):
        bytes_per_s = kernel.traffic_bytes(case, launch) / median(seconds_s)
        return bytes_per_s / limits.memory_bytes_per_s
    per_cycle = flop_per_cycle_limit(kernel, case, limits.gpu)
    if per_cycle is None or clock_hz is None:
        return None
    work_flop = kernel.work_flop(case, launch)
    rates = [work_flop / (s * hz) for s, hz in zip(seconds_s, clock_hz, strict=True)]
    return median(rates) / (per_cycle * limits.gpu.n_sms)


def check_limits(
    kernel: Kernel, case: Case, launch: Launch, limits: GpuLimits, samples: Samples
) -> None:
    """Raise AboveLimitError where a result exceeds its limit by more than 2 %."""
    share = share_of_limit(kernel, case, launch, limits, samples.seconds_s, samples.clock_hz)
    if share is None or share <= EXCESS:
        return
    gpu = limits.gpu
    raise AboveLimitError(
        f"{kernel.name} {case.precision} reached {share:.3f} of what {gpu.n_sms} SMs of "
        f"compute capability {gpu.sm / 10:.1f} can do at the clock it measured",
        samples,
    )
