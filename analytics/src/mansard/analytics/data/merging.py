"""Runs of many boards into one dataset, in a folder or an object store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from mansard.analytics.data.frames import to_json
from mansard.analytics.data.joining import is_fuller, without_repeats
from mansard.analytics.data.layout import RUN_TABLES, RunFiles, run_entry
from mansard.analytics.data.networks_store import write_measurements, write_scores
from mansard.analytics.data.opening import holds_runs, open_part
from mansard.analytics.data.read import Part, read_part, run_files
from mansard.analytics.data.store import Store, is_url
from mansard.core.errors import UsageError


@dataclass(frozen=True)
class Merged:
    """What ``merge`` did: runs that are new, that grew, and that were there already."""

    place: str
    n_new: int
    n_grown: int
    n_same: int


def merge(places: Sequence[str | Path], into: str) -> Merged:
    """Bring the runs, scores and measurements of ``places`` into the dataset ``into``.

    ``into`` is a folder or a URL; boards may merge into one at the same time, for each run has
    files of its own. Merging again changes nothing. Raises UsageError where ``into`` is a
    folder of runs, InputError as ``without_repeats``, StorageError where writing fails.
    """
    if not is_url(into) and holds_runs(Path(into)):
        raise UsageError(
            f"{into!r} is a folder of runs, no dataset", fix="merge into a folder of its own"
        )
    parts = without_repeats([open_part(str(place)) for place in places])
    there = read_part(into)
    known = {row["run_id"]: row for row in there.runs.iter_rows(named=True)}
    n_new = n_grown = n_same = 0
    for part in parts:
        for (run_id,), entry in part.runs.partition_by("run_id", as_dict=True).items():
            old = known.get(run_id)
            if old is not None and not is_fuller(part, entry.row(0, named=True), there, old):
                n_same += 1
                continue
            n_new, n_grown = n_new + (old is None), n_grown + (old is not None)
            files = _copy(part, entry, there.store)
            if old is not None:
                # After the new entry: a reader in between finds all files of either.
                there.store.remove(_names(run_files(old["files_json"], into)) - _names(files))
        write_scores(there.store, part.scores, there.scores)
        write_measurements(there.store, part.measurements, there.measurements)
    return Merged(into, n_new, n_grown, n_same)


def _copy(part: Part, entry: pl.DataFrame, into: Store) -> RunFiles:
    """Write a run's rows, then its entry, which says that it is there."""
    files = run_files(entry["files_json"].item(), part.place)
    copied: dict[str, dict[str, int]] = {}
    for table, schema in RUN_TABLES.items():
        for name in files.of(table):
            into.write(name, part.store.read([name], schema))
            copied.setdefault(table, {})[name] = into.size(name)
    found = RunFiles(**copied)
    into.write(
        run_entry(entry["run_id"].item()),
        entry.with_columns(pl.lit(to_json(found)).alias("files_json")),
    )
    return found


def _names(files: RunFiles) -> set[str]:
    return {name for table in RUN_TABLES for name in files.of(table)}
