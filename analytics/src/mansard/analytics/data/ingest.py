"""Read and check a folder of runs, and store it as typed Parquet beside the runs.

What did not change since the last time is not read again. Every file is written whole, and a run
is in the dataset only when its entry is, which comes last: killed in the middle, or on a full
disk, the next ingest goes on from there.
"""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack, suppress
from pathlib import Path

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.dataset_parts import (
    DatasetPart,
    dataset_of,
    files_of_runs,
    read_part,
    run_files,
)
from mansard.analytics.data.layout import (
    DATASET_FOLDER,
    OFFLOADS_FOLDER,
    PUBLISHED_FOLDER,
    RUN_ENTRY_SCHEMA,
    RUN_TABLES,
    run_entry,
)
from mansard.analytics.data.limits import UnknownKindError, check_manifest, check_score
from mansard.analytics.data.run_folder import (
    MANIFEST,
    content_of,
    import_run,
    shown_folder,
    stamps_json,
)
from mansard.analytics.data.scores import score_id
from mansard.analytics.data.store import (
    Store,
    score_entries,
    write_scores,
)
from mansard.core.errors import InputError, SchemaError, StorageError
from mansard.core.records import ENGINES_FOLDER, Manifest, ModelScore
from mansard.core.storage.documents import read_document
from mansard.core.storage.files import entries_in, find_status, storage_errors
from mansard.core.storage.jsonl import Row, read_rows
from mansard.core.storage.leftovers import sweep, system_temporary, temporary_folder

COUNTER_RUNS = "counter_runs.jsonl"  # rows of a run of "ncu run"
_TABLES = ("runs", *RUN_TABLES, "scores", "layers")


def ingest(runs: Path) -> Dataset:
    """The dataset of a folder of runs, after ``update_dataset``; raises what that raises."""
    return dataset_of(update_dataset(runs)).without_operators()


def update_dataset(runs: Path) -> DatasetPart:
    """Read every run folder in ``runs`` and bring ``runs/dataset`` up to it.

    Raises SchemaError for a file of another version or with an unknown field, InputError when
    there is no run or rows and manifest disagree, StorageError when a file cannot be read or
    written. Folders that are no runs are ignored; a torn last line and impossible rows are moved
    aside; ``Dataset.notes`` reports all of them. If the folder is read-only, such as an archive,
    the dataset is made in a temporary folder that lasts as long as the process.
    """
    with suppress(OSError, StorageError):
        sweep(system_temporary())
    notes: list[str] = []
    folders = _run_folders(runs, notes)
    is_counted = {folder: COUNTER_RUNS in entries_in(folder, runs) for folder in folders}
    published = entries_in(runs / PUBLISHED_FOLDER, runs)
    if not folders and not any(name.endswith(".jsonl") for name in published):
        is_parent = "runs" in entries_in(runs, runs)  # as of ``mansard demo``, beside its report
        raise InputError(
            "; ".join(["no run was found here", *([] if is_parent else notes)]),
            where=str(runs),
            fix=f"use {runs / 'runs'}" if is_parent else "measure first, with 'mansard bench'",
        )
    store = _store(runs, notes)
    with store.locked():
        # Counters are read by analytics/models/counters/.
        return _updated(runs, [name for name in folders if not is_counted[name]], store, notes)


def _store(runs: Path, notes: list[str]) -> Store:
    folder = runs / DATASET_FOLDER
    if os.access(runs if find_status(folder, runs) is None else folder, os.W_OK):
        return Store(folder, runs)
    notes.append(f"{shown_folder(runs)}: cannot be written, so its dataset is not kept")
    return Store(_UNTIL_EXIT.enter_context(temporary_folder()))


_UNTIL_EXIT = ExitStack()
atexit.register(_UNTIL_EXIT.close)


