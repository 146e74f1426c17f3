"""One trial: the machine's state, the samples, the energy, put into one record."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from mansard.core.jsonl import RowWriter
from mansard.core.records import PowerMode, PowerSample, Trial
from mansard.device.conditions import Sources, Watch, disturbances
from mansard.device.meters.meter import Meters
from mansard.microbench.kernels.catalog import find_kernel
from mansard.microbench.manifest import utc_now
from mansard.microbench.metering import Metering
from mansard.microbench.plan import Plan, TrialSpec

if TYPE_CHECKING:
    from mansard.microbench.sampling import Samples

# The trial, its plan, and what meters it.
Sampling: TypeAlias = Callable[[TrialSpec, Plan, "Metering | None"], "Samples"]


class Instruments(msgspec.Struct, frozen=True):
    """What a trial is watched and metered with, and where raw power samples are kept."""

    root: Path
    mode: PowerMode  # as it was read back
    sources: Sources  # of clocks, temperatures and events: found once for all trials
    meters: Meters
    samples: RowWriter[PowerSample] | None

    def metering(self, plan: Plan) -> Metering | None:
        """The meters, set up as the plan's protocol wants them; None where there are none."""
        if self.samples is None:
            return None
        return Metering(self.meters, plan.protocol, self.samples.append)


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
    kernel = find_kernel(spec.kernel)
    case = replace(spec.case(len(plan.cpus)), vector_bytes=samples.vector_bytes)
    return Trial(
        run_id=run_id,
        trial_id=spec.trial_id,
        source="simulated" if plan.machine.is_simulated else "measured",
        kernel=kernel.name,
        family=kernel.family,
        backend="numba-cpu",
        precision=spec.precision,
        fma_per_element=spec.fma_per_element,
        cpus=plan.cpus,
        working_set_bytes=spec.working_set_bytes,
        work_flop=kernel.work_flop(case) * len(plan.cpus),
        traffic_bytes=kernel.traffic_bytes(case) * len(plan.cpus),
        traffic_counting=kernel.traffic_counting(case),
        repetitions_per_sample=samples.repetitions_per_sample,
        seconds_s=samples.seconds_s,
        block=samples.block,
        rejected_s=samples.rejected_s,
        rejected_reason=samples.rejected_reason,
        stability=samples.stability,
        stability_interval=samples.stability_interval,
        energy=samples.energy.windows,
        conditions=watch.conditions,
        disturbances=disturbances(watch.conditions, instruments.mode),
        source_hash=kernel.source_hash,
        started_utc=started_utc,
        duration_s=time.monotonic() - start_s,
        unknown=_reasons(spec, samples),
    )


def _reasons(spec: TrialSpec, samples: Samples) -> dict[str, str]:
    unknown = {}
    if spec.fma_per_element is None:
        unknown["fma_per_element"] = spec.unknown["fma_per_element"]
    if samples.stability_interval is None:
        unknown["stability_interval"] = samples.stability_reason or "too few samples"
    if samples.energy.windows is None:
        unknown["energy"] = samples.energy.reason or "no meter"
    return unknown
