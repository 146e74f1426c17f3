"""One trial of a kernel: the machine's state, the samples and the energy, as one record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from mansard.core.errors import DeviceError, MeasurementError, UsageError
from mansard.core.records import ABOVE_LIMIT, Gpu, Processor, Trial
from mansard.measuring.instruments import Instruments, Observation
from mansard.measuring.kind import MeasurementKind, Opened
from mansard.measuring.metering import EnergyMetering
from mansard.measuring.sampling import Samples
from mansard.microbench.cuda.sampling import (
    AboveLimitError,
    OpenGpu,
    open_gpu,
    sample_on_gpu,
    sample_with,
)
from mansard.microbench.kernel import HOST, TrialSpec, find_kernel, shape_of
from mansard.microbench.plan import KernelPlan, probe

# Takes the trial, its plan and its energy metering.
Sampling: TypeAlias = Callable[[TrialSpec, KernelPlan, "EnergyMetering | None"], Samples]


def kernel_kind(
    sampling: Sampling | None = None, gpu: OpenGpu | None = None
) -> MeasurementKind[KernelPlan, Trial]:
    """The kind "kernels"; ``sampling`` defaults to that of the plan's processor.

    ``gpu``: the GPU to run on instead of this machine's.
    """
    if gpu is not None:
        sampling = partial(sample_with, gpu)
    opening = partial(_open, sampling=sampling, gpu=None if gpu is None else gpu.gpu)
    return MeasurementKind(
        "kernels",
        KernelPlan,
        Trial,
        opening,
        # Failed trials are tried again: a missing library may be installed by then, or memory free.
        is_result=lambda row: row.failure is None,
    )


@contextmanager
def _open(plan: KernelPlan, sampling: Sampling | None, gpu: Gpu | None) -> Iterator[Opened[Trial]]:
    why_no_gpu = "the kernels ran on the CPU" if gpu is None else ""
    if plan.processor == "gpu" and gpu is None:
        probed = probe("gpu")
        if probed.gpu is None:
            raise DeviceError(probed.unknown["gpu"], fix="'mansard doctor' says what is missing")
        gpu, why_no_gpu = probed.gpu, ""
    sampling, run_id = sampling or sampling_of(plan.processor), plan.run_id

    def measure(spec: TrialSpec, instruments: Instruments) -> Trial:
        return make_trial(spec, plan, run_id, instruments, sampling)

    yield Opened(measure, gpu, why_no_gpu)


def sampling_of(processor: Processor) -> Sampling:
    """The sampling of ``processor``; opens the GPU, which stays open."""
    if processor == "cpu":
        return sample_on_cpu
    open_gpu()
    return sample_on_gpu


def sample_on_cpu(spec: TrialSpec, plan: KernelPlan, metering: EnergyMetering | None) -> Samples:
    """Samples of the kernel on pinned threads of this machine."""
    from mansard.microbench.cpu.source import sample_case

    case = spec.case(len(plan.cpus))
    return sample_case(case, plan.cpus, plan.protocol, metering=metering)


# Of a trial that failed before its first sample.
_NO_SAMPLES = Samples(
    repetitions_per_sample=0,
    seconds_s=(),
    block=(),
    rejected_s=(),
    rejected_reason=(),
    stability="unstable",
    stability_interval=None,
    stability_reason=None,
    interrupted=False,
)


def make_trial(
    spec: TrialSpec, plan: KernelPlan, run_id: str, instruments: Instruments, sampling: Sampling
) -> Trial:
    """Measure one trial of run ``run_id``; a trial that fails is a row with ``failure``.

    Raises DeviceError if the GPU is lost, as no later trial could be measured either.
    """
    samples = _NO_SAMPLES
    failure: str | None = None
    with Observation(instruments, plan) as seen:
        try:
            samples = sampling(spec, plan, instruments.metering(plan))
        except AboveLimitError as error:
            samples, failure = _all_rejected(error.samples), str(error)
        except (MeasurementError, UsageError) as error:
            failure = str(error)
        except MemoryError:
            failure = "too little memory"
    kernel = find_kernel(spec.kernel, spec.backend)
    n_launches = len(plan.cpus) if plan.processor == "cpu" else 1
    case = replace(spec.case(n_launches), vector_bytes=samples.vector_bytes)
    launch = kernel.launch(case, HOST if instruments.gpu is None else shape_of(instruments.gpu))
    return Trial(
        run_id=run_id,
        trial_id=spec.trial_id,
        source="simulated" if plan.machine.is_simulated else "measured",
        kernel=spec.kernel,
        family=kernel.family,
        processor=plan.processor,
        backend=spec.backend,
        precision=spec.precision,
        fma_per_element=spec.fma_per_element,
        operands=spec.operands,
        scope=spec.scope,
        memory=spec.memory,
        cpus=plan.cpus,
        n_sms=None if instruments.gpu is None else instruments.gpu.n_sms,
        working_set_bytes=spec.working_set_bytes,
        work_flop=kernel.work_flop(case, launch) * n_launches,
        traffic_bytes=kernel.traffic_bytes(case, launch) * n_launches,
        traffic_counting=kernel.traffic_counting(case),
        repetitions_per_sample=samples.repetitions_per_sample or None,
        seconds_s=samples.seconds_s,
        block=samples.block,
        clock_hz=samples.clock_hz,
        rejected_s=samples.rejected_s,
        rejected_reason=samples.rejected_reason,
        stability=samples.stability,
        stability_interval=samples.stability_interval,
        energy=samples.energy.windows,
        conditions=seen.conditions,
        disturbances=(*seen.disturbances, *samples.disturbances),
        source_hash=kernel.source_hash,
        started_utc=seen.started_utc,
        duration_s=seen.duration_s,
        failure=failure,
        unknown=_reasons(spec, plan, samples, failure),
    )


def _all_rejected(samples: Samples) -> Samples:
    """All samples as rejected ones: they exceed what the hardware can do; kept for inspection."""
    n_samples = len(samples.seconds_s)
    return replace(
        samples,
        seconds_s=(),
        block=(),
        clock_hz=None,
        rejected_s=(*samples.seconds_s, *samples.rejected_s),
        rejected_reason=(*[ABOVE_LIMIT] * n_samples, *samples.rejected_reason),
        stability="unstable",
        stability_interval=None,
    )


def _reasons(
    spec: TrialSpec, plan: KernelPlan, samples: Samples, failure: str | None
) -> dict[str, str]:
    unknown = {}
    if spec.fma_per_element is None:
        unknown["fma_per_element"] = spec.unknown["fma_per_element"]
    if plan.processor == "cpu":
        unknown["n_sms"] = "the kernel ran on the CPU"
    if failure is not None:
        lacking: tuple[str, ...] = ("clock_hz", "stability_interval", "energy")
        lacking += () if samples.repetitions_per_sample else ("repetitions_per_sample",)
        return unknown | dict.fromkeys(lacking, f"it could not be measured: {failure}")
    if samples.clock_hz is None:
        on_cpu = plan.processor == "cpu"
        reason = "the kernel ran on the CPU" if on_cpu else "the kernel does not read its clock"
        unknown["clock_hz"] = reason
    if samples.stability_interval is None:
        unknown["stability_interval"] = samples.stability_reason or "too few samples"
    if samples.energy.windows is None:
        unknown["energy"] = samples.energy.reason or "no meter"
    return unknown


KERNELS = kernel_kind()
