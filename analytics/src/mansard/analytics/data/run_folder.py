"""One run folder, read and checked, into the tables of a dataset, some rows at a time.

Notes report faulty rows. Unchanged files are not read again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias

import polars as pl

from mansard.analytics.data.frames import (
    accuracy_frame,
    concurrent_frame,
    generation_frame,
    layer_time_frame,
    measurement_frame,
    offload_frame,
    program_frame,
    to_json,
)
from mansard.analytics.data.layout import LAYOUT, RunFiles, files_of, run_part
from mansard.analytics.data.limits import (
    MOST_TRIALS,
    ROW_TABLES,
    check_accuracy,
    check_contention,
    check_generation,
    check_measurement,
    check_multi,
    check_offload,
    check_program,
    check_trial,
    generation_windows,
    program_windows,
)
from mansard.analytics.data.machines import processor_of
from mansard.analytics.data.names import display_name
from mansard.analytics.data.run_frames import (
    energy_frame,
    repetition_frame,
    run_frame,
    sample_frame,
    trial_frame,
)
from mansard.analytics.data.store import Store
from mansard.core.errors import InputError
from mansard.core.hashing import stream_hash
from mansard.core.records import (
    Accuracy,
    ContentionPoint,
    EnergyWindow,
    GenerationRun,
    Manifest,
    Measurement,
    MultiRun,
    OffloadRun,
    PowerSample,
    ProgramRun,
    Trial,
)
from mansard.core.storage.files import find_status, open_file, storage_errors
from mansard.core.storage.jsonl import BATCH_BYTES, Row, RowReader

_AnyRow: TypeAlias = (
    Trial
    | Measurement
    | ProgramRun
    | GenerationRun
    | Accuracy
    | MultiRun
    | ContentionPoint
    | OffloadRun
)
MANIFEST, SAMPLES = "manifest.json", "samples.jsonl"
_FILES = (MANIFEST, *(f"{table}.jsonl" for table in ROW_TABLES.values()), SAMPLES)


@dataclass(frozen=True)
class _RowKind(Generic[Row]):
    """How the rows of one kind of run are read."""

    row_type: type[Row]
    check: Callable[[Row, Path], None]  # raises InputError
    windows: Callable[[Row], Sequence[EnergyWindow]]
    frames: Callable[[Sequence[Row], pl.DataFrame], Mapping[str, pl.DataFrame]]
    again: str  # the command that goes on with the run


# By the manifest's kind.
_KINDS: Mapping[str, _RowKind[Any]] = {
    "kernels": _RowKind(
        Trial,
        check_trial,
        lambda trial: trial.energy or (),
        lambda trials, run: {
            "trials": trial_frame(trials, run),
            "repetitions": repetition_frame(trials),
            "energy": energy_frame((), trials),
        },
        "mansard bench",
    ),
    "networks": _RowKind(
        Measurement,
        check_measurement,
        lambda row: row.energy or (),
        lambda rows, _: {
            "measurements": measurement_frame(rows),
            "layer_times": layer_time_frame(rows),
        },
        "mansard measure",
    ),
    "programs": _RowKind(
        ProgramRun,
        check_program,
        program_windows,
        lambda rows, _: {"programs": program_frame(rows)},
        "mansard measure",
    ),
    "generations": _RowKind(
        GenerationRun,
        check_generation,
        generation_windows,
        lambda rows, _: {"generations": generation_frame(rows)},
        "mansard measure --server",
    ),
    "offloads": _RowKind(
        OffloadRun,
        check_offload,
        lambda row: () if row.energy is None else (row.energy,),
        lambda rows, _: {"offloads": offload_frame(rows)},
        "mansard offload run",
    ),
    "accuracies": _RowKind(
        Accuracy,
        check_accuracy,
        lambda _: (),
        lambda rows, _: {"accuracies": accuracy_frame(rows)},
        "mansard measure",
    ),
    "multi": _RowKind(
        MultiRun,
        check_multi,
        lambda row: () if row.energy is None else (row.energy,),
        lambda rows, _: {"multi": concurrent_frame(rows)},
        "mansard multi run",
    ),
    "contention": _RowKind(
        ContentionPoint,
        check_contention,
        lambda _: (),
        lambda rows, _: {"contention": concurrent_frame(rows)},
        "mansard multi contention",
    ),
}


def shown_folder(folder: Path) -> str:
    """The name of a run's folder as text; bytes that are no UTF-8 are escaped."""
    return os.fsencode(folder.name).decode("utf-8", "backslashreplace")


