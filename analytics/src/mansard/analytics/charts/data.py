"""What the charts draw, computed beforehand: tidy frames, one row per mark.

Rates are in GFLOP/s and GB/s, rounded to four digits to keep the page small.
Every frame holds only values that a logarithmic axis can show; how many rows were
dropped for that is in ``Drawn.n_dropped``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.names import network_key, shown
from mansard.analytics.data.quantities import NBSP, percent, quantity, seconds
from mansard.analytics.roofs.ceilings import Ceiling

GIGA = 1e9
Row = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Drawn:
    """A frame to draw, and how many rows a logarithmic axis could not show."""

    frame: pl.DataFrame
    n_dropped: int


def positive(rows: Iterable[Row], schema: Mapping[str, pl.DataType | type], *names: str) -> Drawn:
    """The rows whose ``names`` are all known, finite and above zero."""
    frame = pl.DataFrame(list(rows), schema=schema)
    kept = frame.filter(pl.all_horizontal(pl.col(*names) > 0, pl.col(*names).is_finite()))
    rounded = kept.with_columns(
        pl.col(name).round_sig_figs(4) for name, kind in schema.items() if kind == pl.Float64
    )
    return Drawn(rounded, len(frame) - len(kept))


def network_points(networks: pl.DataFrame, names: Mapping[str, str]) -> Drawn:
    """Whole networks: intensity, attainable GFLOP/s, and what the tooltip says."""
    schema = {
        "mode": pl.String,
        "network": pl.String,
        "batch": pl.String,
        "precision": pl.String,
        "intensity": pl.Float64,
        "rate": pl.Float64,
        "time": pl.String,
        "bound": pl.String,
    }
    rows = [
        {
            "mode": row["label"],
            "network": names[network_key(row["model"], row["model_hash"])],
            "batch": batch_text(row["batch"]),
            "precision": row["precision"],
            "intensity": row["intensity"],
            "rate": in_giga(row["attainable_flop_per_s"]),
            "time": seconds(row["time_s"], row["low_s"], row["high_s"]),
            "bound": bound_text(row["bound"], row["memory_share"]),
        }
        for row in networks.iter_rows(named=True)
    ]
    return positive(rows, schema, "intensity", "rate")


def layer_points(layers: pl.DataFrame, names: Mapping[str, str], n_most: int) -> Drawn:
    """The ``n_most`` slowest layers of each network in each mode, on the roof."""
    schema = {
        "mode": pl.String,
        "network": pl.String,
        "batch": pl.String,
        "precision": pl.String,
        "layer": pl.String,
        "operator": pl.String,
        "intensity": pl.Float64,
        "rate": pl.Float64,
        "share": pl.Float64,
        "time": pl.String,
        "bound": pl.String,
    }
    ranked = (
        layers.filter(pl.col("time_s") > 0)
        .with_columns(share=pl.col("time_s") / pl.col("time_s").sum().over("score_id", "run_id"))
        .sort("score_id", "run_id", "share", "index", descending=[False, False, True, False])
        .group_by("score_id", "run_id", maintain_order=True)
        .head(n_most)
    )
    rows = [
        {
            "mode": row["label"],
            "network": names[network_key(row["model"], row["model_hash"])],
            "batch": batch_text(row["batch"]),
            "precision": row["precision"],
            "layer": shown(row["layer"]),
            "operator": shown(row["op_type"]),
            "intensity": row["work_flop"] / row["traffic_bytes"] if row["traffic_bytes"] else None,
            "rate": row["work_flop"] / row["time_s"] / GIGA,
            "share": row["share"],
            "time": f"{seconds(row['time_s'])}, {percent(row['share'])} of the network",
            "bound": row["bound"],
        }
        for row in ranked.iter_rows(named=True)
    ]
    return positive(rows, schema, "intensity", "rate", "share")


def ceiling_text(ceiling: Ceiling) -> str:
    """A ceiling in words: "16.0 ± 0.1 GB/s (read)"."""
    text = quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high)
    return f"{text} ({ceiling.kernel})" if ceiling.unit == "B/s" and ceiling.kernel else text


def value_text(ceiling: Ceiling) -> str:
    """A ceiling without its interval: "16.00 GB/s"."""
    return quantity(ceiling.value, ceiling.unit)


def batch_text(batch: int | None) -> str:
    """A batch size, or that the model has none."""
    return "none" if batch is None else str(batch)


def bound_text(bound: str | None, memory_share: float | None) -> str:
    """What bounds a network, and the share of its time for which that holds."""
    if bound is None or memory_share is None:
        return "unknown"
    share = memory_share if bound == "memory" else 1.0 - memory_share
    return f"{bound}{NBSP}{percent(share)}"


def in_giga(value: float | None) -> float | None:
    """Per second in GFLOP/s or GB/s; None stays None."""
    return None if value is None else value / GIGA
