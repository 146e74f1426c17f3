"""Layers of scores as a typed Polars frame, one column per field; and frames as files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import polars as pl
from polars.datatypes import DataType, DataTypeClass

from mansard.analytics.data.dataset import score_id
from mansard.core.errors import UsageError
from mansard.core.records import LAYER_COUNTS, ModelScore

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
    rows = [
        {
            "score_id": identity,
            "model": score.model,
            "model_hash": score.model_hash,
            "phase": score.phase,
            "batch": score.batch,
            "precision": score.precision,
            "dimensions_json": dimensions,
            "optimizer": score.optimizer,
            "recompute": score.recompute,
            "cache_bytes": score.cache_bytes,
            "index": layer.index,
            "layer": layer.name,
            "op_type": layer.op_type,
            "domain": layer.domain,
            "scope": layer.scope,
            "runs": layer.runs,
            "layer_precision": layer.precision,
            "unit": layer.unit,
            **{name: getattr(layer, name) for name in (*LAYER_COUNTS, "fused_group")},
            "unknown_json": to_json(layer.unknown),
        }
        for score in scores
        # Both look at the whole score: once, not for each of its rows.
        for identity, dimensions in ((score_id(score), to_json(_dimensions(score))),)
        for layer in score.layers
    ]
    return pl.DataFrame(rows, schema=LAYER_SCHEMA).sort("score_id", "index", maintain_order=True)


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
