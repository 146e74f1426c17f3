"""Batch sizes: items per second and energy of an item, per mode, network and precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from mansard.analytics.charts.data import Drawn
from mansard.analytics.charts.mode_data import MILLI, evenly

MOST_ROWS = 1500  # in all, over modes, networks, precisions and batches

BATCH_SCHEMA = {
    "mode": pl.String,
    "network": pl.String,
    "precision": pl.String,
    "batch": pl.Int64,
    "rate": pl.Float64,  # items per second, one batch after the other
    "energy": pl.Float64,  # mJ of one item
    "latency": pl.Float64,  # ms of one batch
    "power": pl.Float64,  # W
    "bound": pl.String,
}


def batch_points(
    predictions: pl.DataFrame, labels: Mapping[tuple[str, str], str], modes: Sequence[str]
) -> Drawn:
    """A row for each batch of each network of which several sizes are predicted.

    ``predictions`` has PREDICTION_SCHEMA; only modes whose label is in ``modes`` are kept, an even
    choice of them where there are many. ``n_dropped``: those without a positive latency.
    """
    named = pl.DataFrame(
        [(*key, label) for key, label in labels.items() if label in set(modes)],
        schema={"device": pl.String, "mode": pl.String, "label": pl.String},
        orient="row",
    )
    found = (
        predictions.filter((pl.col("phase") == "inference") & pl.col("batch").is_not_null())
        .join(named, on=["device", "mode"])
        .filter(~_is_fitted() | _is_fitted().all().over("network", "precision"))
        .filter(pl.col("batch").n_unique().over("network", "precision") > 1)
    )
    known = found.filter((pl.col("latency_s") > 0) & pl.col("latency_s").is_finite())
    kept = _kept_modes(known, modes)
    item_j = pl.col("energy_j") / pl.col("batch")
    frame = (
        known.filter(pl.col("label").is_in(kept))
        .with_columns(
            mode="label",
            rate=(pl.col("batch") / pl.col("latency_s")).round_sig_figs(4),
            energy=(item_j / MILLI).round_sig_figs(4),
            latency=(pl.col("latency_s") / MILLI).round_sig_figs(4),
            power=pl.col("power_w").round_sig_figs(4),
            bound="time_bound",
        )
        .select(list(BATCH_SCHEMA))
        .sort("mode", "network", "precision", "batch")
    )
    return Drawn(frame, len(found) - len(known))


def _is_fitted() -> pl.Expr:
    """Whether a prediction is a fit to measurements; one curve holds no two kinds."""
    return pl.col("is_calibrated").fill_null(False)


def _kept_modes(known: pl.DataFrame, modes: Sequence[str]) -> list[str]:
    there = [mode for mode in modes if mode in set(known["label"].to_list())]
    if not there:
        return []
    n_each = max(1, len(known) // len(there))
    return evenly(there, max(2, MOST_ROWS // n_each))
