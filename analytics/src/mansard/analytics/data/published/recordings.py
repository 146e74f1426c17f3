"""Times of networks on boards, by what identifies a network on another board.

A network is the same on two boards where its name, the side of its image, its batch, its precision
and what ran it are. Times come from the tables that ship and from tables that were imported; a
time whose engine nobody says is in none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import OBSERVATION_SCHEMA
from mansard.analytics.data.names import display_name, engine_kind, plain_network
from mansard.analytics.data.published.reference import RECORDINGS
from mansard.analytics.data.published.store import Published, device_names, doubted_times
from mansard.core.records import PublishedRun

# One row for each network on a board in a mode.
RECORDING_SCHEMA: FrameSchema = {
    "board": pl.String,  # a device, and of the tables that ship the author
    "mode": pl.String,
    "engine": pl.String,  # an ``engine_kind``
    "batch": pl.Int64,
    "precision": pl.String,
    "phase": pl.String,
    "network": pl.String,  # as the board's table or run calls it
    "plain": pl.String,  # as ``plain_network``
    "side_px": pl.Int64,  # null where the name says none
    "time_s": pl.Float64,  # of one batch; of several rows the median
    "source": pl.String,
}
_GROUP = tuple(name for name in RECORDING_SCHEMA if name not in ("time_s", "source"))


def recording_frame(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """RECORDING_SCHEMA of ``rows`` without plain names; those without a time or engine drop."""
    named = [
        {**row, **dict(zip(("plain", "side_px"), plain_network(str(row["network"])), strict=True))}
        for row in rows
        if row["engine"] is not None and row["time_s"] is not None and row["time_s"] > 0
    ]
    frame = pl.DataFrame(named, schema=RECORDING_SCHEMA)
    times = (pl.col("time_s").median(), pl.col("source").first())
    return frame.group_by(_GROUP, maintain_order=True).agg(times).select(list(RECORDING_SCHEMA))


@cache
def shipped_recordings() -> pl.DataFrame:
    """Those that ship, by board and author; raises InputError where the installation is broken."""
    return recording_frame(
        _row(f"{table.device} ({table.authors})", run)
        for table in RECORDINGS
        for run in table.read().runs
    )


def imported_recordings(published: Published) -> pl.DataFrame:
    """Those of imported tables that say what ran their networks; doubtful times are left out."""
    names, doubts = device_names(published), doubted_times(published)
    return recording_frame(
        _row(names[run.device, run.table_id], run)
        for at, run in enumerate(published.runs)
        if at not in doubts
    )


def measured_recordings(observations: pl.DataFrame) -> pl.DataFrame:
    """Those of OBSERVATION_SCHEMA rows that say their engine, which published ones do not."""
    rows = observations.select(list(OBSERVATION_SCHEMA)).filter(pl.col("engine").is_not_null())
    same = ("mode", "batch", "precision", "phase", "network", "source")
    return recording_frame(
        {name: row[name] for name in same}
        | {
            "board": row["device"],
            "engine": engine_kind(row["engine"]),
            "time_s": row["latency_s"],
        }
        for row in rows.iter_rows(named=True)
    )


def _row(board: str, run: PublishedRun) -> dict[str, Any]:
    return {
        "board": board,
        "mode": run.mode.name,
        "engine": engine_kind(run.method),
        "batch": run.batch,
        "precision": run.precision,
        "phase": run.phase,
        "network": display_name(run.network),
        "time_s": run.latency_s,
        "source": "published",
    }
