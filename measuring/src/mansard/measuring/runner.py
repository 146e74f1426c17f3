"""Runs a plan: keeps every trial of a measurement on disk as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import SchemaError, StorageError
from mansard.core.records import PowerMode
from mansard.core.storage.files import find_status, make_folder, remove
from mansard.core.storage.jsonl import RowWriter, read_rows, write_rows
from mansard.measuring.attempts import keep_best, open_attempts
from mansard.measuring.events import Measurer
from mansard.measuring.kind import Job, MeasurementKind, find_kind
from mansard.measuring.manifest import ContainerImage
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.plan import PlannedTrial, RunPlan
from mansard.measuring.run_writer import RunWriter, SweepState


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did: trials measured now, and trials that were there already."""

    run_id: str
    folder: Path
    n_measured: int
    n_resumed: int
    n_improved: int  # trials measured again whose newer row is the better one
    torn_path: Path | None  # where a half-written row of an earlier run went


def run_plan(  # noqa: PLR0913 - what a sweep knows of the mode and the rows
    plan: RunPlan,
    runs: Path,
    *,
    measurer: Measurer | None = None,
    read_back: PowerMode | None = None,
    image: ContainerImage | None = None,
    changes: Callable[[], tuple[str, ...]] | None = None,
    is_there: Callable[[Any], bool] = lambda _: True,
    again: Collection[str] = (),
    on_progress: Callable[[SweepState], None] | None = None,
) -> RunOutcome:
    """Measure what ``runs`` lacks of ``plan``; the folder is named by the plan's run id.

    ``measurer`` does the work, by default in this process and without meters; ``image`` is
    the container image that it runs in. ``read_back`` is the power mode that the machine is
    in; the plan's where nothing was set. ``changes`` is asked after every trial and idle window
    before it is kept: what it returns are reasons, in sentences, why the machine is no longer in
    that mode. They end the run as what it raises does: the trial is not kept, and the next run
    measures it again. ``is_there`` tells whether what a row is about still exists: else its trial
    is made again, as one whose row is no result. ``again``: ids of trials that are measured once
    more though their rows are there; the better row counts (``attempts``). A trial's row is synced
    to disk before the next event is taken, so a run that is killed resumes after its last finished
    trial. Raises StorageError, SchemaError (the folder holds another version's rows) and what the
    measurer raises.
    """
    kind, run_id = find_kind(plan.kind), plan.run_id  # hashed once: a plan has hundreds of trials
    folder = make_folder(runs / run_id, runs)
    torn_path = _drop_no_results(
        folder / kind.rows_name, kind, runs, lambda row: kind.is_result(row) and is_there(row)
    )
    keep_best(folder, kind, runs)  # a process that was killed may not have
    path = folder / kind.rows_name
    with RowWriter(path, kind.row_type, runs, is_private=kind.is_private) as rows:
        finished = _finished_trials(folder, kind, plan, run_id)
        doubtful = finished.intersection(again)
        done = finished - doubtful
        missing = tuple(spec.trial_id for spec in plan.trials if spec.trial_id not in done)
        job = Job(plan=plan, missing=missing, read_back=read_back or plan.mode)
        with ExitStack() as stack:
            keep = rows.append
            if doubtful:
                attempts = open_attempts(folder, kind, doubtful, rows, runs)
                keep = stack.enter_context(attempts).append
            writer = RunWriter(
                folder, job, image, keep, stack, changes=changes, on_progress=on_progress
            )
            if missing or writer.manifest is None:
                try:
                    writer.write_all(measurer or LocalMeasurer())
                except BaseException:
                    if writer.manifest is None and not finished:  # it did not even begin
                        with suppress(StorageError):  # a folder that holds more stays
                            remove(folder / kind.rows_name, runs)
                            remove(folder, runs)
                    raise
            writer.finish(resumed=bool(finished))
    improved = keep_best(folder, kind, runs) if doubtful else ()
    return RunOutcome(
        run_id=run_id,
        folder=folder,
        n_measured=len(missing),
        n_resumed=len(done),
        n_improved=len(improved),
        torn_path=torn_path or rows.torn_path,
    )


def missing_trials(plan: RunPlan, runs: Path) -> tuple[PlannedTrial, ...]:
    """The trials of ``plan`` that are not in ``runs`` yet; raises as ``run_plan`` does."""
    kind, run_id = find_kind(plan.kind), plan.run_id
    if find_status(runs / run_id / kind.rows_name, runs) is None:
        return plan.trials
    done = _finished_trials(runs / run_id, kind, plan, run_id)
    return tuple(spec for spec in plan.trials if spec.trial_id not in done)


def _finished_trials(
    folder: Path, kind: MeasurementKind[Any, Any], plan: RunPlan, run_id: str
) -> set[str]:
    path = folder / kind.rows_name
    planned = {spec.trial_id for spec in plan.trials}
    done, without_result = set[str](), set[str]()
    for row in read_rows(path, kind.row_type, folder.parent).rows:
        if row.run_id != run_id or row.trial_id not in planned or row.trial_id in done:
            raise SchemaError(
                f"trial {row.trial_id} of run {row.run_id} does not belong into this run",
                where=str(path),
                fix="the file was changed by hand; move the folder away and measure again",
            )
        done.add(row.trial_id)
        if not kind.is_result(row):
            without_result.add(row.trial_id)
    return done - without_result


def _drop_no_results(
    path: Path, kind: MeasurementKind[Any, Any], runs: Path, is_result: Callable[[Any], bool]
) -> Path | None:
    """Take out the rows that are no results: each of their trials is measured again.

    Returns where a half-written row went.
    """
    if find_status(path, runs) is None:
        return None
    if all(map(is_result, read_rows(path, kind.row_type, runs).rows)):
        return None
    # The writer keeps other processes out, and sets a half-written row aside.
    with RowWriter(path, kind.row_type, runs) as writer:
        rows = read_rows(path, kind.row_type, runs).rows
        write_rows(path, kind.row_type, filter(is_result, rows), runs)
    return writer.torn_path
