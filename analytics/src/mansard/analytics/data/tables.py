"""Layers of a score as CSV or Parquet, one typed row for each."""

from __future__ import annotations

import io
from collections.abc import Sequence

from mansard.analytics.data.frames import layer_frame
from mansard.core.errors import UsageError
from mansard.core.records import ModelScore


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
