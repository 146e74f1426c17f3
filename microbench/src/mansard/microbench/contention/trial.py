"""The kind of measurement "contention": a demand on memory alone, and beside another."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from mansard.core.errors import DeviceError, MeasurementError
from mansard.core.records import ContentionPoint
from mansard.device.conditions import OtherWork
from mansard.measuring.instruments import Instruments, Observation
from mansard.measuring.kind import MeasurementKind, Opened
from mansard.measuring.protocol import Protocol
from mansard.measuring.raw_samples import RawSample, rejection
from mansard.microbench.contention.loads import (
    CpuLoad,
    GpuLoad,
    Load,
    find_chains,
    rates_within,
    running,
)
from mansard.microbench.contention.plan import (
    GPU,
    ContentionPlan,
    ContentionTrial,
    partition_cpus,
)
from mansard.microbench.cuda.sampling import OpenGpu, open_gpu
from mansard.microbench.cuda.timing import judge_clocks

_MOST_REJECTED = 0.5  # share of a trial's samples above which it is disturbed


@dataclass
class _Taken:
    """The samples of a trial, and the aggressor's rate in each that was taken beside it.

    A rate is None where the aggressor did not run without interruption all through the sample.
    """

    alone: list[RawSample] = field(default_factory=list)
    beside: list[RawSample] = field(default_factory=list)
    external_byte_per_s: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class _Rates:
    """Bytes per second of the samples that count."""

    alone: tuple[float, ...] = ()
    achieved: tuple[float, ...] = ()
    external: tuple[float, ...] = ()
    n_rejected: int = 0
    disturbances: tuple[str, ...] = ()


def measure_point(
    spec: ContentionTrial,
    plan: ContentionPlan,
    instruments: Instruments,
    loads: Mapping[str, Load],
    chains: Mapping[str, Mapping[float, int]],
) -> ContentionPoint:
    """Alternate blocks of the victim alone and beside the aggressor, so that both see one machine.

    ``chains``: FMA per element by accelerator and share. What cannot be run is a row with
    ``failure``. Raises DeviceError where the GPU is lost.
    """
    own_fma = chains[spec.victim][spec.victim_share]
    other_fma = chains[spec.aggressor][spec.aggressor_share] if spec.aggressor_share else 0
    victim, aggressor = loads[spec.victim], loads[spec.aggressor] if other_fma else None
    rates, failure = _Rates(), None
    others = OtherWork(plan.cpus, [os.getpid()])
    with Observation(instruments, plan) as seen, others:
        try:
            victim.ask(own_fma)
            if aggressor is not None:
                aggressor.ask(other_fma)
            rates = _take_blocks(plan.protocol, victim, aggressor)
        except (MeasurementError, MemoryError) as error:
            failure = str(error) or "too little memory"
            for load in loads.values():
                load.check_answers(failure)
    seen.other_work = None if plan.machine.is_simulated else others
    return ContentionPoint(
        run_id=plan.run_id,
        trial_id=spec.trial_id,
        source="simulated" if plan.machine.is_simulated else "measured",
        processor=plan.processor,
        victim=spec.victim,
        aggressor=spec.aggressor,
        victim_share=spec.victim_share,
        aggressor_share=spec.aggressor_share,
        victim_fma_per_element=own_fma,
        aggressor_fma_per_element=other_fma,
        alone_byte_per_s=rates.alone,
        achieved_byte_per_s=rates.achieved,
        external_byte_per_s=rates.external,
        n_rejected=rates.n_rejected,
        failure=failure,
        conditions=seen.conditions,
        disturbances=(*seen.disturbances, *rates.disturbances),
        started_utc=seen.started_utc,
        duration_s=seen.duration_s,
        unknown={} if failure else {"failure": "it ran"},
    )


def _take_blocks(protocol: Protocol, victim: Load, aggressor: Load | None) -> _Rates:
    """The protocol's blocks, and more where others disturb them; raises MeasurementError."""
    taken, n_blocks, end_s = _Taken(), 0, time.monotonic() + protocol.time_cap_s
    while True:
        _take_block(protocol, victim, aggressor, taken)
        n_blocks += 1
        rates = _rates(taken, victim, protocol.cpu_share_min)
        n_counted = min(len(rates.alone), len(rates.achieved))
        is_enough = n_blocks >= protocol.n_blocks_min and 2 * n_counted >= protocol.n_accepted_min
        if is_enough or time.monotonic() > end_s:
            break
    if not n_counted:
        raise MeasurementError(
            rates.disturbances[0], fix="end it; the same command measures this again"
        )
    return rates


