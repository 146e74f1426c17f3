"""Readings of meters as a typed frame."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from mansard.analytics.data.frames import FrameSchema, to_json
from mansard.core.records import PowerSample

SAMPLE_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "rail": pl.String,
    "monotonic_s": pl.Float64,
    "power_w": pl.Float64,
    "energy_j": pl.Float64,
    "unknown_json": pl.String,
}


def sample_frame(run_id: str, samples: Sequence[PowerSample]) -> pl.DataFrame:
    """One row per reading of a rail, in the order they were read; seconds, watts, joules."""
    columns = {
        "rail": [sample.rail for sample in samples],
        "monotonic_s": [sample.monotonic_s for sample in samples],
        "power_w": [sample.power_w for sample in samples],
        "energy_j": [sample.energy_j for sample in samples],
        "unknown_json": [to_json(sample.unknown) for sample in samples],
    }
    schema = {name: kind for name, kind in SAMPLE_SCHEMA.items() if name != "run_id"}
    frame = pl.DataFrame(columns, schema=schema).with_columns(run_id=pl.lit(run_id))
    return frame.select(list(SAMPLE_SCHEMA))
