"""What is said of a batch beside the other batches of its network."""

from __future__ import annotations

import polars as pl

from mansard.analytics.decisions.batches import CURVE


def with_remarks(batches: pl.DataFrame) -> pl.DataFrame:
    """BATCH_SCHEMA rows with a remark on the batches with the highest rate or the least energy."""
    items, energy = pl.col("items_per_s"), pl.col("energy_j")
    remark = pl.concat_str(
        _remark("is_most_items", items, items.max(), "most items per second"),
        _remark("is_least_energy", energy, energy.min(), "least energy"),
        separator="; ",
        ignore_nulls=True,
    )
    return batches.with_columns(remark=remark).with_columns(
        remark=pl.when(pl.col("remark") != "").then("remark")
    )


def _remark(flag: str, value: pl.Expr, best: pl.Expr, what: str) -> pl.Expr:
    """The words for the batch that ``flag`` marks; null for others, and if only one is known.

    Null too where an interval is bounds: the value may be anywhere in it, so no batch is known to
    be the best.
    """
    is_bounded = (pl.col("interval") == "bounds").any().over(CURVE).fill_null(value=False)
    n_known = value.count().over(CURVE)
    some = n_known < pl.len().over(CURVE)
    whose = pl.when(some).then(pl.lit(" of those known")).otherwise(pl.lit(""))
    near = pl.lit(f"smallest within 1 % of the {what}")
    words = pl.when(value == best.over(CURVE)).then(pl.lit(what)).otherwise(near)
    by = pl.when(pl.col("interval") == "roof").then(pl.lit(" by the roofs")).otherwise(pl.lit(""))
    return pl.when(pl.col(flag) & ~is_bounded & (n_known > 1)).then(words + whose + by)
