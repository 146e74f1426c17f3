"""One trial: the machine's state, the samples, the energy, put into one record."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from mansard.core.errors import DeviceError, MeasurementError
from mansard.core.jsonl import RowWriter
from mansard.core.records import PowerSample, RailEnergy, Trial
from mansard.device.meters.energy import windows_energy
from mansard.device.meters.meter import Meter
from mansard.device.meters.sampler import Sampler
from mansard.device.state import MachineState, read_state
from mansard.microbench.kernels.catalog import find_kernel
from mansard.microbench.manifest import utc_now
from mansard.microbench.plan import Plan, TrialSpec

if TYPE_CHECKING:
    from mansard.microbench.sampling import Samples

# The trial, its plan, and what to call at the edges of blocks to have the meters read.
Sampling: TypeAlias = Callable[[TrialSpec, Plan, Callable[[], None]], "Samples"]


class Instruments(msgspec.Struct, frozen=True):
    """What a trial is metered with, and where raw power samples are kept."""

    meters: tuple[Meter, ...]
    samples: RowWriter[PowerSample] | None


def sample_on_cpu(spec: TrialSpec, plan: Plan, at_edge: Callable[[], None]) -> Samples:
    """Samples of the real kernel on pinned threads of this machine."""
    from mansard.microbench.sampling import sample_case

    case = spec.case(len(plan.cpus))
    return sample_case(case, plan.cpus, plan.protocol, at_edge=at_edge)


def make_trial(
    spec: TrialSpec, plan: Plan, run_id: str, instruments: Instruments, sampling: Sampling
) -> Trial:
    """Measure one trial of run ``run_id``; raises DeviceError or MeasurementError."""
    started_utc = utc_now()
    before = read_state(plan.cpus)
    with Sampler(instruments.meters) as sampler:
        start_s = time.monotonic()
        samples = sampling(spec, plan, sampler.read)
        end_s = time.monotonic()
    after = read_state(plan.cpus)
    energy, why_no_energy = _energy(sampler, instruments, samples)
    unknown = _reasons(spec, samples, before, after)
    if why_no_energy is not None:
        unknown["energy"] = why_no_energy
    kernel = find_kernel(spec.kernel)
    case = replace(spec.case(len(plan.cpus)), vector_bytes=samples.vector_bytes)
    return Trial(
        run_id=run_id,
        trial_id=spec.trial_id,
        source="measured",
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
        energy=energy,
        clock_before_hz=before.clock_hz,
        clock_after_hz=after.clock_hz,
        temperature_before_c=before.temperature_c,
        temperature_after_c=after.temperature_c,
        throttled=_throttled(before, after),
        source_hash=kernel.source_hash,
        started_utc=started_utc,
        duration_s=end_s - start_s,
        unknown=unknown,
    )


def _energy(
    sampler: Sampler, instruments: Instruments, taken: Samples
) -> tuple[tuple[RailEnergy, ...] | None, str | None]:
    """Energy over all blocks, the pauses between them left out, or why there is none."""
    if not instruments.meters:
        return None, "no meter; the manifest says what is missing"
    try:
        readings = sampler.samples
        if instruments.samples is not None:
            for reading in readings:
                instruments.samples.append(reading)
        return windows_energy(readings, taken.windows_s), None
    except (DeviceError, MeasurementError) as error:
        return None, str(error)


def _throttled(before: MachineState, after: MachineState) -> bool | None:
    if before.throttle_count is None or after.throttle_count is None:
        return None
    return after.throttle_count > before.throttle_count


def _reasons(
    spec: TrialSpec, samples: Samples, before: MachineState, after: MachineState
) -> dict[str, str]:
    unknown = {}
    if spec.fma_per_element is None:
        unknown["fma_per_element"] = spec.unknown["fma_per_element"]
    if samples.stability_interval is None:
        unknown["stability_interval"] = samples.stability_reason or "too few samples"
    for when, state in (("before", before), ("after", after)):
        if state.clock_hz is None:
            unknown[f"clock_{when}_hz"] = state.unknown["clock_hz"]
        if state.temperature_c is None:
            unknown[f"temperature_{when}_c"] = state.unknown["temperature_c"]
        if state.throttle_count is None:
            unknown["throttled"] = state.unknown["throttle_count"]
    return unknown
