"""One trial on the GPU: samples until they agree, energy, and no result above its limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from mansard.core.errors import DeviceError
from mansard.core.records import Gpu
from mansard.measuring.metering import UNMETERED, Metering
from mansard.measuring.protocol import Protocol
from mansard.measuring.raw_samples import SYSTEM_CLOCK, Clock
from mansard.measuring.sampling import Samples, collect
from mansard.microbench.cuda.clock_drift import describe_drift, judge_clocks
from mansard.microbench.cuda.kernel import CudaCase, CudaKernel
from mansard.microbench.cuda.limits import Limits, check_limits, limits_of
from mansard.microbench.cuda.runtime import Runtime
from mansard.microbench.cuda.source import CudaSource, case_of

if TYPE_CHECKING:
    from mansard.microbench.plan import Plan, TrialSpec

_COMPUTE = frozenset({"fma", "tensor"})


@dataclass(frozen=True)
class OpenGpu:
    """The GPU that trials run on, and the runtime that reaches it."""

    gpu: Gpu
    runtime: Runtime
    clock: Clock = SYSTEM_CLOCK


@cache
def open_gpu() -> OpenGpu:
    """The first visible GPU, opened once a process; raises DeviceError with the reason."""
    from mansard.microbench.cuda.cupy_runtime import CupyRuntime
    from mansard.microbench.cuda.probe import probe_gpu

    found = probe_gpu()
    if found.gpu is None:
        raise DeviceError(found.reason, fix="'mansard doctor' says what is missing")
    return OpenGpu(found.gpu, CupyRuntime())


def sample_on_gpu(spec: TrialSpec, plan: Plan, metering: Metering | None) -> Samples:
    """Samples of the plan's trial on the GPU of this machine."""
    return sample_with(open_gpu(), spec, plan, metering)


def sample_with(opened: OpenGpu, spec: TrialSpec, plan: Plan, metering: Metering | None) -> Samples:
    """Samples of the plan's trial on a GPU that is open."""
    from mansard.microbench.cuda.catalog import find_cuda_kernel

    kernel = find_cuda_kernel(spec.kernel, spec.backend)
    limits = limits_of(opened.gpu, plan.machine, plan.mode)
    return sample_cuda_case(kernel, case_of(spec), opened, plan.protocol, limits, metering=metering)


def sample_cuda_case(
    kernel: CudaKernel,
    case: CudaCase,
    opened: OpenGpu,
    protocol: Protocol,
    limits: Limits,
    *,
    metering: Metering | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Samples:
    """Measure ``case``, then meter it while it runs on without pause.

    Raises UsageError for a case that the GPU does not have, MeasurementError where it
    cannot be run at all or where its result exceeds what the GPU can do.
    """
    interval = protocol.fma_interval if kernel.family in _COMPUTE else protocol.stream_interval
    with CudaSource(kernel, case, opened.gpu, opened.runtime, opened.clock) as source:
        samples = collect(source, protocol, interval, should_stop, opened.clock, judge_clocks)
        check_limits(kernel, case, source.launch, limits, samples.seconds_s, samples.clock_hz)
        energy = UNMETERED
        if metering is not None and not should_stop():
            energy = metering.run(source, samples.repetitions_per_sample, should_stop)
    drift = describe_drift(len(samples.seconds_s), samples.rejected_reason)
    return replace(samples, energy=energy, disturbances=() if drift is None else (drift,))