def stamps_json(folder: Path) -> str:
    """Length and modification times of each file of a run, as JSON; raises StorageError.

    The second time is the system's own (ctime), which no archive and no copy brings along: a
    dataset that came with its runs has other ones.
    """
    stamps: dict[str, list[int] | None] = {}
    for name in _FILES:
        status = find_status(folder / name, folder.parent)
        stamps[name] = (
            None if status is None else [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        )
    return to_json(stamps)


def content_of(folder: Path) -> str:
    """A hash of the content of a run's files and of the dataset's layout, 32 digits."""
    digest = LAYOUT
    for name in _FILES:
        path = folder / name
        with (
            storage_errors(path),
            suppress(FileNotFoundError),
            open_file(path, folder.parent) as stream,
        ):
            digest = stream_hash(stream, f"{digest} {name}\n".encode())
    return digest[:32]


_MIXED = "files of two runs were mixed; measure again into another folder"


def read_run_rows(
    folder: Path, manifest: Manifest, notes: list[str], batch_bytes: int
) -> Iterator[list[Any]]:
    """The rows of a run in batches; impossible rows are left out, with a note.

    Raises InputError for rows of another run or kind or a trial that is here twice, SchemaError
    and StorageError as RowReader does.
    """
    _check_kind(folder, manifest)
    kind, path = _KINDS[manifest.kind], folder / f"{ROW_TABLES[manifest.kind]}.jsonl"
    seen: set[str] = set()
    n_impossible, first, n_without_energy = 0, "", 0
    for batch in _batches(path, kind.row_type, notes, batch_bytes):
        rows = []
        for row in batch:
            _check_identity(row, manifest, path, seen)
            seen.add(row.trial_id)
            if len(seen) > MOST_TRIALS:
                raise InputError(
                    f"has more than {MOST_TRIALS:,} trials, which no plan of a run has",
                    where=str(path),
                    fix=_MIXED,
                )
            try:
                kind.check(row, path)
            except InputError as error:
                n_impossible, first = (
                    n_impossible + 1,
                    first or (f"trial {display_name(row.trial_id)}: {error.what}"),
                )
                continue
            n_without_energy += any(map(_is_empty, kind.windows(row)))
            rows.append(row)
        yield rows
    name = f"{shown_folder(folder)}/{path.name}"
    if n_impossible:
        notes.append(f"{name}: {_n(n_impossible, 'trial')} left out, the first is {first}")
    if n_without_energy:
        notes.append(
            f"{name}: {_n(n_without_energy, 'trial')} metered with zero or negative energy, which "
            "is in no power and in no fit; look at the rails of the total"
        )


def _check_kind(folder: Path, manifest: Manifest) -> None:
    for kind, table in ROW_TABLES.items():
        path = folder / f"{table}.jsonl"
        if kind != manifest.kind and find_status(path, folder.parent) is not None:
            raise InputError(
                f"holds rows of {kind}, by its manifest the run is one of {manifest.kind}",
                where=str(path),
                fix=_MIXED,
            )


def read_samples(folder: Path, notes: list[str], batch_bytes: int) -> Iterator[list[PowerSample]]:
    """The power samples of a run in batches; none where there was no meter."""
    yield from _batches(folder / SAMPLES, PowerSample, notes, batch_bytes)


def _batches(
    path: Path, row_type: type[Row], notes: list[str], batch_bytes: int
) -> Iterator[list[Row]]:
    if find_status(path, path.parent.parent) is None:
        return
    reader = RowReader(path, row_type, batch_bytes, path.parent.parent)
    yield from reader.batches()
    name = f"{shown_folder(path.parent)}/{path.name}"
    if reader.n_torn_bytes:
        notes.append(
            f"{name}: the last line was being written when the run was killed; "
            f"{reader.n_torn_bytes} bytes were put aside"
        )
    if reader.n_malformed:
        lines = _n(reader.n_malformed, "line")
        notes.append(f"{name}: {lines} put aside, the first is {reader.first_malformed}")


def _check_identity(row: _AnyRow, manifest: Manifest, path: Path, seen: set[str]) -> None:
    if row.run_id != manifest.run_id:
        raise InputError(
            f"a row belongs to run {row.run_id}, the manifest to {manifest.run_id}",
            where=str(path),
            fix=_MIXED,
        )
    # A program and a server run on the whole machine.
    if not isinstance(row, ProgramRun | GenerationRun) and row.processor != processor_of(manifest):
        raise InputError(
            f"trial {row.trial_id} ran on the {row.processor.upper()}, by its manifest "
            f"the run is one of the {processor_of(manifest).upper()}",
            where=str(path),
            fix=_MIXED,
        )
    if row.trial_id in seen:
        raise InputError(
            f"trial {row.trial_id} is here twice", where=str(path), fix="remove one row"
        )


def idle_notes(folder: Path, manifest: Manifest) -> list[str]:
    """A note on idle windows with an energy of zero or below."""
    n_empty = sum(map(_is_empty, manifest.idle or ()))
    if not n_empty:
        return []
    windows = "1 idle window has" if n_empty == 1 else f"{n_empty} idle windows have"
    name = f"{shown_folder(folder)}/{MANIFEST}"
    return [f"{name}: {windows} zero or negative total energy: in no idle power and in no fit"]


def _is_empty(window: EnergyWindow) -> bool:
    return window.total_j is not None and window.total_j <= 0


def _n(count: int, what: str) -> str:
    return f"1 {what} was" if count == 1 else f"{count:,} {what}s were"


def import_run(
    folder: Path, manifest: Manifest, content: str, store: Store, batch_bytes: int = BATCH_BYTES
) -> pl.DataFrame:
    """Write the rows of a run to ``store``; returns its entry, which the caller writes last.

    So many bytes of text are read at once, and become one file in each table. Rows that cannot
    be are left out, and the entry's notes say so. Raises SchemaError, InputError and
    StorageError as ``ingest`` does.
    """
    stamps, notes = stamps_json(folder), idle_notes(folder, manifest)
    parts = _Parts(manifest.run_id, content, store)
    run = run_frame([manifest], {})
    parts.write("energy", energy_frame([manifest], ()))
    n_trials = n_samples = 0
    kind = _KINDS[manifest.kind]
    for rows in read_run_rows(folder, manifest, notes, batch_bytes):
        for table, frame in kind.frames(rows, run).items():
            parts.write(table, frame)
        n_trials += len(rows)
    for samples in read_samples(folder, notes, batch_bytes):
        parts.write("samples", sample_frame(manifest.run_id, samples))
        n_samples += len(samples)
    if n_trials < manifest.n_trials:
        notes.append(
            f"{shown_folder(folder)}: {n_trials} of {manifest.n_trials} trials were measured; "
            f"run '{kind.again}' again to finish it"
        )
    return run_frame([manifest], {manifest.run_id: n_samples}).select(
        pl.all(),
        pl.lit(to_json(manifest)).alias("manifest_json"),
        pl.lit(n_trials, pl.Int64).alias("n_trials"),
        pl.lit(content).alias("content"),
        pl.lit(shown_folder(folder)).alias("folder"),
        pl.lit(stamps).alias("stamps_json"),
        pl.lit(to_json(parts.files)).alias("files_json"),
        pl.Series("notes", [notes], dtype=pl.List(pl.String)),
    )


class _Parts:
    """Writes the files of one run and keeps their names and marks."""

    def __init__(self, run_id: str, content: str, store: Store) -> None:
        self.files: RunFiles = {}
        self._run_id, self._content, self._store = run_id, content, store

    def write(self, table: str, frame: pl.DataFrame) -> None:
        if not frame.is_empty():
            number = len(files_of(table, self.files))
            name = run_part(table, self._run_id, self._content, number)
            self.files[name] = self._store.write(name, frame)
