"""Modelled time of each network in each power mode: one join, no loop over layers.

T = sum over layers of max(W / P, Q / B_DRAM), with W in FLOP, Q in bytes, P the peak
of the layer's precision on the unit that runs it and B_DRAM the bandwidth of main memory
(docs/model.md).
Launch overhead and the efficiency of real kernels would make it longer, fusion and
cache reuse between layers shorter: none of them is in it.

Integer work without multiply-adds (positions, masks, indices) is timed by its traffic
alone: no integer peak is measured, and a few additions of positions must not make the
time of a whole network unknown. Integer matrix products do need their peak.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from mansard.analytics.predict.roof_frames import memory_roofs, peak_roofs
from mansard.analytics.roofs.roofline import Roofline

NO_ENERGY = "no energy roof is drawn yet: it takes a power meter and a fitted energy model"


def predict_layers(layers: pl.LazyFrame, roofs: Sequence[Roofline]) -> pl.LazyFrame:
    """Every layer under every roofline: seconds, interval, bound, or a reason.

    Adds to the columns of ``frames.layer_frame``: run_id, label, time_s, low_s,
    high_s (from both ceilings at the ends of their intervals), least_s (what the
    known parts alone take), bound ("compute" or "memory") and reason.
    """
    joined = layers.join(memory_roofs(roofs).lazy(), how="cross").join(
        peak_roofs(roofs).lazy(), on=["run_id", "layer_precision", "unit"], how="left"
    )
    compute, traffic = _compute_time("peak"), _traffic_time("roof")
    return (
        joined.with_columns(
            time_s=_slower(compute, traffic),
            low_s=_slower(_compute_time("peak_high"), _traffic_time("roof_high")),
            high_s=_slower(_compute_time("peak_low"), _traffic_time("roof_low")),
            least_s=pl.max_horizontal(compute, traffic, pl.lit(0.0)),
            bound=pl.when(compute.is_null() | traffic.is_null())
            .then(None)
            .when((compute == 0) & (traffic == 0))
            .then(None)
            .when(compute >= traffic)
            .then(pl.lit("compute"))
            .otherwise(pl.lit("memory")),
            reason=_reason(),
        )
        .drop("peak", "peak_low", "peak_high", "peak_reason")
        .drop("roof", "roof_low", "roof_high", "roof_reason")
        .sort("score_id", "run_id", "index", maintain_order=True)
    )


def predict_networks(layers: pl.LazyFrame) -> pl.LazyFrame:
    """Sums ``predict_layers`` over each network: one row per score and run.

    ``time_s`` is null with a ``reason`` as soon as one layer's is; ``least_s`` is then
    the modelled time of what is known. ``memory_share`` is the share of time_s that
    memory-bound layers take; ``intensity`` is W / Q of the whole, FLOP/byte.
    """
    known = pl.col("time_s").null_count() == 0
    memory_s = pl.col("time_s").filter(pl.col("bound") == "memory").sum()
    summed = layers.group_by(
        "score_id", "model", "model_hash", "phase", "batch", "precision", "run_id", "label"
    ).agg(
        pl.len().alias("n_layers"),
        pl.col("time_s").null_count().alias("n_layers_unknown"),
        _sum_of_known("work_flop"),
        _sum_of_known("traffic_bytes"),
        _sum_of_known("time_s"),
        _sum_of_known("low_s"),
        _sum_of_known("high_s"),
        pl.col("least_s").sum(),
        pl.when(known).then(memory_s / pl.col("time_s").sum()).alias("memory_share"),
        pl.col("reason").drop_nulls().unique(maintain_order=True).alias("reasons"),
    )
    return _with_ratios(summed).sort(
        "model", "batch", "precision", "phase", "score_id", "label", nulls_last=True
    )


def _with_ratios(summed: pl.LazyFrame) -> pl.LazyFrame:
    share = pl.col("memory_share")
    return (
        summed.with_columns(
            memory_share=pl.when(share.is_finite()).then(share),
            intensity=pl.when(pl.col("traffic_bytes") > 0).then(
                pl.col("work_flop") / pl.col("traffic_bytes")
            ),
            attainable_flop_per_s=pl.when(pl.col("time_s") > 0).then(
                pl.col("work_flop") / pl.col("time_s")
            ),
            reason=pl.when(pl.col("reasons").list.len() > 0).then(
                pl.col("reasons").list.sort().list.join("; ")
            ),
        )
        .with_columns(
            bound=pl.when(pl.col("memory_share") > 0.5)
            .then(pl.lit("memory"))
            .when(pl.col("memory_share").is_not_null())
            .then(pl.lit("compute"))
        )
        .drop("reasons")
    )


def _compute_time(peak: str) -> pl.Expr:
    work = pl.col("work_flop")
    return pl.when(~_needs_peak()).then(0.0).otherwise(work / pl.col(peak))


def _needs_peak() -> pl.Expr:
    # Without work no peak is needed: a reshape in int64 is not unknown.
    work = pl.col("work_flop")
    integer = pl.col("layer_precision").str.contains("^(u?int|bool)") & (pl.col("macs") == 0)
    return (work.is_null() | (work > 0)) & ~(integer & work.is_not_null())


def _traffic_time(roof: str) -> pl.Expr:
    traffic = pl.col("traffic_bytes")
    return pl.when(traffic == 0).then(0.0).otherwise(traffic / pl.col(roof))


def _slower(compute: pl.Expr, traffic: pl.Expr) -> pl.Expr:
    both = compute.is_not_null() & traffic.is_not_null()
    return pl.when(both).then(pl.max_horizontal(compute, traffic))


def _reason() -> pl.Expr:
    missing_peak = _needs_peak() & pl.col("peak").is_null()
    missing_roof = (pl.col("traffic_bytes") > 0) & pl.col("roof").is_null()
    return (
        pl.when(pl.col("work_flop").is_null())
        .then(pl.format("the work of {} is unknown", pl.col("op_type")))
        .when(pl.col("traffic_bytes").is_null())
        .then(pl.format("the traffic of {} is unknown", pl.col("op_type")))
        .when(missing_peak & pl.col("peak_reason").is_not_null())
        .then(pl.format("no {} peak: {}", pl.col("layer_precision"), pl.col("peak_reason")))
        .when(missing_peak)
        .then(pl.format("no {} peak was measured in this mode", pl.col("layer_precision")))
        .when(missing_roof)
        .then(pl.format("no DRAM bandwidth: {}", pl.col("roof_reason")))
    )


def _sum_of_known(name: str) -> pl.Expr:
    return pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum()).alias(name)
