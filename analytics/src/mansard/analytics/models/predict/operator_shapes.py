"""The shapes of a network's operators, from what is counted of each layer.

A LayerScore holds no dimensions, but four counts of a product are enough for what tells its kernels
apart (``operator_times``). With the elements of inputs (without weights), of weights and of
outputs, and the multiply-adds:

    K = multiply-adds / outputs
    with weights: M = multiply-adds / weights, N = outputs / M
    a convolution reads each input element window = M · K · groups / inputs times, where groups is N
    of a depthwise one and else taken as 1
    without weights, of n products: inputs / K = n (M + N) and outputs = n M N, so M N / (M + N) is
    known, and M and N are taken as equal

A bias is among the weights; it is a K-th of a filter, and is left in.
"""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.models.predict.groups import is_fused
from mansard.analytics.models.predict.kernels import ELEMENT_BYTES

# Of a group: the shape of its layer with most multiply-adds; all 1 where none has any.
SHAPE_SCHEMA: FrameSchema = {
    "score_id": pl.String,
    "group": pl.Int64,
    "m": pl.Float64,
    "n": pl.Float64,
    "k": pl.Float64,
    "n_products": pl.Float64,  # of the same shape, without weights
    "window": pl.Float64,
}


def group_shapes(layers: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    """SHAPE_SCHEMA of ``groups`` (GROUP_SCHEMA), of ``layers`` (data.frames.LAYER_SCHEMA).

    Counts of a layer that runs several times are shared by its runs. Unknown shapes are null.
    """
    heads = (
        layers.with_columns(is_fused=is_fused())
        .with_columns(group=pl.when("is_fused").then("fused_group").otherwise("index"))
        .filter(pl.col("macs") > 0)
        .sort("macs", descending=True, maintain_order=True)
        .unique(["score_id", "group"], keep="first", maintain_order=True)
        .with_columns(**_elements())
        .with_columns(**_sizes())
    )
    places = groups.select("score_id", "group", "op_class")
    shaped = places.join(heads, on=["score_id", "group"], how="left", maintain_order="left")
    is_product = pl.col("macs").is_not_null()
    is_depthwise = pl.col("op_class") == "depthwise"
    is_convolution = is_depthwise | (pl.col("op_class") == "conv")
    n_groups = pl.when(is_depthwise).then("n").otherwise(1.0)
    window = pl.col("m") * pl.col("k") * n_groups / pl.col("inputs")
    return shaped.select(
        "score_id",
        "group",
        *(pl.when(is_product).then(name).otherwise(1.0) for name in ("m", "n", "k", "n_products")),
        window=pl.when(is_product & is_convolution).then(window).otherwise(1.0),
    ).select(pl.col(name).cast(kind) for name, kind in SHAPE_SCHEMA.items())


def _elements() -> dict[str, pl.Expr]:
    width = pl.col("layer_precision").replace_strict(
        ELEMENT_BYTES, default=None, return_dtype=pl.Float64
    )
    return {
        "products": pl.col("macs") / pl.col("runs"),
        "inputs": pl.col("input_bytes") / width / pl.col("runs"),
        "outputs": pl.col("output_bytes") / width / pl.col("runs"),
        "weights": pl.col("parameters").fill_null(0),
    }


def _sizes() -> dict[str, pl.Expr]:
    products, outputs = pl.col("products"), pl.col("outputs")
    k = products / outputs
    # M = N: a product of squares that reads and writes as much.
    side = 2 * outputs * k / pl.col("inputs")
    has_weights = pl.col("weights") > 0
    m = products / pl.col("weights")
    return {
        "k": k,
        "m": pl.when(has_weights).then(m).otherwise(side),
        "n": pl.when(has_weights).then(outputs / m).otherwise(side),
        "n_products": pl.when(has_weights).then(1.0).otherwise(outputs / side**2),
    }
