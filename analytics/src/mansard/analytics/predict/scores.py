"""What is predicted: one row for each score, with what it needs in all."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.names import network_key
from mansard.analytics.predict.groups import is_fused

SCORE_SCHEMA: FrameSchema = {
    "score_id": pl.String,
    "network": pl.String,  # as it is shown
    "model": pl.String,
    "model_hash": pl.String,
    "batch": pl.Int64,
    "precision": pl.String,
    "phase": pl.String,
    "n_layers": pl.Int64,
    "n_layers_unknown": pl.Int64,
    "work_flop": pl.Int64,  # null where that of a layer is unknown
    "traffic_bytes": pl.Int64,  # fused, or else algorithmic; null where unknown
    "note": pl.String,  # why the traffic is not the fused one; null where it is
}


def score_frame(layers: pl.DataFrame, names: Mapping[str, str] | None = None) -> pl.DataFrame:
    """One row for each score of ``layers`` (data.frames.LAYER_SCHEMA), as SCORE_SCHEMA.

    ``names``: how networks are called, by ``data.names.network_key``; None: as their files.
    """
    same = ("model", "model_hash", "batch", "precision", "phase")
    traffic = pl.when("is_fused").then("fused_traffic_bytes").otherwise("traffic_bytes")
    why = pl.col("unknown_json").str.json_path_match("$.fused_traffic_bytes").drop_nulls().first()
    lost = pl.col("work_flop").is_null() | pl.col("moved").is_null()
    found = (
        layers.lazy()
        .with_columns(is_fused=is_fused())
        .with_columns(moved=traffic)
        .group_by("score_id")
        .agg(
            *(pl.col(name).first() for name in same),
            pl.len().alias("n_layers"),
            lost.sum().alias("n_layers_unknown"),
            _sum_of_known("work_flop").alias("work_flop"),
            _sum_of_known("moved").alias("traffic_bytes"),
            pl.when(~pl.col("is_fused").first())
            .then(pl.format("its traffic is unfused: {}", why.fill_null("no group is known")))
            .alias("note"),
        )
        .sort("model", "batch", "precision", "phase", "score_id", nulls_last=True)
        .collect()
    )
    known = names or {}
    shown = [
        known.get(network_key(model, model_hash), model)
        for model, model_hash in found.select("model", "model_hash").iter_rows()
    ]
    named = found.with_columns(pl.Series("network", shown, pl.String))
    return named.select(pl.col(name).cast(kind) for name, kind in SCORE_SCHEMA.items())


def _sum_of_known(name: str) -> pl.Expr:
    return pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum())
