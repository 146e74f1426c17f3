"""From the files of a dataset to the frames that everything else is computed from.

Several locations are read as one: every run once, every score once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec
import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.limits import RUN_ID, check_manifest, check_score
from mansard.analytics.data.run_frames import RUN_SCHEMA
from mansard.analytics.data.store import (
    ENTRY_FILE,
    MEASUREMENT_SCHEMA,
    RUN_ENTRY_SCHEMA,
    RUN_TABLES,
    SCORE_ENTRY_SCHEMA,
    RunFiles,
    Store,
)
from mansard.core.errors import InputError, SchemaError
from mansard.core.records import Manifest, Measurement, ModelScore

Decoded = TypeVar("Decoded")
_MAKE_AGAIN = "make the dataset again from the runs"


@dataclass(frozen=True, eq=False)
class DatasetPart:
    """Which runs, scores and measurements are in one location, and where their rows lie."""

    location: str  # as the user named it
    store: Store
    runs: pl.DataFrame  # RUN_ENTRY_SCHEMA
    scores: pl.DataFrame  # SCORE_ENTRY_SCHEMA
    measurements: pl.DataFrame  # MEASUREMENT_SCHEMA
    notes: tuple[str, ...] = ()  # beside those of the runs


def read_part(location: str) -> DatasetPart:
    """What is in the dataset in a folder or at a URL; empty frames where there is none.

    Raises SchemaError and StorageError where it cannot be read.
    """
    store = Store(location)
    part = DatasetPart(
        location=location,
        store=store,
        runs=store.read_each("runs", ENTRY_FILE, RUN_ENTRY_SCHEMA),
        scores=store.read_each("scores", ENTRY_FILE, SCORE_ENTRY_SCHEMA),
        measurements=store.read_each("measurements", ENTRY_FILE, MEASUREMENT_SCHEMA),
    )
    # They become names of files where this is merged into another dataset.
    ids = pl.concat([part.runs["run_id"], part.scores["score_id"], part.measurements["run_id"]])
    odd = ids.filter(~ids.str.contains(f"^(?:{RUN_ID.pattern})$").fill_null(value=False))
    if len(odd):
        raise SchemaError(f"the id {odd[0]!r} cannot name a file", where=location, fix=_MAKE_AGAIN)
    return part


def read_dataset(location: str) -> Dataset:
    """The dataset in a folder or at a URL, as ``mansard merge`` or a report left it.

    Raises what ``read_filled_part`` raises.
    """
    return dataset_of(read_filled_part(location))


def read_filled_part(location: str) -> DatasetPart:
    """As ``read_part``; raises InputError where there is no dataset."""
    part = read_part(location)
    if part.runs.is_empty():
        raise InputError(
            "no dataset of this version of Mansard is here",
            where=location,
            fix="make one with 'mansard merge RUNS --into' this place",
        )
    return part


def dataset_of(part: DatasetPart) -> Dataset:
    """The frames of all that is in ``part``; SchemaError, InputError or StorageError."""
    runs = part.runs.sort("run_id")
    files = [run_files(text, part.location) for text in runs["files_json"]]
    names = {table: [name for each in files for name in each.of(table)] for table in RUN_TABLES}
    scores = tuple(
        decode(text, ModelScore, part.location)
        for text in part.scores.sort("position", "score_id")["score_json"]
    )
    for score in scores:
        check_score(score, part.location)
    measured = part.measurements.sort("run_id", "position")["measurement_json"]
    by_folder = runs.sort("folder", maintain_order=True)
    read, scan = part.store.read, part.store.scan
    return Dataset(
        locations=(part.location,),
        runs=runs.select(list(RUN_SCHEMA)),
        trials=read(names["trials"], RUN_TABLES["trials"]).sort("run_id", "trial_id"),
        repetitions=scan(names["repetitions"], RUN_TABLES["repetitions"]),
        energy=read(names["energy"], RUN_TABLES["energy"]).sort(
            "run_id", "trial_id", "window", maintain_order=True
        ),
        samples=scan(names["samples"], RUN_TABLES["samples"]),
        layers=layer_frame(scores),
        manifests=tuple(_manifest(text, part.location) for text in runs["manifest_json"]),
        scores=scores,
        measurements=tuple(decode(text, Measurement, part.location) for text in measured),
        notes=(*part.notes, *(note for own in by_folder["notes"] for note in own)),
    )


def decode(text: str, row_type: type[Decoded], where: str) -> Decoded:
    """A record that a dataset holds as JSON; raises SchemaError."""
    try:
        return msgspec.json.decode(text, type=row_type)
    except msgspec.DecodeError as error:
        raise SchemaError(
            f"holds a {row_type.__name__} of another version: {error}",
            where=where,
            fix=_MAKE_AGAIN,
        ) from error


def run_files(text: str, where: str) -> RunFiles:
    """The files that an entry names; raises SchemaError for a name that leads elsewhere."""
    files = decode(text, RunFiles, where)
    for table in RUN_TABLES:
        for name in files.of(table):
            if not name.startswith(f"{table}/run_id=") or ".." in name.split("/"):
                raise SchemaError(
                    f"names the file {name!r}, which is not its own",
                    where=where,
                    fix=_MAKE_AGAIN,
                )
    return files


def _manifest(text: str, where: str) -> Manifest:
    manifest = decode(text, Manifest, where)
    check_manifest(manifest, where)
    return manifest


Entry = Mapping[str, object]  # a row of RUN_ENTRY_SCHEMA


def join(parts: Sequence[DatasetPart]) -> Dataset:
    """One dataset of several locations, at least one; raises InputError as ``without_repeats``."""
    locations = tuple(part.location for part in parts)
    found = [dataset_of(part) for part in without_repeats(parts)]
    if len(found) == 1:
        return replace(found[0], locations=locations)
    scores = tuple(score for each in found for score in each.scores)
    manifests = [manifest for each in found for manifest in each.manifests]
    trials = pl.concat([each.trials for each in found])
    energy = pl.concat([each.energy for each in found])
    return Dataset(
        locations=locations,
        runs=pl.concat([each.runs for each in found]).sort("run_id"),
        trials=trials.sort("run_id", "trial_id"),
        repetitions=pl.concat([each.repetitions for each in found]),
        energy=energy.sort("run_id", "trial_id", "window", maintain_order=True),
        samples=pl.concat([each.samples for each in found]),
        layers=layer_frame(scores),
        manifests=tuple(sorted(manifests, key=lambda manifest: manifest.run_id)),
        scores=scores,
        measurements=tuple(row for each in found for row in each.measurements),
        notes=tuple(dict.fromkeys(note for each in found for note in each.notes)),
    )


def without_repeats(parts: Sequence[DatasetPart]) -> list[DatasetPart]:
    """The same locations, each without what another one has as well.

    Of a run that is in several the fullest copy counts, of a score the last location's, of equal
    measurements the first. Raises InputError where two copies of a run hold different trials.
    """
    runs = _chosen_runs(parts)
    scores = {score_id: at for at, part in enumerate(parts) for score_id in part.scores["score_id"]}
    seen: set[str] = set()
    found = []
    for at, part in enumerate(parts):
        text = part.measurements["measurement_json"]
        new = [row not in seen for row in text]
        seen.update(text)
        found.append(
            replace(
                part,
                runs=_filter(part.runs, [runs[key] == at for key in part.runs["run_id"]]),
                scores=_filter(part.scores, [scores[key] == at for key in part.scores["score_id"]]),
                measurements=_filter(part.measurements, new),
            )
        )
    return found


def _filter(frame: pl.DataFrame, mask: Sequence[bool]) -> pl.DataFrame:
    return frame.filter(pl.Series(mask, dtype=pl.Boolean))


def _chosen_runs(parts: Sequence[DatasetPart]) -> dict[str, int]:
    """Which of ``parts`` each run is taken from."""
    chosen: dict[str, tuple[int, Entry]] = {}
    for at, part in enumerate(parts):
        for entry in part.runs.iter_rows(named=True):
            run_id = entry["run_id"]
            other = chosen.get(run_id)
            if other is None or is_fuller(part, entry, parts[other[0]], other[1]):
                chosen[run_id] = (at, entry)
    return {run_id: at for run_id, (at, _) in chosen.items()}


def is_fuller(part: DatasetPart, entry: Entry, other_part: DatasetPart, other: Entry) -> bool:
    """Whether ``entry`` holds more of a run than ``other``, another copy of the same.

    Raises InputError where neither holds all trials of the other: one id stands for one
    measurement, and two of them are not to be told apart by it.
    """
    if entry["content"] == other["content"]:
        return False
    own, there = _trials(part, entry), _trials(other_part, other)
    if own != there and not own < there and not there < own:
        raise InputError(
            f"run {entry['run_id']} is also in {other_part.location}, with other trials",
            where=part.location,
            fix="it was measured twice under one id; leave one of the two out",
        )
    return _fullness(entry, len(own)) > _fullness(other, len(there))


def _fullness(entry: Entry, n_trials: int) -> tuple[int, bool, int]:
    n_samples = entry["n_power_samples"]
    assert isinstance(n_samples, int)  # noqa: S101 - by its schema
    return n_trials, entry["finished_utc"] is not None, n_samples


def _trials(part: DatasetPart, entry: Entry) -> set[tuple[object, ...]]:
    """What tells trials apart: one that was measured again began at another time."""
    files = run_files(str(entry["files_json"]), part.location)
    rows = part.store.read(files.of("trials"), RUN_TABLES["trials"])
    return set(rows.select("trial_id", "started_utc", "duration_s").iter_rows())
