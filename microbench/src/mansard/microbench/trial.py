"""One trial: the machine's state, the samples, the energy, put into one record."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from mansard.core.records import Gpu, PowerMode, PowerSample, Processor, Trial
from mansard.device.conditions import Sources, Watch, disturbances
from mansard.device.meters.meter import Meters
from mansard.microbench.facts import facts_of
from mansard.microbench.manifest import utc_now
from mansard.microbench.metering import Metering
from mansard.microbench.plan import Plan, TrialSpec

if TYPE_CHECKING:
    from mansard.microbench.sampling import Samples

# The trial, its plan, and what meters it.
Sampling: TypeAlias = Callable[[TrialSpec, Plan, "Metering | None"], "Samples"]


class Instruments(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial is watched and metered with."""

    root: Path
    mode: PowerMode  # as it was read back
    sources: Sources  # of clocks, temperatures and events: found once for all trials
    meters: Meters
    keep: Callable[[PowerSample], None]  # gets every raw reading of the meters
    gpu: Gpu | None  # as it is in this mode

    def metering(self, plan: Plan) -> Metering | None:
        """The meters, set up as the plan's protocol wants them; None where there are none."""
        if not self.meters.found:
            return None
        return Metering(self.meters, plan.protocol, self.keep)


def sampling_of(processor: Processor) -> Sampling:
    """What samples the kernels of ``processor``; the GPU is opened now, and stays open."""
    if processor == "cpu":
        return sample_on_cpu
    from mansard.microbench.cuda.sampling import open_gpu, sample_on_gpu

    open_gpu()
    return sample_on_gpu


def sample_on_cpu(spec: TrialSpec, plan: Plan, metering: Metering | None) -> Samples:
    """Samples of the real kernel on pinned threads of this machine."""
    from mansard.microbench.sampling import sample_case

    case = spec.case(len(plan.cpus))
    return sample_case(case, plan.cpus, plan.protocol, metering=metering)


def make_trial(
    spec: TrialSpec, plan: Plan, run_id: str, instruments: Instruments, sampling: Sampling
) -> Trial:
    """Measure one trial of run ``run_id``; raises DeviceError or MeasurementError."""
    started_utc = utc_now()
    start_s = time.monotonic()
    with Watch(instruments.root, plan.cpus, sources=instruments.sources) as watch:
        samples = sampling(spec, plan, instruments.metering(plan))
    facts = facts_of(spec, plan, samples, instruments.gpu)
    uses_gpu = plan.processor == "gpu"
    return Trial(
        run_id=run_id,
        trial_id=spec.trial_id,
        source="simulated" if plan.machine.is_simulated else "measured",
        kernel=spec.kernel,
        family=facts.family,
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
        work_flop=facts.work_flop,
        traffic_bytes=facts.traffic_bytes,
        traffic_counting=facts.traffic_counting,
        repetitions_per_sample=samples.repetitions_per_sample,
        seconds_s=samples.seconds_s,
        block=samples.block,
        clock_hz=samples.clock_hz,
        rejected_s=samples.rejected_s,
        rejected_reason=samples.rejected_reason,
        stability=samples.stability,
        stability_interval=samples.stability_interval,
        energy=samples.energy.windows,
        conditions=watch.conditions,
        disturbances=(
            *disturbances(watch.conditions, instruments.mode, uses_gpu=uses_gpu),
            *samples.disturbances,
        ),
        source_hash=facts.source_hash,
        started_utc=started_utc,
        duration_s=time.monotonic() - start_s,
        unknown=_reasons(spec, plan, samples),
    )


def _reasons(spec: TrialSpec, plan: Plan, samples: Samples) -> dict[str, str]:
    unknown = {}
    if spec.fma_per_element is None:
        unknown["fma_per_element"] = spec.unknown["fma_per_element"]
    if plan.processor == "cpu":
        unknown["n_sms"] = "the kernel ran on the CPU"
    if samples.clock_hz is None:
        on_cpu = plan.processor == "cpu"
        reason = "the kernel ran on the CPU" if on_cpu else "the kernel does not read its clock"
        unknown["clock_hz"] = reason
    if samples.stability_interval is None:
        unknown["stability_interval"] = samples.stability_reason or "too few samples"
    if samples.energy.windows is None:
        unknown["energy"] = samples.energy.reason or "no meter"
    return unknown
