"""Reads a folder of runs, checks it, and writes it as typed Parquet."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from mansard.analytics.data.dataset import FRAME_NAMES, Dataset, processor_of, score_id
from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.limits import check_manifest, check_score, check_trial
from mansard.analytics.data.run_frames import energy_frame, run_frame
from mansard.analytics.data.trial_frames import repetition_frame, trial_frame
from mansard.core.documents import read_document
from mansard.core.errors import InputError
from mansard.core.files import make_folder, storage_error, write_atomic
from mansard.core.jsonl import read_rows
from mansard.core.records import Manifest, Measurement, ModelScore, PowerSample, Record, Trial

DATASET_FOLDER = "dataset"
Row = TypeVar("Row", bound=Record)


@dataclass
class _Gathered:
    manifests: list[Manifest] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    n_power_samples: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def ingest(runs: Path) -> Dataset:
    """Read every run folder in ``runs`` and write ``runs/dataset/*.parquet``.

    Raises SchemaError for a file of another version or with an unknown field,
    InputError when there is no run or rows and manifest disagree, StorageError
    when a file cannot be read or written. Folders that are no runs are left
    alone, and a torn last line is put aside; both are said in ``Dataset.notes``.
    """
    gathered = _Gathered()
    for folder in _folders(runs):
        _read_run(folder, gathered)
    if not gathered.manifests:
        raise InputError(
            "no run was found here", where=str(runs), fix="measure first, with 'mansard bench'"
        )
    scores = _last_of_each(_read(runs / "scores.jsonl", ModelScore, gathered.notes))
    for score in scores:
        check_score(score, runs / "scores.jsonl")
    measurements = _read(runs / "measurements.jsonl", Measurement, gathered.notes)
    run_rows = run_frame(gathered.manifests, gathered.n_power_samples)
    dataset = Dataset(
        path=runs,
        runs=run_rows,
        trials=trial_frame(gathered.trials, run_rows),
        repetitions=repetition_frame(gathered.trials),
        energy=energy_frame(gathered.manifests, gathered.trials),
        layers=layer_frame(scores),
        manifests=tuple(sorted(gathered.manifests, key=lambda manifest: manifest.run_id)),
        scores=scores,
        measurements=measurements,
        notes=tuple(gathered.notes),
    )
    _write_parquet(dataset, runs / DATASET_FOLDER)
    return dataset


def _folders(runs: Path) -> list[Path]:
    try:
        entries = sorted(runs.iterdir())
    except FileNotFoundError:
        raise InputError(
            "there is no such folder", where=str(runs), fix="measure first, with 'mansard bench'"
        ) from None
    except OSError as error:
        raise storage_error(error, runs) from error
    return [
        entry
        for entry in entries
        if entry.name != DATASET_FOLDER and not entry.name.startswith(".") and _is_dir(entry)
    ]


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:  # a folder whose entries we may list, but not look at
        raise storage_error(error, path) from error


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise storage_error(error, path) from error


def _read_run(folder: Path, gathered: _Gathered) -> None:
    if not _exists(folder / "manifest.json"):
        gathered.notes.append(f"{folder.name}: ignored, it has no manifest.json and is no run")
        return
    manifest = read_document(folder / "manifest.json", Manifest)
    check_manifest(manifest, folder / "manifest.json")
    if any(manifest.run_id == other.run_id for other in gathered.manifests):
        raise InputError(
            f"run {manifest.run_id} is here twice",
            where=str(folder),
            fix="remove one of the two folders",
        )
    trials = _trials_of(folder, manifest, gathered.notes)
    if len(trials) < manifest.n_trials:
        gathered.notes.append(
            f"{folder.name}: {len(trials)} of {manifest.n_trials} trials were measured; "
            "run 'mansard bench' again to finish it"
        )
    gathered.manifests.append(manifest)
    gathered.trials.extend(trials)
    samples = _read(folder / "samples.jsonl", PowerSample, gathered.notes)
    gathered.n_power_samples[manifest.run_id] = len(samples)


def _trials_of(folder: Path, manifest: Manifest, notes: list[str]) -> tuple[Trial, ...]:
    path = folder / "trials.jsonl"
    trials = _read(path, Trial, notes)
    seen: set[str] = set()
    for trial in trials:
        if trial.run_id != manifest.run_id:
            raise InputError(
                f"a row belongs to run {trial.run_id}, the manifest to {manifest.run_id}",
                where=str(path),
                fix="files of two runs were mixed; measure again into another folder",
            )
        if trial.processor != processor_of(manifest):
            raise InputError(
                f"trial {trial.trial_id} ran on the {trial.processor.upper()}, by its manifest "
                f"the run is one of the {processor_of(manifest).upper()}",
                where=str(path),
                fix="files of two runs were mixed; measure again into another folder",
            )
        if trial.trial_id in seen:
            raise InputError(
                f"trial {trial.trial_id} is here twice", where=str(path), fix="remove one row"
            )
        seen.add(trial.trial_id)
        check_trial(trial, path)
    return trials


def _read(path: Path, row_type: type[Row], notes: list[str]) -> tuple[Row, ...]:
    if not _exists(path):
        return ()
    found = read_rows(path, row_type)
    if found.torn is not None:
        notes.append(
            f"{path.parent.name}/{path.name}: the last line was being written when the run was "
            f"killed; {len(found.torn)} bytes were put aside"
        )
    return found.rows


def _last_of_each(scores: Sequence[ModelScore]) -> tuple[ModelScore, ...]:
    return tuple({score_id(score): score for score in scores}.values())


def _write_parquet(dataset: Dataset, folder: Path) -> None:
    make_folder(folder)
    for name in FRAME_NAMES:
        buffer = io.BytesIO()
        getattr(dataset, name).write_parquet(buffer)
        write_atomic(folder / f"{name}.parquet", buffer.getvalue())
