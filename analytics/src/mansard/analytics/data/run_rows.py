"""The rows of one run folder, checked, some at a time; what is wrong is said in notes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mansard.analytics.data.dataset import processor_of
from mansard.analytics.data.limits import check_trial
from mansard.analytics.data.names import shown
from mansard.analytics.data.sources import MANIFEST, SAMPLES, TRIALS, shown_folder
from mansard.core.errors import InputError
from mansard.core.files import storage_error
from mansard.core.jsonl import Row, RowReader
from mansard.core.records import EnergyWindow, Manifest, PowerSample, Trial

_MIXED = "files of two runs were mixed; measure again into another folder"


def read_trials(
    folder: Path, manifest: Manifest, notes: list[str], batch_bytes: int
) -> Iterator[list[Trial]]:
    """The trials of a run in batches; those that cannot be are left out, and noted.

    Raises InputError for rows of another run or a trial that is here twice, SchemaError and
    StorageError as RowReader does.
    """
    path = folder / TRIALS
    seen: set[str] = set()
    n_impossible, first, n_without_energy = 0, "", 0
    for batch in _batches(path, Trial, notes, batch_bytes):
        kept = []
        for trial in batch:
            _check_identity(trial, manifest, path, seen)
            seen.add(trial.trial_id)
            try:
                check_trial(trial, path)
            except InputError as error:
                n_impossible, first = n_impossible + 1, first or _told(trial, error)
                continue
            n_without_energy += _has_no_energy(trial)
            kept.append(trial)
        yield kept
    name = f"{shown_folder(folder)}/{TRIALS}"
    if n_impossible:
        notes.append(f"{name}: {_n(n_impossible, 'trial')} left out, the first is {first}")
    if n_without_energy:
        notes.append(
            f"{name}: {_n(n_without_energy, 'trial')} metered with zero or negative energy, which "
            "is in no power and in no fit; look at the rails of the total"
        )


def read_samples(folder: Path, notes: list[str], batch_bytes: int) -> Iterator[list[PowerSample]]:
    """The power samples of a run in batches; none where there was no meter."""
    yield from _batches(folder / SAMPLES, PowerSample, notes, batch_bytes)


def _batches(
    path: Path, row_type: type[Row], notes: list[str], batch_bytes: int
) -> Iterator[list[Row]]:
    if not exists(path):
        return
    reader = RowReader(path, row_type, batch_bytes)
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


def exists(path: Path) -> bool:
    """Whether a file or folder is there; raises StorageError where we may not look."""
    try:
        return path.exists()
    except OSError as error:
        raise storage_error(error, path) from error


def _check_identity(trial: Trial, manifest: Manifest, path: Path, seen: set[str]) -> None:
    if trial.run_id != manifest.run_id:
        raise InputError(
            f"a row belongs to run {trial.run_id}, the manifest to {manifest.run_id}",
            where=str(path),
            fix=_MIXED,
        )
    if trial.processor != processor_of(manifest):
        raise InputError(
            f"trial {trial.trial_id} ran on the {trial.processor.upper()}, by its manifest "
            f"the run is one of the {processor_of(manifest).upper()}",
            where=str(path),
            fix=_MIXED,
        )
    if trial.trial_id in seen:
        raise InputError(
            f"trial {trial.trial_id} is here twice", where=str(path), fix="remove one row"
        )


def _told(trial: Trial, error: InputError) -> str:
    return f"trial {shown(trial.trial_id)}: {error.what}"


def idle_notes(folder: Path, manifest: Manifest) -> list[str]:
    """A line for idle windows that drew nothing, or less than nothing."""
    n_empty = sum(map(_is_empty, manifest.idle or ()))
    if not n_empty:
        return []
    windows = "1 idle window has" if n_empty == 1 else f"{n_empty} idle windows have"
    name = f"{shown_folder(folder)}/{MANIFEST}"
    return [f"{name}: {windows} zero or negative total energy: in no idle power and in no fit"]


def _has_no_energy(trial: Trial) -> bool:
    return any(map(_is_empty, trial.energy or ()))


def _is_empty(window: EnergyWindow) -> bool:
    return window.total_j is not None and window.total_j <= 0


def _n(count: int, what: str) -> str:
    return f"1 {what} was" if count == 1 else f"{count:,} {what}s were"
