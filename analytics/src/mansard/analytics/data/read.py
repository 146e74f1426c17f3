"""From the files of a dataset to the frames that everything else is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec
import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.layout import (
    ENTRY_FILE,
    MEASUREMENT_SCHEMA,
    RUN_ENTRY_SCHEMA,
    RUN_TABLES,
    SCORE_ENTRY_SCHEMA,
    RunFiles,
)
from mansard.analytics.data.limits import RUN_ID, check_manifest, check_score
from mansard.analytics.data.run_frames import RUN_SCHEMA
from mansard.analytics.data.store import Store
from mansard.core.errors import InputError, SchemaError
from mansard.core.records import Manifest, Measurement, ModelScore

Decoded = TypeVar("Decoded")
_MAKE_AGAIN = "make the dataset again from the runs"


@dataclass(frozen=True, eq=False)
class Part:
    """Which runs, scores and measurements are in one place, and where their rows lie."""

    place: str  # as the user named it
    store: Store
    runs: pl.DataFrame  # RUN_ENTRY_SCHEMA
    scores: pl.DataFrame  # SCORE_ENTRY_SCHEMA
    measurements: pl.DataFrame  # MEASUREMENT_SCHEMA
    notes: tuple[str, ...] = ()  # beside those of the runs


def read_part(place: str) -> Part:
    """What is in the dataset in a folder or at a URL; empty frames where there is none.

    Raises SchemaError and StorageError where it cannot be read.
    """
    store = Store(place)
    part = Part(
        place=place,
        store=store,
        runs=store.read_each("runs", ENTRY_FILE, RUN_ENTRY_SCHEMA),
        scores=store.read_each("scores", ENTRY_FILE, SCORE_ENTRY_SCHEMA),
        measurements=store.read_each("measurements", ENTRY_FILE, MEASUREMENT_SCHEMA),
    )
    # They become names of files where this is merged into another dataset.
    ids = pl.concat([part.runs["run_id"], part.scores["score_id"], part.measurements["run_id"]])
    odd = ids.filter(~ids.str.contains(f"^(?:{RUN_ID.pattern})$").fill_null(value=False))
    if len(odd):
        raise SchemaError(f"the id {odd[0]!r} cannot name a file", where=place, fix=_MAKE_AGAIN)
    return part


def read_dataset(place: str) -> Dataset:
    """The dataset in a folder or at a URL, as ``mansard merge`` or a report left it.

    Raises what ``read_filled_part`` raises.
    """
    return dataset_of(read_filled_part(place))


def read_filled_part(place: str) -> Part:
    """As ``read_part``; raises InputError where there is no dataset."""
    part = read_part(place)
    if part.runs.is_empty():
        raise InputError(
            "no dataset of this version of Mansard is here",
            where=place,
            fix="make one with 'mansard merge RUNS --into' this place",
        )
    return part


def dataset_of(part: Part) -> Dataset:
    """The frames of all that is in ``part``; SchemaError, InputError or StorageError."""
    runs = part.runs.sort("run_id")
    files = [run_files(text, part.place) for text in runs["files_json"]]
    names = {table: [name for each in files for name in each.of(table)] for table in RUN_TABLES}
    scores = tuple(
        decode(text, ModelScore, part.place)
        for text in part.scores.sort("position", "score_id")["score_json"]
    )
    for score in scores:
        check_score(score, part.place)
    measured = part.measurements.sort("run_id", "position")["measurement_json"]
    by_folder = runs.sort("folder", maintain_order=True)
    read, scan = part.store.read, part.store.scan
    return Dataset(
        places=(part.place,),
        runs=runs.select(list(RUN_SCHEMA)),
        trials=read(names["trials"], RUN_TABLES["trials"]).sort("run_id", "trial_id"),
        repetitions=scan(names["repetitions"], RUN_TABLES["repetitions"]),
        energy=read(names["energy"], RUN_TABLES["energy"]).sort(
            "run_id", "trial_id", "window", maintain_order=True
        ),
        samples=scan(names["samples"], RUN_TABLES["samples"]),
        layers=layer_frame(scores),
        manifests=tuple(_manifest(text, part.place) for text in runs["manifest_json"]),
        scores=scores,
        measurements=tuple(decode(text, Measurement, part.place) for text in measured),
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
