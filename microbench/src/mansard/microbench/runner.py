"""Runs a plan: every trial that is not on disk yet, each row kept as soon as it is there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from mansard.core.documents import read_document, write_document
from mansard.core.errors import DeviceError, MeasurementError, SchemaError
from mansard.core.files import make_folder
from mansard.core.jsonl import RowWriter, read_rows
from mansard.core.records import Manifest, PowerMode, PowerSample, Trial
from mansard.device.conditions import find_sources
from mansard.device.meters.meter import NO_METERS, Meters
from mansard.device.system import SYSTEM_ROOT
from mansard.microbench.manifest import finished, new_manifest, with_idle, without_idle
from mansard.microbench.plan import Plan, TrialSpec
from mansard.microbench.trial import Instruments, Sampling, make_trial, sample_on_cpu


class SweepState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a sweep is; ``remaining_s`` is None until one trial has been timed."""

    n_done: int
    n_total: int
    remaining_s: float | None
    now: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did: trials measured now, and trials that were there already."""

    run_id: str
    folder: Path
    n_measured: int
    n_resumed: int
    torn_path: Path | None  # where a half-written row of an earlier run went


def run_plan(
    plan: Plan,
    runs: Path,
    *,
    meters: Meters = NO_METERS,
    root: Path = SYSTEM_ROOT,
    read_back: PowerMode | None = None,
    sampling: Sampling = sample_on_cpu,
    on_progress: Callable[[SweepState], None] | None = None,
) -> Outcome:
    """Measure what ``runs`` lacks of ``plan``; the folder is named by the plan's run id.

    ``read_back`` is the power mode that the machine is in; the plan's where nothing was
    set. A trial's row is synced to disk before the next trial starts, so a run that is
    killed resumes after its last finished trial. Raises StorageError, SchemaError
    (the folder holds another version's rows) or DeviceError (CPUs are not ours).
    """
    _check_cpus(plan)
    run_id = plan.run_id  # hashed once: a plan has hundreds of trials
    folder = make_folder(runs / run_id)
    with RowWriter(folder / "trials.jsonl", Trial) as trials:
        done = _finished_trials(folder, plan, run_id)
        missing = [spec for spec in plan.trials if spec.trial_id not in done]
        mode = read_back or plan.mode
        manifest = _open_manifest(folder, plan, meters, mode)
        with ExitStack() as stack:
            writer = _open_samples(folder, meters, stack) if missing else None
            instruments = Instruments(root, mode, find_sources(root, plan.cpus), meters, writer)
            start_s = time.monotonic()
            report = on_progress or _say_nothing
            for number, spec in enumerate(missing):
                # Idle in brackets: before the first trial, half way, and after the last.
                if number in {0, (len(missing) + 1) // 2}:
                    manifest = _measure_idle(folder, manifest, instruments, plan)
                report(_state(plan, len(missing), number, start_s, spec))
                trials.append(make_trial(spec, plan, run_id, instruments, sampling))
            if missing:
                manifest = _measure_idle(folder, manifest, instruments, plan)
                report(_state(plan, len(missing), len(missing), start_s, None))
        _finish_manifest(folder, manifest, resumed=bool(done))
        return Outcome(
            run_id=run_id,
            folder=folder,
            n_measured=len(missing),
            n_resumed=len(done),
            torn_path=trials.torn_path,
        )


def count_missing(plan: Plan, runs: Path) -> int:
    """How many trials of ``plan`` are not in ``runs`` yet; raises as ``run_plan`` does."""
    folder = runs / plan.run_id
    if not (folder / "trials.jsonl").exists():
        return len(plan.trials)
    return len(plan.trials) - len(_finished_trials(folder, plan, plan.run_id))


def _open_samples(folder: Path, meters: Meters, stack: ExitStack) -> RowWriter[PowerSample] | None:
    if not meters.found:
        return None
    return stack.enter_context(RowWriter(folder / "samples.jsonl", PowerSample))


def _measure_idle(
    folder: Path, manifest: Manifest, instruments: Instruments, plan: Plan
) -> Manifest:
    """The manifest with one more idle window, on disk; unchanged where there is no meter."""
    metering = instruments.metering(plan)
    if metering is None:
        return manifest
    try:
        manifest = with_idle(manifest, metering.idle())
    except MeasurementError as error:
        manifest = without_idle(manifest, str(error))
    write_document(folder / "manifest.json", manifest)
    return manifest


def _check_cpus(plan: Plan) -> None:
    lacking = set(plan.cpus) - os.sched_getaffinity(0)
    if lacking:
        raise DeviceError(
            f"the plan uses CPUs {sorted(lacking)}, which this process may not run on",
            fix="run on the machine the plan was made for, without taskset or a smaller cpuset",
        )


def _finished_trials(folder: Path, plan: Plan, run_id: str) -> set[str]:
    path = folder / "trials.jsonl"
    planned = {spec.trial_id for spec in plan.trials}
    done = set()
    for row in read_rows(path, Trial).rows:
        if row.run_id != run_id or row.trial_id not in planned or row.trial_id in done:
            raise SchemaError(
                f"trial {row.trial_id} of run {row.run_id} does not belong into this run",
                where=str(path),
                fix="the file was changed by hand; move the folder away and measure again",
            )
        done.add(row.trial_id)
    return done


def _state(
    plan: Plan, n_missing: int, n_measured: int, start_s: float, spec: TrialSpec | None
) -> SweepState:
    left = n_missing - n_measured
    per_trial_s = (time.monotonic() - start_s) / n_measured if n_measured else None
    return SweepState(
        n_done=len(plan.trials) - left,
        n_total=len(plan.trials),
        remaining_s=None if per_trial_s is None else per_trial_s * left,
        now="done" if spec is None else spec.title,
    )


def _open_manifest(folder: Path, plan: Plan, meters: Meters, mode: PowerMode) -> Manifest:
    """The manifest of an earlier start of this run, or a new one."""
    path = folder / "manifest.json"
    if path.exists():
        return read_document(path, Manifest)
    manifest = new_manifest(plan, meters, mode)
    write_document(path, manifest)
    return manifest


def _finish_manifest(folder: Path, manifest: Manifest, *, resumed: bool) -> None:
    if manifest.finished_utc is None:
        write_document(folder / "manifest.json", finished(manifest, resumed=resumed))


def _say_nothing(state: SweepState) -> None:
    del state
