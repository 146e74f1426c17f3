"""What a batch size costs: time, throughput, energy of an item, intensity and bound."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import PREDICTION_KEY
from mansard.analytics.decisions.alternatives import highest_mode

BATCH_SCHEMA: FrameSchema = {
    "device": pl.String,
    "mode": pl.String,
    "network": pl.String,
    "precision": pl.String,
    "phase": pl.String,
    "batch": pl.Int64,
    "latency_s": pl.Float64,  # of one batch; low and high span 95 %
    "latency_low_s": pl.Float64,
    "latency_high_s": pl.Float64,
    "items_per_s": pl.Float64,
    "energy_j": pl.Float64,  # of one item
    "energy_low_j": pl.Float64,
    "energy_high_j": pl.Float64,
    "power_w": pl.Float64,
    "power_low_w": pl.Float64,
    "power_high_w": pl.Float64,
    "interval": pl.String,  # what low and high mean: a key of data.model_frames.INTERVALS
    "intensity_flop_per_byte": pl.Float64,
    "time_bound": pl.String,
    "measured_s": pl.Float64,  # of one batch, where the network was run here
    "measured_items_per_s": pl.Float64,
    "measured_j": pl.Float64,  # of one item
    "engine": pl.String,  # what ran it
    "is_most_items": pl.Boolean,  # the smallest batch within 1 % of the most items per second
    "is_least_energy": pl.Boolean,  # the smallest batch within 1 % of the least energy of an item
    "remark": pl.String,  # null; pages.words.batches fills it
    "source": pl.String,
    "is_extrapolated": pl.Boolean,  # outside the clocks of the modes it rests on
    "reason": pl.String,  # why latency or energy is null
    "notes": pl.String,  # what the numbers are without
}
NEAR = 1.01  # a larger batch that gains less is not worth its latency
_OBSERVED = [*PREDICTION_KEY, "mode"]
CURVE = ("device", "mode", "network", "precision", "phase")  # rows that differ in batch alone


def batch_table(
    predictions: pl.DataFrame, scores: pl.DataFrame, observations: pl.DataFrame
) -> pl.DataFrame:
    """One row of BATCH_SCHEMA for each row of PREDICTION_SCHEMA, in order of the batch.

    ``scores`` (predict.groups.SCORE_SCHEMA) gives work and traffic for the intensity W / Q; a
    network that was fitted to its times has none. ``observations``: OBSERVATION_SCHEMA, which
    stand beside the predictions that are of the same. Batches of one network, precision, phase and
    mode are compared with each other.
    """
    intensity = pl.col("work_flop") / pl.col("traffic_bytes")
    known = scores.select(
        "score_id", intensity_flop_per_byte=pl.when(intensity.is_finite()).then(intensity)
    )
    items, energy = pl.col("items_per_s"), pl.col("energy_j")
    energies = pl.col("energy_j", "energy_low_j", "energy_high_j")
    rows = (
        predictions.join(_measured(observations), on=_OBSERVED, how="left", nulls_equal=True)
        .with_columns(pl.col("batch").fill_null(1))
        .join(known, on="score_id", how="left")
        .with_columns(
            energies / pl.col("batch"),
            measured_items_per_s=pl.col("batch") / pl.col("measured_s"),
            measured_j=pl.col("measured_s") * pl.col("measured_w") / pl.col("batch"),
            items_per_s=pl.col("batch") / pl.col("latency_s"),
        )
        .sort(*CURVE, "batch")
        .with_columns(
            is_most_items=_is_first(items >= items.max().over(CURVE) / NEAR),
            is_least_energy=_is_first(energy <= energy.min().over(CURVE) * NEAR),
        )
        .with_columns(remark=pl.lit(None))
    )
    return rows.select(pl.col(name).cast(kind) for name, kind in BATCH_SCHEMA.items())


def joined(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Tables of different networks as one, in its order."""
    return parts[0] if len(parts) == 1 else pl.concat(parts).sort(*CURVE, "batch")


def _measured(observations: pl.DataFrame) -> pl.DataFrame:
    """The networks that were run here, one row for each mode and batch."""
    ran = observations.filter(pl.col("engine").is_not_null())
    first = ran.unique(_OBSERVED, keep="first", maintain_order=True)
    return first.select(*_OBSERVED, "engine", measured_s="latency_s", measured_w="power_w")


def _is_first(is_best: pl.Expr) -> pl.Expr:
    is_known_best = is_best.fill_null(value=False)
    return is_known_best & (is_known_best.cum_sum().over(CURVE) == 1)


def highest_only(rows: pl.DataFrame, modes: pl.DataFrame) -> pl.DataFrame:
    """The rows of the highest mode of each device; ``modes`` is a MODE_SCHEMA."""
    highest = highest_modes(modes)
    return rows.join(highest, on=["device", "mode"], how="semi", maintain_order="left")


def highest_modes(modes: pl.DataFrame) -> pl.DataFrame:
    """The highest mode of each device of MODE_SCHEMA, by device and mode."""
    highest = [
        {"device": device, "mode": highest_mode(of_device)}
        for (device,), of_device in modes.group_by("device", maintain_order=True)
    ]
    return pl.DataFrame(highest, schema={"device": pl.String, "mode": pl.String})
