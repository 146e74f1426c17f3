"""Measures a job in this process: one event after the other, nothing written to disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mansard.core.errors import DeviceError, MeasurementError
from mansard.core.records import PowerSample
from mansard.device.conditions import Sources, Watch, find_sources, mode_lost
from mansard.device.meters.meter import NO_METERS, Meters
from mansard.device.system import SYSTEM_ROOT
from mansard.measuring.events import Done, Event, Idle, Lengthy, Progress, Readings, Row, started
from mansard.measuring.instruments import Instruments
from mansard.measuring.kind import Job, MeasurementKind, Opened, find_kind
from mansard.measuring.plan import PlannedTrial, RunPlan


@dataclass(frozen=True)
class LocalMeasurer:
    """A measurer with this process's meters; ``kind`` by default that of the plan."""

    meters: Meters = NO_METERS
    root: Path = SYSTEM_ROOT
    kind: MeasurementKind[Any, Any] | None = None
    files: Path | None = None  # folder of the files that the plan names, such as networks
    outputs: Path | None = None  # folder that trials write files into
    # Gets, at once, what a trial announces: an event that comes while another is waited for.
    tell: Callable[[Event], None] = lambda _: None

    def __call__(self, job: Job) -> Iterator[Event]:
        """Do the job; raises DeviceError or MeasurementError, and what sampling raises.

        DeviceError too where the machine has left its mode: the trial in which that was seen is
        not reported, and no other is measured.
        Errors are raised, not turned into events: that is done at the end of a pipe.
        """
        _check_cpus(job.plan)
        sources = find_sources(self.root, job.plan.cpus, uses_gpu=job.plan.processor == "gpu")
        kind = self.kind or find_kind(job.plan.kind)
        with ExitStack() as stack:
            with sources.processes.learn_own():
                opened = stack.enter_context(kind.open(job.plan))
            meters = self.meters if kind.is_metered else NO_METERS
            yield from self._measure(job, opened, sources, meters)

    def _measure(
        self, job: Job, opened: Opened[Any], sources: Sources, meters: Meters
    ) -> Iterator[Event]:
        plan = job.plan
        yield started(plan.versions, meters, opened.gpu, opened.why_no_gpu)
        readings: list[PowerSample] = []
        instruments = Instruments(
            root=self.root,
            mode=job.read_back,
            sources=sources,
            meters=meters,
            keep=readings.append,
            gpu=opened.gpu,
            files=self.files,
            outputs=self.outputs,
            announce=lambda now, at_most_s: self.tell(Lengthy(now=now, at_most_s=at_most_s)),
        )
        wanted = set(job.missing)
        missing = [spec for spec in plan.trials if spec.trial_id in wanted]
        for number, spec in enumerate(missing):
            # Idle in brackets: before the first trial, half way, and after the last.
            if number in {0, (len(missing) + 1) // 2}:
                yield from _idle(instruments, plan, readings)
            yield _progress(len(missing) - number, spec)
            row = opened.measure(spec, instruments)
            _check_mode(instruments)
            yield from _readings(readings)
            yield Row(row)
        if missing:
            yield from _idle(instruments, plan, readings)
            yield _progress(0, None)
        yield Done()


def _check_mode(instruments: Instruments) -> None:
    """Read the mode's settings back; raises DeviceError where they have changed."""
    losses = instruments.sources.losses()
    if losses:
        raise mode_lost(instruments.mode.name, losses)


def _idle(instruments: Instruments, plan: RunPlan, readings: list[PowerSample]) -> Iterator[Event]:
    """An idle window, where there is a meter; none if the mode's settings changed meanwhile."""
    metering = instruments.metering(plan)
    if metering is None:
        return
    try:
        with Watch(instruments.root, plan.cpus, sources=instruments.sources) as watch:
            window = metering.idle()
    except MeasurementError as error:
        yield Idle(None, str(error))
        return
    _check_mode(instruments)
    changed = watch.conditions.settings_changed
    if changed:
        readings.clear()
        yield Idle(None, f"the mode was not in force: {'; '.join(changed)}")
        return
    yield from _readings(readings)
    yield Idle(window)


def _readings(readings: list[PowerSample]) -> Iterator[Event]:
    if readings:
        yield Readings(tuple(readings))
        readings.clear()


def _check_cpus(plan: RunPlan) -> None:
    lacking = set(plan.cpus) - os.sched_getaffinity(0)
    if lacking:
        raise DeviceError(
            f"the plan uses CPUs {sorted(lacking)}, which this process may not run on",
            fix="run on the machine the plan was made for, without taskset or a smaller cpuset",
        )


def _progress(n_left: int, spec: PlannedTrial | None) -> Progress:
    return Progress(n_left=n_left, now="done" if spec is None else spec.title)
