"""Predicted beside measured: every observation of a network that was also predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from mansard.analytics.charts.mode_data import MILLI, evenly

MOST_POINTS = 1200
WITHIN = 0.2  # the band that is drawn around equality
_KEYS = ["device", "mode", "network", "batch", "precision", "phase"]

ACCURACY_SCHEMA = {
    "mode": pl.String,
    "network": pl.String,
    "precision": pl.String,
    "batch": pl.Int64,
    "source": pl.String,
    "measured": pl.Float64,  # ms of one batch
    "predicted": pl.Float64,
    "error": pl.Float64,  # predicted / measured - 1, %
    "measured_w": pl.Float64,
    "predicted_w": pl.Float64,
}


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Points, and what they say over all observations; errors are shares, None where none is."""

    frame: pl.DataFrame
    n_matched: int
    n_unmatched: int  # observations without a prediction
    median_error: float | None
    worst_error: float | None
    median_power_error: float | None
    is_calibrated: bool


def accuracy_points(
    observations: pl.DataFrame, predictions: pl.DataFrame, labels: Mapping[tuple[str, str], str]
) -> Accuracy:
    """OBSERVATION_SCHEMA beside PREDICTION_SCHEMA, matched by _KEYS."""
    seen = observations.filter((pl.col("latency_s") > 0) & pl.col("latency_s").is_finite())
    wanted = predictions.filter((pl.col("latency_s") > 0) & pl.col("latency_s").is_finite()).select(
        *_KEYS, "is_calibrated", predicted_s="latency_s", predicted_w="power_w"
    )
    both = seen.join(wanted.unique(_KEYS), on=_KEYS, nulls_equal=True)
    error = pl.col("predicted_s") / pl.col("latency_s") - 1
    names = pl.struct("device", "mode").map_elements(
        lambda row: labels.get((row["device"], row["mode"]), row["mode"]), return_dtype=pl.String
    )
    frame = both.select(
        mode=names,
        network="network",
        precision="precision",
        batch="batch",
        source="source",
        measured=(pl.col("latency_s") / MILLI).round_sig_figs(4),
        predicted=(pl.col("predicted_s") / MILLI).round_sig_figs(4),
        error=(100 * error).round_sig_figs(3),
        measured_w=pl.when(pl.col("power_w") > 0).then(pl.col("power_w").round_sig_figs(4)),
        predicted_w=pl.when(pl.col("predicted_w") > 0).then(
            pl.col("predicted_w").round_sig_figs(4)
        ),
    ).sort("mode", "network", "precision", "batch", "measured")
    apart = both.select(error.abs())["predicted_s"]
    watts = frame.filter(pl.col("measured_w").is_not_null() & pl.col("predicted_w").is_not_null())
    power = (watts["predicted_w"] / watts["measured_w"] - 1).abs()
    rows = evenly(range(len(frame)), MOST_POINTS)
    return Accuracy(
        frame=frame[rows] if rows else frame,
        n_matched=len(both),
        n_unmatched=len(observations) - len(both),
        median_error=_number(apart.median()),
        worst_error=_number(apart.max()),
        median_power_error=_number(power.median()),
        is_calibrated=bool(both["is_calibrated"].any()),
    )


def band(frame: pl.DataFrame, measured: str, predicted: str) -> pl.DataFrame:
    """Equality, and a fifth above and below, from the least to the most of either."""
    known = frame.filter(pl.col(measured).is_not_null() & pl.col(predicted).is_not_null())
    values = [*known[measured].to_list(), *known[predicted].to_list()] or [1.0, 10.0]
    ends = (min(values) / 1.3, max(values) * 1.3)
    rows = [{"x": x, "y": x, "low": x * (1 - WITHIN), "high": x * (1 + WITHIN)} for x in ends]
    return pl.DataFrame(rows)


def _number(value: object) -> float | None:
    return None if value is None else float(str(value))
