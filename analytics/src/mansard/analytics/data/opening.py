"""What the user names with ``--runs``, as one dataset; and runs of many boards merged into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.frames import to_json
from mansard.analytics.data.ingest import update_dataset
from mansard.analytics.data.mixing import mixed, newest, unmixed
from mansard.analytics.data.read import (
    DatasetPart,
    is_fuller,
    join,
    read_filled_part,
    read_part,
    run_files,
    without_repeats,
)
from mansard.analytics.data.run_folder import MANIFEST
from mansard.analytics.data.store import (
    RUN_TABLES,
    RunFiles,
    Store,
    is_url,
    run_entry,
    write_measurements,
    write_scores,
)
from mansard.core.errors import InputError, UsageError


def open_runs(
    locations: Sequence[str | Path], *, mix: bool = False, newest_only: bool = False
) -> Dataset:
    """All runs of ``locations``: folders of runs, datasets that were merged, URLs of such.

    There is at least one. A folder of runs is ingested first. Runs of one device by different
    versions of Mansard, or from different sources of a kernel, raise InputError unless ``mix``,
    which also takes boards that are alike for one, or ``newest_only``, which leaves out what does
    not go with the newest run of a device. Raises what ``ingest`` and ``join`` raise.
    """
    parts = [
        open_part(str(location))
        for location in dict.fromkeys(str(location) for location in locations)
    ]
    dataset = newest(join(parts)) if newest_only else join(parts)
    return mixed(dataset) if mix else unmixed(dataset)


def open_part(location: str) -> DatasetPart:
    """One location; a folder of runs is ingested, anything else has to hold a dataset."""
    if not is_url(location):
        if not holds_dataset(Path(location)):
            return update_dataset(Path(location))
        if holds_runs(Path(location)):
            raise InputError(
                "holds a dataset and folders of runs beside it",
                where=location,
                fix="move the runs into a folder of their own",
            )
    return read_filled_part(location)


def holds_dataset(folder: Path) -> bool:
    """Whether a folder is a dataset itself, as ``mansard merge`` writes one."""
    return any((folder / "runs").glob("run_id=*/*.parquet"))


def holds_runs(folder: Path) -> bool:
    """Whether there are folders of runs in it, as ``mansard bench`` makes them."""
    return any(folder.glob(f"*/{MANIFEST}"))


@dataclass(frozen=True)
class Merged:
    """What ``merge`` did: runs that are new, that grew, and that were there already."""

    place: str  # its location; the name is that of the JSON
    n_new: int
    n_grown: int
    n_same: int


def merge(locations: Sequence[str | Path], into: str) -> Merged:
    """Bring the runs, scores and measurements of ``locations`` into the dataset ``into``.

    ``into`` is a folder or a URL; boards may merge into one at the same time, for each run has
    files of its own. Merging again changes nothing. Raises UsageError where ``into`` is a
    folder of runs, InputError as ``without_repeats``, StorageError where writing fails.
    """
    if not is_url(into) and holds_runs(Path(into)):
        raise UsageError(
            f"{into!r} is a folder of runs, no dataset", fix="merge into a folder of its own"
        )
    parts = without_repeats([open_part(str(location)) for location in locations])
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


def _copy(part: DatasetPart, entry: pl.DataFrame, into: Store) -> RunFiles:
    """Write a run's rows, then its entry, which says that it is there."""
    files = run_files(entry["files_json"].item(), part.location)
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
