"""Products as libraries run them: kinds of kernels, and what each of them reads and writes.

Libraries have kernels of their own for windows, single positions, single vectors and groups of
channels, and these come about equally near to a roof whatever the network. What a kernel reads of
its inputs, writes and reads of weights takes times of its own: a product of M × K and K × N reads
M · K, writes M · N and has N · K weights, and so a short sum has more of the others to each
multiply-add. All sizes follow from counts of a layer:

    K = multiply-adds / outputs, N = weights / K (with a bias weights / (K + 1)), M = outputs / N

The rules for channels are those by which ONNX Runtime chooses its blocked layout
(onnxruntime/core/optimizer/nchwc_transformer.cc): other kernels run groups
whose width is not a multiple of the block, and depthwise channels that are not a multiple of 4.
"""

from __future__ import annotations

import polars as pl

# Columns of GROUP_SCHEMA, of a group's layer with most multiply-adds. Null where it has none; the
# bytes too where it has no weights.
KERNEL_COLUMNS = ("kernel", "operand_bytes", "result_bytes", "weight_bytes")
ELEMENT_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}
_BLOCK = 16  # channels of the blocked layout; 8 on CPUs without AVX-512
_ALIGNED = 4
_WINDOW = 9  # of 3 × 3, which convolutions of groups have
_MOST_ROWS_OF_VECTOR = 4
_NEAR = 1e-6


def kernel_columns() -> dict[str, pl.Expr]:
    """KERNEL_COLUMNS of layers (LAYER_SCHEMA) with ``op_class``; a layer's runs count as one."""
    macs, runs = pl.col("macs") / pl.col("runs"), pl.col("runs")
    width = pl.col("layer_precision").replace_strict(
        ELEMENT_BYTES, default=None, return_dtype=pl.Float64
    )
    outputs, inputs = (pl.col(f"{name}_bytes") / width / runs for name in ("output", "input"))
    weights = pl.col("parameters").cast(pl.Float64)
    k = macs / outputs
    with_bias = weights / (k + 1)
    n = (
        pl.when((with_bias - with_bias.round()).abs() < _NEAR)
        .then(with_bias)
        .otherwise(weights / k)
    )
    m = outputs / n
    window = m * k / inputs  # how often an input is read, over the groups
    has_sums, has_weights = macs > 0, weights > 0
    is_depthwise = pl.col("op_class") == "depthwise"
    operands = pl.when(is_depthwise).then(inputs).otherwise(m * k)
    is_product = has_sums & pl.col("op_class").is_in(["conv", "depthwise", "matmul"])
    known = is_product & has_weights
    return {
        "kernel": pl.when(is_product).then(_kind(has_weights, m, n, k, window)),
        "operand_bytes": pl.when(known).then(operands * width * runs),
        "result_bytes": pl.when(known).then(outputs * width * runs),
        "weight_bytes": pl.when(known).then(weights * width * runs),
    }


def _kind(has_weights: pl.Expr, m: pl.Expr, n: pl.Expr, k: pl.Expr, window: pl.Expr) -> pl.Expr:
    op_class = pl.col("op_class")
    is_conv = op_class == "conv"
    # One position of one group, with a stride of 1 or 2, reads an input once or a quarter of once.
    is_pointwise = ((window - 1).abs() < 0.12) | ((4 * window - 1).abs() < 0.25)
    is_grouped = is_conv & (k % _WINDOW == 0) & (_WINDOW / window >= 5.5) & ~is_pointwise
    return (
        pl.when(~has_weights)
        .then(pl.format("{} of two inputs", op_class))
        .when(is_conv & (m <= 1.5) | (op_class == "matmul") & (m < _MOST_ROWS_OF_VECTOR))
        .then(pl.format("{} of a vector", op_class))
        .when((op_class == "depthwise") & (n.round() % _ALIGNED != 0))
        .then(pl.lit("depthwise unaligned"))
        .when(is_grouped & (k / _WINDOW % _BLOCK == 0))
        .then(pl.lit("conv grouped"))
        .when(is_grouped)
        .then(pl.lit("conv grouped unaligned"))
        .when(is_conv & (window <= 1.2))
        .then(pl.lit("conv pointwise"))
        .otherwise(op_class)
    )
