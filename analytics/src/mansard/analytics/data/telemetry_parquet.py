"""The lines of a telemetry log as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl


def csv_to_parquet(table: Path, written: Path, text_columns: Sequence[str]) -> None:
    """Turn ``table`` (CSV with a head) into Parquet: all columns are numbers but the named.

    It goes through in pieces, so that a log larger than the memory can be written.
    """
    head = pl.read_csv(table, n_rows=0, infer_schema=False)
    schema = {name: pl.String if name in text_columns else pl.Float64 for name in head.columns}
    pl.scan_csv(table, schema=schema).sink_parquet(written)
