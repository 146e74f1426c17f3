"""Counters that ``mansard ncu run`` measured: the tables in a folder of runs, as rows.

The table of each network is what is kept; rows are made of it whenever they are asked for.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from mansard.analytics.counters.importing import CounterOrigin, import_counters
from mansard.analytics.data.ingest import COUNTER_RUNS
from mansard.analytics.data.run_folder import MANIFEST
from mansard.core.documents import read_document
from mansard.core.errors import InputError, UsageError
from mansard.core.files import entries_in, find_status
from mansard.core.jsonl import read_rows
from mansard.core.records import CounterRun, KernelCounters, Manifest


@dataclass(frozen=True)
class MeasuredCounters:
    """The kernels of one network that was counted. ``notes``: a line each."""

    run: CounterRun
    device: str
    mode: str
    kernels: tuple[KernelCounters, ...]
    notes: tuple[str, ...]


def measured_counters(runs: Path) -> tuple[MeasuredCounters, ...]:
    """All networks that were counted in ``runs``; raises InputError, StorageError."""
    if not runs.is_dir():
        return ()
    folders = [
        runs / name
        for name, kind in entries_in(runs, runs).items()
        if kind == "folder" and {COUNTER_RUNS, MANIFEST} <= entries_in(runs / name, runs).keys()
    ]
    return tuple(each for folder in folders for each in counters_of_run(folder))


def counters_of_run(folder: Path) -> tuple[MeasuredCounters, ...]:
    """The networks that the run in ``folder`` counted; raises InputError, StorageError."""
    runs = folder.parent
    manifest = read_document(folder / MANIFEST, Manifest, runs)
    rows = read_rows(folder / COUNTER_RUNS, CounterRun, runs).rows
    return tuple(_read(folder, row, manifest) for row in rows if row.export is not None)


def _read(folder: Path, run: CounterRun, manifest: Manifest) -> MeasuredCounters:
    path = folder / (run.export or "")
    if find_status(path, folder.parent) is None:
        raise InputError(
            "the table of this run's counters is gone",
            where=str(path),
            fix="move the folder of the run away, and count again",
        )
    origin = CounterOrigin(
        source=run.source,
        table_id=run.run_id,
        device=manifest.machine.name,
        mode=manifest.mode_read_back.name,
        network=run.model,
        model_hash=run.model_hash,
        batch=run.batch,
        precision=run.precision,
        phase=run.phase,
        tool=run.tool,
    )
    found = import_counters(path, origin)
    notes: tuple[str, ...] = ()
    if any(row.iteration is None for row in found.rows):  # no range names the call
        try:
            found = import_counters(path, dataclasses.replace(origin, iterations=run.n_calls))
        except UsageError:
            notes = ("the calls launched different kernels: sums are of all of them",)
    return MeasuredCounters(run, origin.device, origin.mode, found.rows, (*found.notes, *notes))