def _updated(runs: Path, folders: list[Path], store: Store, notes: list[str]) -> DatasetPart:
    there = _part_there(store)
    entries = _run_entries(folders, store, there.runs, notes)
    scores = _read(runs / "scores.jsonl", ModelScore, notes)
    for score in scores:
        check_score(score, runs / "scores.jsonl")
    by_id = {score_id(score): score for score in scores}  # of two of the same the last counts
    part = DatasetPart(
        location=str(runs),
        store=store,
        runs=entries,
        scores=score_entries(by_id),
        score_records=by_id,
        notes=tuple(notes),
        is_made_here=True,
    )
    files = write_scores(store, part.scores, there.scores)
    files |= {run_entry(run_id) for run_id in entries["run_id"]} | files_of_runs(part).keys()
    store.remove_others(_TABLES, files)
    return part


def _run_folders(runs: Path, notes: list[str]) -> list[Path]:
    with storage_errors(runs):
        is_there = runs.exists()
    if not is_there:
        raise InputError(
            "there is no such folder", where=str(runs), fix="measure first, with 'mansard bench'"
        )
    entries = []
    for name, kind in entries_in(runs, runs).items():
        entry = runs / name
        reserved = {DATASET_FOLDER, PUBLISHED_FOLDER, ENGINES_FOLDER, OFFLOADS_FOLDER}
        if name in reserved or name.startswith("."):
            continue
        if kind == "link" and os.path.isdir(entry):  # noqa: PTH112 - raises nothing
            notes.append(
                f"{shown_folder(entry)}: ignored, it is a link, and a folder of runs holds none"
            )
        elif kind == "folder" and MANIFEST in entries_in(entry, runs):
            entries.append(entry)
        elif kind == "folder":
            notes.append(
                f"{shown_folder(entry)}: ignored, it has no manifest.json and is not a run"
            )
    return entries


def _part_there(store: Store) -> DatasetPart:
    """What an earlier ingest left; nothing where it is damaged, for it is made again."""
    try:
        return read_part(store.root)
    except (SchemaError, StorageError):
        store.remove_others(_TABLES, ())
        return read_part(store.root)


def _run_entries(
    folders: list[Path], store: Store, there: pl.DataFrame, notes: list[str]
) -> pl.DataFrame:
    known = {str(key): row for (key,), row in there.partition_by("folder", as_dict=True).items()}
    by_run: dict[str, pl.DataFrame] = {}
    for folder in folders:
        try:
            entry = _run_entry(folder, store, known.get(shown_folder(folder)))
        except UnknownKindError as error:
            notes.append(f"{shown_folder(folder)}: left out: {error.what}; {error.fix}")
            continue
        run_id = str(entry["run_id"].item())
        if run_id in by_run:
            raise InputError(
                f"run {run_id} is here twice",
                where=str(folder),
                fix="remove one of the two folders",
            )
        by_run[run_id] = entry
    return pl.concat([pl.DataFrame(schema=RUN_ENTRY_SCHEMA), *by_run.values()])


def _run_entry(folder: Path, store: Store, known: pl.DataFrame | None) -> pl.DataFrame:
    # Other stamps: the run has changed, or its dataset was made somewhere else.
    has_stamps = known is not None and known["stamps_json"].item() == stamps_json(folder)
    if known is not None and has_stamps and _is_whole(known, store):
        return known
    manifest = read_document(folder / MANIFEST, Manifest, folder.parent)
    check_manifest(manifest, folder / MANIFEST)
    entry = import_run(folder, manifest, content_of(folder), store)
    store.write(run_entry(manifest.run_id), entry)
    return entry


def _is_whole(entry: pl.DataFrame, store: Store) -> bool:
    try:
        files = run_files(entry.row(0, named=True), store.root)
    except SchemaError:
        return False
    return all(store.holds(name, mark, is_made_here=True) for name, mark in files.items())


def _read(path: Path, row_type: type[Row], notes: list[str]) -> tuple[Row, ...]:
    if find_status(path, path.parent) is None:
        return ()
    read = read_rows(path, row_type, path.parent)
    if read.torn is not None:
        notes.append(
            f"{path.name}: the last line was being written when it was killed; "
            f"{len(read.torn)} bytes were put aside"
        )
    return read.rows
