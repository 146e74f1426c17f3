"""Networks and programs that were run, alone or at once, and what networks predict of samples.

A row is also kept whole, as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from mansard.analytics.data.frames import FrameSchema, to_json
from mansard.core.records import Accuracy, ContentionPoint, Measurement, MultiRun, ProgramRun

MEASUREMENT_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "trial_id": pl.String,
    "source": pl.String,
    "model": pl.String,
    "model_hash": pl.String,
    "phase": pl.String,
    "engine": pl.String,
    "engine_version": pl.String,
    "processor": pl.String,
    "provider": pl.String,
    "threads": pl.Int64,
    "precision": pl.String,
    "batch": pl.Int64,
    "copies": pl.String,
    "launching": pl.String,
    "waiting": pl.String,
    "failure": pl.String,
    "seconds_s": pl.List(pl.Float64),
    "call_seconds_s": pl.List(pl.Float64),
    "memory_bytes": pl.Int64,
    "load_s": pl.Float64,
    "first_call_s": pl.Float64,
    "disturbances": pl.List(pl.String),
    "started_utc": pl.String,
    "row_json": pl.String,  # the Measurement
}
# One row for each layer of each measurement with a profile.
LAYER_TIME_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "trial_id": pl.String,
    "index": pl.Int64,
    "name": pl.String,
    "op_type": pl.String,
    "provider": pl.String,
    "nodes": pl.List(pl.Int64),  # LayerScore.index of the nodes that it is
    "runs": pl.Int64,
    "seconds_s": pl.List(pl.Float64),  # one for each profiled call
}
PROGRAM_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "trial_id": pl.String,
    "source": pl.String,
    "workload": pl.String,
    "command": pl.List(pl.String),
    "program_hash": pl.String,
    "wall_s": pl.List(pl.Float64),  # of the repetitions that count
    "metric": pl.List(pl.Float64),  # likewise; null where it was not found
    "disturbances": pl.List(pl.String),
    "started_utc": pl.String,
    "row_json": pl.String,  # the ProgramRun
}
ACCURACY_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "trial_id": pl.String,
    "source": pl.String,
    "model": pl.String,
    "model_hash": pl.String,
    "weights_hash": pl.String,
    "engine": pl.String,
    "engine_version": pl.String,
    "processor": pl.String,
    "provider": pl.String,
    "precision": pl.String,
    "batch": pl.Int64,
    "calibration": pl.String,
    "dataset": pl.String,
    "dataset_hash": pl.String,
    "n_samples": pl.Int64,
    "n_classes": pl.Int64,
    "predicted": pl.List(pl.Int64),  # the class of each sample
    "ranks": pl.List(pl.Int64),  # classes before the right one; null without labels
    "failure": pl.String,
    "started_utc": pl.String,
    "row_json": pl.String,  # the Accuracy
}


# Of several networks at once, and of demands on memory: what is read of them is in the record.
CONCURRENT_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "trial_id": pl.String,
    "source": pl.String,
    "processor": pl.String,
    "failure": pl.String,
    "disturbances": pl.List(pl.String),
    "started_utc": pl.String,
    "row_json": pl.String,  # the MultiRun or ContentionPoint
}


def measurement_frame(measurements: Sequence[Measurement]) -> pl.DataFrame:
    """One row for each measurement, in their order."""
    rows = [
        {name: getattr(row, name, None) for name in MEASUREMENT_SCHEMA} | {"row_json": to_json(row)}
        for row in measurements
    ]
    return pl.DataFrame(rows, schema=MEASUREMENT_SCHEMA)


def layer_time_frame(measurements: Sequence[Measurement]) -> pl.DataFrame:
    """One row for each layer that was timed, in the order of the measurements."""
    rows = [
        {name: getattr(layer, name, None) for name in LAYER_TIME_SCHEMA}
        | {"run_id": row.run_id, "trial_id": row.trial_id}
        for row in measurements
        for layer in row.layers or ()
    ]
    return pl.DataFrame(rows, schema=LAYER_TIME_SCHEMA)


def accuracy_frame(accuracies: Sequence[Accuracy]) -> pl.DataFrame:
    """One row for each, in their order."""
    rows = [
        {name: getattr(row, name, None) for name in ACCURACY_SCHEMA} | {"row_json": to_json(row)}
        for row in accuracies
    ]
    return pl.DataFrame(rows, schema=ACCURACY_SCHEMA)


def concurrent_frame(found: Sequence[MultiRun] | Sequence[ContentionPoint]) -> pl.DataFrame:
    """One row for each, in their order."""
    rows = [
        {name: getattr(row, name, None) for name in CONCURRENT_SCHEMA} | {"row_json": to_json(row)}
        for row in found
    ]
    return pl.DataFrame(rows, schema=CONCURRENT_SCHEMA)


def program_frame(programs: Sequence[ProgramRun]) -> pl.DataFrame:
    """One row for each program, in their order."""
    rows = [
        {name: getattr(row, name, None) for name in PROGRAM_SCHEMA}
        | {
            "wall_s": [each.wall_s for each in row.repetitions],
            "metric": [each.metric for each in row.repetitions],
            "row_json": to_json(row),
        }
        for row in programs
    ]
    return pl.DataFrame(rows, schema=PROGRAM_SCHEMA)
