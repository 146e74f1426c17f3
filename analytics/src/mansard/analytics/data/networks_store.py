"""Scores and measurements of networks, to the files of a dataset."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl

from mansard.analytics.data.dataset import score_id
from mansard.analytics.data.frames import layer_frame, to_json
from mansard.analytics.data.layout import (
    MEASUREMENT_SCHEMA,
    SCORE_ENTRY_SCHEMA,
    layer_part,
    measurement_part,
    score_entry,
)
from mansard.analytics.data.store import Store
from mansard.core.records import Measurement, ModelScore


def score_entries(scores: Sequence[ModelScore]) -> pl.DataFrame:
    """One row per score; of two scores in the same circumstances the last counts."""
    last = {score_id(score): score for score in scores}
    rows = [
        {"score_id": identity, "position": at, "score_json": to_json(score)}
        for at, (identity, score) in enumerate(last.items())
    ]
    return pl.DataFrame(rows, schema=SCORE_ENTRY_SCHEMA)


def measurement_entries(measurements: Sequence[Measurement]) -> pl.DataFrame:
    """One row per measured network, in the order of the file."""
    rows = [
        {"run_id": row.run_id, "position": at, "measurement_json": to_json(row)}
        for at, row in enumerate(measurements)
    ]
    return pl.DataFrame(rows, schema=MEASUREMENT_SCHEMA)


def write_scores(store: Store, wanted: pl.DataFrame, there: pl.DataFrame) -> set[str]:
    """Write the scores that are not ``there`` yet; returns the files of all of ``wanted``."""
    known = set(there.iter_rows())
    files: set[str] = set()
    for row in wanted.iter_rows():
        score_id, _, score_json = row
        own = (layer_part(score_id), score_entry(score_id))
        files.update(own)
        if row not in known:
            score = msgspec.json.decode(score_json, type=ModelScore)
            store.write(own[0], layer_frame([score]))
            store.write(own[1], wanted.filter(pl.col("score_id") == score_id))
    return files


def write_measurements(store: Store, wanted: pl.DataFrame, there: pl.DataFrame) -> set[str]:
    """Write the measurements of each run where they differ; returns the files of all."""
    files: set[str] = set()
    for (run_id,), rows in wanted.partition_by("run_id", as_dict=True).items():
        file = measurement_part(str(run_id))
        files.add(file)
        if not rows.equals(there.filter(pl.col("run_id") == run_id)):
            store.write(file, rows)
    return files
