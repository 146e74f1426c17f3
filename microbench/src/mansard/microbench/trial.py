"""One trial: the machine's state, the samples, the energy, put into one record."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from mansard.core.errors import DeviceError, MeasurementError
from mansard.core.jsonl import RowWriter
from mansard.core.records import PowerSample, RailEnergy, Trial
from mansard.device.meters.energy import window_energy
from mansard.device.meters.meter import Meter
from mansard.device.meters.sampler import Sampler
from mansard.device.state import MachineState, read_state
from mansard.microbench.kernels.catalog import find_kernel
from mansard.microbench.manifest import utc_now
from mansard.microbench.plan import Plan, TrialSpec

if TYPE_CHECKING:
    from mansard.microbench.sampling import Samples

Sampling: TypeAlias = Callable[[TrialSpec, Plan], "Samples"]


class Instruments(msgspec.Struct, frozen=True):
    """What a trial is metered with, and where raw power samples are kept."""

    meters: tuple[Meter, ...]
    samples: RowWriter[PowerSample] | None


def sample_on_cpu(spec: TrialSpec, plan: Plan) -> Samples:
    """Samples of the real kernel on pinned threads of this machine."""
    from mansard.microbench.sampling import sample_case

    return sample_case(spec.case(len(plan.cpus)), plan.cpus, plan.protocol)


def make_trial(spec: TrialSpec, plan: Plan, instruments: Instruments, sampling: Sampling) -> Trial:
    """Measure one trial under ``plan``; raises DeviceError or MeasurementError."""
    started_utc = utc_now()
    before = read_state(plan.cpus)
    with Sampler(instruments.meters) as sampler:
        start_s = time.monotonic()
        samples = sampling(spec, plan)
        end_s = time.monotonic()
    after = read_state(plan.cpus)
    energy, why_no_energy = _energy(sampler, instruments, samples)
    unknown = _reasons(spec, samples, before, after)
    if why_no_energy is not None:
        unknown["energy"] = why_no_energy
    kernel, case = find_kernel(spec.kernel), spec.case(len(plan.cpus))
    return Trial(
        run_id=plan.run_id,
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
    """Energy from the first block's start to the last block's end, or why there is none."""
    if not instruments.meters:
        return None, "no meter; the manifest says what is missing"
    if not taken.windows_s:
        return None, "no block was measured"
    try:
        readings = sampler.samples
        if instruments.samples is not None:
            for reading in readings:
                instruments.samples.append(reading)
        return window_energy(readings, taken.windows_s[0][0], taken.windows_s[-1][1]), None
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
