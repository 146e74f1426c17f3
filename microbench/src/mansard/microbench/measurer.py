"""Measures a job in this process: one event after the other, nothing written to disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mansard.core.errors import DeviceError, MeasurementError
from mansard.core.records import Gpu, PowerSample
from mansard.device.conditions import find_sources
from mansard.device.meters.meter import NO_METERS, Meters
from mansard.device.system import SYSTEM_ROOT
from mansard.microbench.events import Done, Event, Idle, Job, Progress, Readings, Row, hello
from mansard.microbench.plan import Plan, TrialSpec
from mansard.microbench.probing import probe
from mansard.microbench.trial import Instruments, Sampling, make_trial, sampling_of


@dataclass(frozen=True)
class LocalMeasurer:
    """A measurer with this process's meters; ``sampling`` by default that of the processor."""

    meters: Meters = NO_METERS
    root: Path = SYSTEM_ROOT
    sampling: Sampling | None = None

    def __call__(self, job: Job) -> Iterator[Event]:
        """Do the job; raises DeviceError or MeasurementError, and what sampling raises.

        Errors are raised, not turned into events: whoever stands at the end of a pipe does that.
        """
        plan = job.plan
        _check_cpus(plan)
        sources = find_sources(self.root, plan.cpus)
        with sources.processes.learn_own():
            gpu, why_no_gpu = _gpu_of(plan)
            sampling = self.sampling or sampling_of(plan.processor)
        yield hello(plan.versions, self.meters, gpu, why_no_gpu)
        readings: list[PowerSample] = []
        instruments = Instruments(
            root=self.root,
            mode=job.read_back,
            sources=sources,
            meters=self.meters,
            keep=readings.append,
            gpu=gpu,
        )
        wanted = set(job.missing)
        missing = [spec for spec in plan.trials if spec.trial_id in wanted]
        run_id, start_s = plan.run_id, time.monotonic()
        for number, spec in enumerate(missing):
            # Idle in brackets: before the first trial, half way, and after the last.
            if number in {0, (len(missing) + 1) // 2}:
                yield from _idle(instruments, plan, readings)
            yield _progress(len(missing), number, start_s, spec)
            trial = make_trial(spec, plan, run_id, instruments, sampling)
            yield from _readings(readings)
            yield Row(trial)
        if missing:
            yield from _idle(instruments, plan, readings)
            yield _progress(len(missing), len(missing), start_s, None)
        yield Done()


def _gpu_of(plan: Plan) -> tuple[Gpu | None, str]:
    """The GPU as it is in this mode, with the SMs that are on; the reason where there is none."""
    if plan.processor == "cpu":
        return None, "the kernels ran on the CPU"
    found = probe("gpu")
    if found.gpu is None:
        raise DeviceError(found.unknown["gpu"], fix="'mansard doctor' says what is missing")
    return found.gpu, ""


def _idle(instruments: Instruments, plan: Plan, readings: list[PowerSample]) -> Iterator[Event]:
    """An idle window, where there is a meter."""
    metering = instruments.metering(plan)
    if metering is None:
        return
    try:
        window = metering.idle()
    except MeasurementError as error:
        yield Idle(None, str(error))
        return
    yield from _readings(readings)
    yield Idle(window)


def _readings(readings: list[PowerSample]) -> Iterator[Event]:
    if readings:
        yield Readings(tuple(readings))
        readings.clear()


def _check_cpus(plan: Plan) -> None:
    lacking = set(plan.cpus) - os.sched_getaffinity(0)
    if lacking:
        raise DeviceError(
            f"the plan uses CPUs {sorted(lacking)}, which this process may not run on",
            fix="run on the machine the plan was made for, without taskset or a smaller cpuset",
        )


def _progress(n_missing: int, n_measured: int, start_s: float, spec: TrialSpec | None) -> Progress:
    n_left = n_missing - n_measured
    per_trial_s = (time.monotonic() - start_s) / n_measured if n_measured else None
    return Progress(
        n_left=n_left,
        remaining_s=None if per_trial_s is None else per_trial_s * n_left,
        now="done" if spec is None else spec.title,
    )
