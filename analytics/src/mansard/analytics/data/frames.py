"""Typed Polars frames, one column per field; and frames as files.

Of layers of scores, of networks and programs that were run, alone or at once, and of what networks
predict of samples. A row of a run is also kept whole, as JSON.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import polars as pl
from polars.datatypes import DataType, DataTypeClass

from mansard.analytics.data.scores import score_id
from mansard.core.errors import UsageError
from mansard.core.records import (
    LAYER_COUNTS,
    Accuracy,
    ContentionPoint,
    GenerationRun,
    Measurement,
    ModelScore,
    MultiRun,
    OffloadRun,
    ProgramRun,
    Record,
)

UNDISTURBED = pl.col("disturbances").list.len() == 0  # of trials: those that count

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
GENERATION_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "trial_id": pl.String,
    "source": pl.String,
    "workload": pl.String,
    "model": pl.String,
    "server": pl.String,
    "server_version": pl.String,
    "prompt_tokens": pl.Int64,
    "generate_tokens": pl.Int64,
    "concurrency": pl.Int64,
    "first_token_s": pl.List(pl.Float64),  # of each request that counts
    "token_s": pl.List(pl.Float64),  # likewise, of each token after the first
    "disturbances": pl.List(pl.String),
    "started_utc": pl.String,
    "row_json": pl.String,  # the GenerationRun
}
OFFLOAD_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "trial_id": pl.String,
    "source": pl.String,
    "model": pl.String,
    "address": pl.String,
    "dataset": pl.String,
    "way": pl.String,
    "first": pl.Int64,
    "n_samples": pl.Int64,
    "latency_s": pl.List(pl.Float64),  # of each sample
    "offloaded": pl.List(pl.Int64),  # places of samples
    "round_trip_s": pl.List(pl.Float64),  # of each of them
    "disturbances": pl.List(pl.String),
    "started_utc": pl.String,
    "row_json": pl.String,  # the OffloadRun
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
    return _frame_of(measurements, MEASUREMENT_SCHEMA)


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
    return _frame_of(accuracies, ACCURACY_SCHEMA)


def concurrent_frame(records: Sequence[MultiRun] | Sequence[ContentionPoint]) -> pl.DataFrame:
    """One row for each, in their order."""
    return _frame_of(records, CONCURRENT_SCHEMA)


def _frame_of(records: Sequence[Record], schema: FrameSchema) -> pl.DataFrame:
    rows = [
        {name: getattr(row, name, None) for name in schema} | {"row_json": to_json(row)}
        for row in records
    ]
    return pl.DataFrame(rows, schema=schema)


def program_frame(programs: Sequence[ProgramRun]) -> pl.DataFrame:
    """One row for each program, in their order."""
    rows = [
        {name: getattr(row, name, None) for name in PROGRAM_SCHEMA}
        | {
            "wall_s": [repetition.wall_s for repetition in row.repetitions],
            "metric": [repetition.metric for repetition in row.repetitions],
            "row_json": to_json(row),
        }
        for row in programs
    ]
    return pl.DataFrame(rows, schema=PROGRAM_SCHEMA)


def offload_frame(offloads: Sequence[OffloadRun]) -> pl.DataFrame:
    """One row for each block, in their order."""
    rows = [
        {name: getattr(row, name, None) for name in OFFLOAD_SCHEMA} | {"row_json": to_json(row)}
        for row in offloads
    ]
    return pl.DataFrame(rows, schema=OFFLOAD_SCHEMA)


def generation_frame(generations: Sequence[GenerationRun]) -> pl.DataFrame:
    """One row for each, in their order."""
    rows = []
    for row in generations:
        requests = [request for one in row.counted for request in one.requests]
        times = {
            "first_token_s": [request.event_s[0] for request in requests],
            "token_s": [request.token_s for request in requests],
        }
        named = {name: getattr(row, name, None) for name in GENERATION_SCHEMA}
        rows.append(named | times | {"row_json": to_json(row)})
    return pl.DataFrame(rows, schema=GENERATION_SCHEMA)


Frame: TypeAlias = pl.DataFrame  # for signatures in rooms that do not import polars
FrameSchema: TypeAlias = "dict[str, DataTypeClass | DataType]"

LAYER_SCHEMA: FrameSchema = {
    "score_id": pl.String,
    "model": pl.String,
    "model_hash": pl.String,
    "phase": pl.String,
    "batch": pl.Int64,
    "precision": pl.String,
    "dimensions_json": pl.String,
    "optimizer": pl.String,
    "recompute": pl.Boolean,
    "cache_bytes": pl.Int64,
    "index": pl.Int64,
    "layer": pl.String,
    "op_type": pl.String,
    "domain": pl.String,
    "scope": pl.String,
    "runs": pl.Int64,
    "layer_precision": pl.String,
    "unit": pl.String,
    **dict.fromkeys((*LAYER_COUNTS, "fused_group"), pl.Int64),
    "unknown_json": pl.String,
}


BOUND = "at most "  # before the names of dimensions that are upper bounds


def layer_frame(scores: Sequence[ModelScore]) -> pl.DataFrame:
    """One row per layer of each score, in the order of the network."""
    frames = [pl.DataFrame(schema=LAYER_SCHEMA), *map(_layers_of, scores)]
    return pl.concat(frames).sort("score_id", "index", maintain_order=True)


def _layers_of(score: ModelScore) -> pl.DataFrame:
    """The rows of one score. By column: by row it takes half as long again."""
    of_score = {
        "score_id": score_id(score),
        "model": score.model,
        "model_hash": score.model_hash,
        "phase": score.phase,
        "batch": score.batch,
        "precision": score.precision,
        "dimensions_json": to_json(_dimensions(score)),
        "optimizer": score.optimizer,
        "recompute": score.recompute,
        "cache_bytes": score.cache_bytes,
    }
    names = {"layer": "name", "layer_precision": "precision"}
    columns = {
        column: [getattr(layer, names.get(column, column)) for layer in score.layers]
        for column in LAYER_SCHEMA
        if column not in of_score and column != "unknown_json"
    }
    columns["unknown_json"] = [to_json(layer.unknown) for layer in score.layers]
    schema = {name: LAYER_SCHEMA[name] for name in columns}
    repeated = (pl.lit(value, LAYER_SCHEMA[name]).alias(name) for name, value in of_score.items())
    return pl.DataFrame(columns, schema=schema).with_columns(repeated).select(list(LAYER_SCHEMA))


def _dimensions(score: ModelScore) -> dict[str, int]:
    """The dimensions of a score, with those that are upper bounds named as such."""
    return score.dimensions | {f"{BOUND}{name}": size for name, size in score.bounds.items()}


def to_json(value: object) -> str:
    """``value`` as JSON, for a column of text."""
    return msgspec.json.encode(value).decode()


def encode_layers(scores: Sequence[ModelScore], form: str) -> bytes:
    """The layers of ``scores`` in ``form``, csv or parquet; raises UsageError for others.

    Each row begins with the model, its batch and its phase, so that files of many
    models can be put together.
    """
    frame = layer_frame(scores)
    buffer = io.BytesIO()
    if form == "csv":
        frame.write_csv(buffer)
    elif form == "parquet":
        frame.write_parquet(buffer)
    else:
        raise UsageError(f"unknown format {form!r}", fix="use csv or parquet")
    return buffer.getvalue()


def csv_to_parquet(table: Path, written: Path, text_columns: Sequence[str]) -> None:
    """Turn ``table`` (CSV with a head) into Parquet: all columns are numbers but the named.

    It goes through in pieces, so that a log larger than the memory can be written.
    """
    head = pl.read_csv(table, n_rows=0, infer_schema=False)
    schema = {name: pl.String if name in text_columns else pl.Float64 for name in head.columns}
    pl.scan_csv(table, schema=schema).sink_parquet(written)


def frame_to_bytes(frame: object) -> bytes | None:
    """A frame as an Arrow file; None for what is no frame."""
    if not isinstance(frame, pl.DataFrame):
        return None
    stream = io.BytesIO()
    frame.write_ipc(stream)
    return stream.getvalue()


def frame_of_bytes(data: bytes) -> pl.DataFrame:
    """The frame of ``frame_to_bytes``."""
    return pl.read_ipc(io.BytesIO(data))


def frame_of_rows(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    """A frame of rows that may differ in their columns; the types are those of the values."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pl.DataFrame([pl.Series(name, values, strict=False) for name, values in columns.items()])
