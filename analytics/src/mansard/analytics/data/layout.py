"""Which tables a dataset has, and how their files are called.

``runs/run_id=…/`` holds one file of one row, which is written last: a run is in the dataset when
that file is. It names the files of the run in the other tables. Files of another layout have other
names, so that no reader takes them for its own.
"""

from __future__ import annotations

import msgspec
import polars as pl

from mansard.analytics.data.frames import (
    ACCURACY_SCHEMA,
    CONCURRENT_SCHEMA,
    LAYER_SCHEMA,
    LAYER_TIME_SCHEMA,
    MEASUREMENT_SCHEMA,
    PROGRAM_SCHEMA,
    FrameSchema,
)
from mansard.analytics.data.run_frames import (
    ENERGY_SCHEMA,
    REPETITION_SCHEMA,
    RUN_SCHEMA,
    SAMPLE_SCHEMA,
    TRIAL_SCHEMA,
)
from mansard.core.hashing import content_hash

DATASET_FOLDER = "dataset"
PUBLISHED_FOLDER = "published"  # tables of others, see published.store
OFFLOADS_FOLDER = "hierarchical"  # answers that were kept, see decisions.offload.files


class FileMark(msgspec.Struct, frozen=True, array_like=True):
    """The length, digest and expanded size that a file must have; unknown in an object store."""

    n_bytes: int
    digest: str
    expanded_bytes: int  # of the frame that it becomes, at most


RunFiles = dict[str, FileMark]  # the files of one run, by their names below the dataset


# Of each run: its rows in files of bounded length.
RUN_TABLES: dict[str, FrameSchema] = {
    "trials": TRIAL_SCHEMA,
    "repetitions": REPETITION_SCHEMA,
    "energy": ENERGY_SCHEMA,
    "samples": SAMPLE_SCHEMA,
    "measurements": MEASUREMENT_SCHEMA,
    "layer_times": LAYER_TIME_SCHEMA,
    "programs": PROGRAM_SCHEMA,
    "accuracies": ACCURACY_SCHEMA,
    "multi": CONCURRENT_SCHEMA,
    "contention": CONCURRENT_SCHEMA,
}
# One row of each run: what a report shows of it, and where the rest of it lies.
RUN_ENTRY_SCHEMA: FrameSchema = {
    **RUN_SCHEMA,
    "manifest_json": pl.String,
    "n_trials": pl.Int64,  # rows of its kind that were measured
    "content": pl.String,  # hash of the files it was made of
    "folder": pl.String,
    "stamps_json": pl.String,  # lengths and times of those files: unchanged, they are not read
    "files_json": pl.String,  # RunFiles
    "notes": pl.List(pl.String),
}
# Scores as they are, in the words of docs/reference/records.md.
# ``position``: in the file that they come from.
SCORE_ENTRY_SCHEMA: FrameSchema = {
    "score_id": pl.String,
    "position": pl.Int64,
    "score_json": pl.String,
}

_ALL = [*RUN_TABLES.values(), RUN_ENTRY_SCHEMA, SCORE_ENTRY_SCHEMA]
_MARKS = "files with digests and expansions, 2026-11"  # what RunFiles says
_COLUMNS = [[[name, str(kind)] for name, kind in each.items()] for each in (*_ALL, LAYER_SCHEMA)]
LAYOUT = content_hash([_MARKS, *_COLUMNS])
ENTRY_FILE = f"{LAYOUT}.parquet"


MAKE_AGAIN = "delete this dataset and make it again from the runs"


def files_of(table: str, files: RunFiles) -> list[str]:
    """The names of a run's files in one of RUN_TABLES."""
    return [name for name in files if name.startswith(f"{table}/")]


def run_entry(run_id: str) -> str:
    """The file that says that a run is in the dataset."""
    return f"runs/run_id={run_id}/{ENTRY_FILE}"


def run_part(table: str, run_id: str, content: str, number: int) -> str:
    """The name of a file of a run's rows; it contains a hash of their content."""
    return f"{table}/run_id={run_id}/{content}-{number:05d}.parquet"


def score_entry(score_id: str) -> str:
    """The file of one score."""
    return f"scores/score_id={score_id}/{ENTRY_FILE}"


def layer_part(score_id: str) -> str:
    """The file of the layers of one score, for other programs to read."""
    return f"layers/score_id={score_id}/{ENTRY_FILE}"
