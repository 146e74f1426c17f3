"""Prefill and decode of language models as a sum: what calibrations of these go by.

At the roof a group takes the longer of its work and its traffic. Measured steps of decode are
nearer to both together: kernels that unpack weights wait for their arithmetic as well as for their
bytes (docs/understand/calibration.md). Keys and values count twice: engines read them at half the
rate of weights.
"""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.names import stage_columns
from mansard.analytics.models.predict.engine import SHARE_SCHEMA, predict_scores
from mansard.analytics.models.predict.groups import halves

# llama.cpp on a recorded AGX Orin (benchmarks/recorded_language_models.py): 3.1 times as long as at
# the roof of the memory for keys and values, 1.4 times for weights.
_OF_KEYS_AND_VALUES = 2.0


def with_added_parts(
    roofed: pl.DataFrame,
    groups: pl.DataFrame,
    scores: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
) -> pl.DataFrame:
    """``roofed`` (PREDICTION_SCHEMA, SHARE_SCHEMA), the shares of stages as parts that add.

    The other arguments are those of ``predict_scores``, which made it. ``compute_s``: all work at
    its peaks; ``memory_s``: all traffic at the bandwidth. A power limit has stretched both.
    """
    stages = scores.filter(stage_columns()["kind"] != pl.col("phase"))
    if stages.is_empty():
        return roofed
    apart = halves(groups.join(stages, on="score_id", how="semi", maintain_order="left"))
    is_attention = pl.col("op_class").str.starts_with("attention")
    counts = pl.when(is_attention).then(_OF_KEYS_AND_VALUES).otherwise(1.0)
    apart = apart.with_columns(traffic_bytes=pl.col("traffic_bytes") * counts)
    key, shares = ["device", "mode", "score_id"], list(SHARE_SCHEMA)
    added = predict_scores(apart, stages, coefficients, modes, with_shares=True)
    named = added.select(*key, *(pl.col(name).alias(f"added_{name}") for name in shares))
    rows = roofed.join(named.collect(), on=key, how="left", maintain_order="left")
    stretch = pl.col("latency_s") / pl.sum_horizontal(shares)
    return rows.with_columns(
        pl.coalesce(pl.col(f"added_{name}") * stretch, name).alias(name) for name in shares
    ).select(roofed.columns)