def _take_block(protocol: Protocol, victim: Load, aggressor: Load | None, taken: _Taken) -> None:
    # The first sample of a block starts with caches and clocks from the pause.
    n_samples = protocol.n_per_block + 1
    taken.alone += victim.take(n_samples)[1:]
    if aggressor is None:
        beside = victim.take(n_samples)[1:]
        taken.external_byte_per_s += [0.0] * len(beside)
    else:
        with running(aggressor) as others:
            beside = victim.take(n_samples)[1:]
        taken.external_byte_per_s += rates_within(
            beside, others, aggressor.sample_bytes, protocol.cpu_share_min
        )
    taken.beside += beside


def _rates(taken: _Taken, victim: Load, cpu_share_min: float) -> _Rates:
    """The rates of the samples that no other work interrupted."""
    raw = [*taken.alone, *taken.beside]
    external = [*[0.0] * len(taken.alone), *taken.external_byte_per_s]
    accepted = [
        (k, victim.sample_bytes / sample.duration_s, rate)
        for k, (sample, off_clock, rate) in enumerate(
            zip(raw, judge_clocks(raw, victim.clock_step_hz), external, strict=True)
        )
        if rate is not None and off_clock is None and rejection(sample, cpu_share_min) is None
    ]
    n_alone, n_rejected = len(taken.alone), len(raw) - len(accepted)
    alone = tuple(victim_rate for k, victim_rate, _ in accepted if k < n_alone)
    achieved = tuple(victim_rate for k, victim_rate, _ in accepted if k >= n_alone)
    is_calm = alone and achieved and n_rejected <= _MOST_REJECTED * len(raw)
    words = f"other work interrupted {n_rejected} of {len(raw)} samples"
    return _Rates(
        alone=alone,
        achieved=achieved,
        external=tuple(rate for k, _, rate in accepted if k >= n_alone),
        n_rejected=n_rejected,
        disturbances=() if is_calm else (words,),
    )


@contextmanager
def _open(plan: ContentionPlan) -> Iterator[Opened[ContentionPoint]]:
    """Raises DeviceError where the plan's GPU cannot be used, MeasurementError."""
    gpu = open_gpu() if plan.processor == "gpu" else None
    with opened_loads(plan, gpu) as loads:
        chains = {
            name: find_chains(load, sorted({spec.victim_share for spec in plan.trials}))
            for name, load in loads.items()
        }

        def measure(spec: ContentionTrial, instruments: Instruments) -> ContentionPoint:
            return measure_point(spec, plan, instruments, loads, chains)

        yield Opened(measure, None if gpu is None else gpu.gpu, plan.unknown.get("gpu", ""))


@contextmanager
def opened_loads(plan: ContentionPlan, gpu: OpenGpu | None) -> Iterator[dict[str, Load]]:
    """The load of each accelerator of ``plan``, with its memory, for the block."""
    sample_s = plan.protocol.sample_s
    with ExitStack() as stack:
        loads: dict[str, Load] = {}
        for name in sorted({spec.victim for spec in plan.trials}):
            if name != GPU:
                cpus = partition_cpus(name)
                loads[name] = stack.enter_context(CpuLoad(cpus, plan.machine, sample_s))
            elif gpu is not None:
                loads[name] = stack.enter_context(GpuLoad(gpu, sample_s))
            else:
                raise DeviceError("the plan has a GPU, and there is none", fix="report this")
        yield loads


CONTENTION: MeasurementKind[ContentionPlan, ContentionPoint] = MeasurementKind(
    "contention",
    ContentionPlan,
    ContentionPoint,
    _open,
    rows_name="contention.jsonl",
    # What others disturbed is measured again with the same command: a surface needs every point.
    is_result=lambda row: row.failure is None and not row.disturbances,
    is_metered=False,
)
