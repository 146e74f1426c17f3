"""Writes a run: what a measurement reports is on disk before the next event is taken."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import RESUMES, MeasurementError
from mansard.core.processes.line_channel import from_wire
from mansard.core.records import Manifest, PowerSample, Record
from mansard.core.storage.documents import read_document, write_document
from mansard.core.storage.files import find_status
from mansard.core.storage.jsonl import RowWriter
from mansard.device.conditions import mode_lost
from mansard.measuring.events import (
    Aborted,
    Done,
    Event,
    Idle,
    Lengthy,
    Measurer,
    Progress,
    Readings,
    Row,
    Started,
)
from mansard.measuring.kind import Job
from mansard.measuring.manifest import (
    ContainerImage,
    finished,
    new_manifest,
    resumed_in,
    with_idle,
    without_idle,
)
from mansard.measuring.plan import PlannedTrial


class SweepState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is, and what it does now."""

    n_done: int
    n_total: int
    now: str


class RunWriter:
    """Writes the events of a measurement into its run's folder, one by one."""

    def __init__(
        self,
        folder: Path,
        job: Job,
        image: ContainerImage | None,
        keep: Callable[[Any], None],
        stack: ExitStack,
        *,
        changes: Callable[[], tuple[str, ...]] | None,
        on_progress: Callable[[SweepState], None] | None,
    ) -> None:
        self._path, self._runs = folder / "manifest.json", folder.parent
        self._samples_path = folder / "samples.jsonl"
        self._job, self._image, self._keep, self._stack = job, image, keep, stack
        self._changes, self._on_progress = changes, on_progress
        self._samples: RowWriter[PowerSample] | None = None
        missing = set(job.missing)
        self._open = {spec.trial_id: spec for spec in job.plan.trials if spec.trial_id in missing}
        n_total = len(job.plan.trials)
        self._state = SweepState(n_done=n_total - len(missing), n_total=n_total, now="")
        is_there = find_status(self._path, self._runs) is not None
        self.manifest = read_document(self._path, Manifest, self._runs) if is_there else None

    def write_all(self, measurer: Measurer) -> None:
        """Take every event of the measurement; raises unless it went through to its end."""
        with closing(measurer(self._job)) as events:  # type: ignore[type-var]  # a generator
            is_through = False
            for event in events:
                self._write_event(event)
                is_through = isinstance(event, Done)
        if not is_through or self._open:
            raise MeasurementError(
                f"the measurement ended with {len(self._open)} trials missing",
                fix=RESUMES,
            )

    def finish(self, *, resumed: bool) -> None:
        """Note in the manifest that nothing is missing any more."""
        if self.manifest is not None and self.manifest.finished_utc is None:
            self._write(finished(self.manifest, resumed=resumed))

    def _write_event(self, event: Event) -> None:
        if isinstance(event, Row):
            self._keep_row(event.row)
        elif isinstance(event, Progress | Lengthy):
            self._report(event)
        elif isinstance(event, Readings):
            self._samples_writer().extend(event.samples)
        elif isinstance(event, Idle):
            self._keep_idle(event)
        elif isinstance(event, Started):
            if self.manifest is None:
                self._write(new_manifest(self._job, event, self._image))
            else:
                self._write(resumed_in(self.manifest, self._image))
        elif isinstance(event, Aborted):
            raise from_wire(event.error)

    def _keep_row(self, trial: Any) -> None:
        self._known_manifest()
        spec = self._open.get(trial.trial_id)
        if spec is None or trial.run_id != self._job.plan.run_id or not _is_of(trial, spec):
            raise MeasurementError(
                f"trial {trial.trial_id} was not asked for",
                fix="report this: the measuring process does another job than it was given",
            )
        self._check_mode()
        self._keep(trial)
        del self._open[trial.trial_id]

    def _keep_idle(self, event: Idle) -> None:
        manifest = self._known_manifest()
        self._check_mode()
        if event.window is not None:
            self._write(with_idle(manifest, event.window))
        else:
            self._write(without_idle(manifest, event.reason))

    def _check_mode(self) -> None:
        """Raises DeviceError where the machine has left the mode of the run, or cannot be asked."""
        changes = self._changes() if self._changes is not None else ()
        if changes:
            raise mode_lost(self._job.plan.mode.name, changes)

    def _known_manifest(self) -> Manifest:
        if self.manifest is None:
            raise MeasurementError(
                "the measuring process did not say what it is", fix="report this"
            )
        return self.manifest

    def _samples_writer(self) -> RowWriter[PowerSample]:
        if self._samples is None:
            writer = RowWriter(self._samples_path, PowerSample, self._runs)
            self._samples = self._stack.enter_context(writer)
        return self._samples

    def _report(self, event: Progress | Lengthy) -> None:
        self._state = msgspec.structs.replace(self._state, now=event.now)
        if isinstance(event, Progress):
            self._state = msgspec.structs.replace(
                self._state,
                n_done=self._state.n_total - event.n_left,
            )
        if self._on_progress is not None:
            self._on_progress(self._state)

    def _write(self, manifest: Manifest) -> None:
        write_document(self._path, manifest, self._runs)
        self.manifest = manifest


def _is_of(trial: Record, spec: PlannedTrial) -> bool:
    """Whether a trial is what its id says: what both have is the same in both."""
    shared = set(spec.__struct_fields__) & set(trial.__struct_fields__)
    return all(getattr(trial, name) == getattr(spec, name) for name in shared - {"unknown"})
