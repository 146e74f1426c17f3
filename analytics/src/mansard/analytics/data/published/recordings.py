"""Times of networks on boards, by what identifies a network on another board.

A network is the same on two boards where its name, the side of its image, its batch, its precision
and what ran it are. Times come from the tables that ship and from tables that were imported; a
time whose engine nobody says is in none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import polars as pl

from mansard.analytics.data.frames import FrameSchema
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


def recording_frame(rows: pl.DataFrame) -> pl.DataFrame:
    """RECORDING_SCHEMA of ``rows``, which have no plain names; those without a time or engine drop.

    ``engine``: the words that ``engine_kind`` takes.
    """
    is_known = (
        pl.col("engine").is_not_null() & pl.col("time_s").is_finite() & (pl.col("time_s") > 0)
    )
    known = rows.filter(is_known)
    kinds = {words: engine_kind(words) for words in known["engine"].unique()}
    plain = [(name, *plain_network(name)) for name in known["network"].unique()]
    schema = {name: RECORDING_SCHEMA[name] for name in ("network", "plain", "side_px")}
    names = pl.DataFrame(plain, schema=schema, orient="row")
    named = known.join(names, on="network", maintain_order="left").with_columns(
        pl.col("engine").replace_strict(kinds, return_dtype=pl.String)
    )
    times = (pl.col("time_s").median(), pl.col("source").first())
    pooled = named.drop_nulls("engine").group_by(_GROUP, maintain_order=True).agg(times)
    return pooled.select(list(RECORDING_SCHEMA))


@cache
def shipped_recordings() -> pl.DataFrame:
    """Those that ship, by board and author; raises InputError where the installation is broken."""
    return _published(
        (f"{table.device} ({table.authors})", run)
        for table in RECORDINGS
        for run in table.read().runs
    )


def imported_recordings(published: Published) -> pl.DataFrame:
    """Those of imported tables that say what ran their networks; doubtful times are left out."""
    names, doubts = device_names(published), doubted_times(published)
    return _published(
        (names[run.device, run.table_id], run)
        for at, run in enumerate(published.runs)
        if at not in doubts
    )


def measured_recordings(observations: pl.DataFrame) -> pl.DataFrame:
    """Those of OBSERVATION_SCHEMA rows that say their engine, which published ones do not."""
    return recording_frame(observations.rename({"device": "board", "latency_s": "time_s"}))


def _published(runs: Iterable[tuple[str, PublishedRun]]) -> pl.DataFrame:
    rows = [
        {
            "board": board,
            "mode": run.mode.name,
            "engine": run.method,
            "batch": run.batch,
            "precision": run.precision,
            "phase": run.phase,
            "network": display_name(run.network),
            "time_s": run.latency_s,
            "source": "published",
        }
        for board, run in runs
    ]
    schema = {name: kind for name, kind in RECORDING_SCHEMA.items() if name not in _NAMED}
    return recording_frame(pl.DataFrame(rows, schema=schema))


_NAMED = ("plain", "side_px")
