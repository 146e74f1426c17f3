"""What others measured of Orin boards mode by mode, as the frames of ``data.model_frames``.

From ../shared/data: power_modes (STREAM and BLAS in PyTorch on AGX Orin, Orin NX and Orin Nano,
repository branes-ai/graphs; matrix products in CUDA on Orin Nano, Cre4T3Tiv3/
jetson-orin-matmul-analysis; convolutions in PyTorch on AGX Orin, branes-ai/graphs) and nvpmodel
(the SMs and clocks of each mode). SOURCES.md there has commits, licences and caveats.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, MODE_SCHEMA

AGX, NX, NANO = "AGX Orin 64GB", "Orin NX 16GB", "Orin Nano 8GB"
GEMM_SIZE = 2048  # the largest that was run
_SMALL, _LARGE = 2133e6, 3199e6  # memory clocks, Hz
# Device, mode, GPU clock in Hz, memory clock in Hz, SMs. AGX Orin: nvpmodel_p3701_0000 (TPC
# masks 248, 240, 0, 0); Orin NX: p3767_0000 (masks 252, 252, 240, 240 of a chip of 8 TPCs); Orin
# Nano: 7W of p3767_0003 (mask 252), the others of p3767_0003_super (mask 240).
_MODES = (
    (AGX, "15W", 408e6, _SMALL, 6),
    (AGX, "30W", 612e6, _LARGE, 8),
    (AGX, "50W", 816e6, _LARGE, 16),
    (AGX, "MAXN", 1300e6, _LARGE, 16),
    (NX, "10W", 612e6, _SMALL, 4),
    (NX, "15W", 612e6, _LARGE, 4),
    (NX, "25W", 408e6, _LARGE, 8),
    (NX, "MAXN", 918e6, _LARGE, 8),
    (NANO, "7W", 408e6, _SMALL, 4),
    (NANO, "15W", 612e6, _SMALL, 8),
    (NANO, "25W", 918e6, _LARGE, 8),
    (NANO, "MAXN_SUPER", 1020e6, _LARGE, 8),
)
_BOARDS = "power_modes/branes-ai+graphs__orin_nano_nx_agx_stream_blas_by_power_mode.csv"
_SUBGRAPHS = "power_modes/branes-ai+graphs__jetson_orin_per_subgraph_latency_by_power_mode.csv"
_MATMUL = "power_modes/Cre4T3Tiv3+jetson-orin-matmul-analysis__data__raw__power_modes__"
_MATMUL_RUN = "_3mode_analysis_20251009_202636.csv"
_DEVICES = {
    "jetson_orin_agx_gpu": AGX,
    "jetson_orin_nx_16gb_gpu": NX,
    "jetson_orin_nano_gpu": NANO,
}
_ON_TENSOR_CORES = ("tf32", "fp16", "bf16")


def recorded_modes() -> pl.DataFrame:
    """MODE_SCHEMA of the twelve modes. CPU clocks are left out: the kernels ran on the GPU."""
    rows = [
        {"device": device, "mode": mode, "gpu_hz": gpu, "memory_hz": memory, "n_sms": n_sms}
        for device, mode, gpu, memory, n_sms in _MODES
    ]
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


def stream_and_blas(folder: Path) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA: the best STREAM bandwidth of each mode, and its peaks.

    A peak is the fastest repetition of the largest matrix product over all runs of the mode: the
    clock was left to a governor, and the mean of ten repetitions is mostly its way up. Modes that
    never ran the largest product in a precision have no peak in it.
    """
    table = _gpu_rows(folder)
    streams = (
        table.filter(pl.col("operation").str.starts_with("stream"))
        .group_by("device", "mode")
        .agg(value=pl.col("bandwidth_gbps").max() * 1e9)
        .with_columns(quantity=pl.lit("bandwidth"), subject=pl.lit("DRAM"), unit=pl.lit(""))
    )
    gemms = (
        table.filter((pl.col("operation") == "blas3_gemm") & (pl.col("size") == GEMM_SIZE))
        .filter(pl.col("precision").is_in(["fp32", *_ON_TENSOR_CORES]))
        .group_by("device", "mode", pl.col("precision").alias("subject"))
        .agg(value=2.0 * GEMM_SIZE**3 / (pl.col("latency_min_ms").min() / 1e3))
        .with_columns(quantity=pl.lit("peak"), unit=_unit())
    )
    return pl.concat([_coefficients(streams), _coefficients(gemms)])


def sustained_products(folder: Path) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA: peaks of longer runs, with the clock up to the mode's.

    AGX Orin: the best rate of any fused subgraph at batches of 16 and 64, mean of 50 runs; its
    "fp32" convolutions ran in TF32, which is what they are called here. Orin Nano: the best
    matrix product of cuBLAS in fp32, and one on tensor cores in fp16 (wmma).
    """
    subgraphs = (
        pl.read_csv(folder / _SUBGRAPHS, infer_schema_length=None)
        .filter(pl.col("batch") >= 16)
        .with_columns(
            device=pl.lit(AGX),
            mode=pl.col("power_mode"),
            subject=pl.col("precision").replace({"fp32": "tf32"}),
        )
        .group_by("device", "mode", "subject")
        .agg(value=(pl.col("flops") / (pl.col("latency_mean_ms") / 1e3)).max())
        .with_columns(quantity=pl.lit("peak"), unit=_unit())
    )
    products = [
        pl.read_csv(folder / f"{_MATMUL}{name}{_MATMUL_RUN}")
        .group_by(mode=pl.col("power_mode_name"))
        .agg(value=pl.col("gflops").max() * 1e9)
        .with_columns(device=pl.lit(NANO), subject=pl.lit(precision), quantity=pl.lit("peak"))
        .with_columns(unit=_unit())
        for name, precision in (("cublas", "fp32"), ("tensor_core", "fp16"))
    ]
    return pl.concat([_coefficients(each) for each in (subgraphs, *products)])


def product_times(folder: Path, precision: str) -> pl.DataFrame:
    """Device, mode, size and ``time_s`` of the fastest repetition of the two largest products."""
    return (
        _gpu_rows(folder)
        .filter((pl.col("operation") == "blas3_gemm") & (pl.col("precision") == precision))
        .filter(pl.col("size") >= GEMM_SIZE // 2)
        .group_by("device", "mode", "size")
        .agg(time_s=pl.col("latency_min_ms").min() / 1e3)
    )


def kernel_times(folder: Path) -> pl.DataFrame:
    """Device, mode, operation, size, precision and ``latency_s`` of the fastest repetition."""
    return (
        _gpu_rows(folder)
        .group_by("device", "mode", "operation", "size", "precision", maintain_order=True)
        .agg(latency_s=pl.col("latency_min_ms").min() / 1e3)
    )


def _gpu_rows(folder: Path) -> pl.DataFrame:
    return (
        pl.read_csv(folder / _BOARDS, infer_schema_length=None)
        .filter(pl.col("hardware").is_in(list(_DEVICES)))
        .with_columns(
            device=pl.col("hardware").replace_strict(_DEVICES),
            mode=pl.col("power_mode").str.strip_prefix("MODE_"),
        )
    )


def _unit() -> pl.Expr:
    is_tensor = pl.col("subject").is_in(_ON_TENSOR_CORES)
    return pl.when(is_tensor).then(pl.lit("tensor core")).otherwise(pl.lit("CUDA core"))


def _coefficients(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with a value as COEFFICIENT_SCHEMA: published, and without intervals."""
    filled = rows.with_columns(
        low=None,
        high=None,
        source=pl.lit("published"),
        error=None,
        n_fitted=None,
        is_extrapolated=pl.lit(value=False),
        reason=pl.lit("published without an interval"),
    )
    return filled.select(pl.col(name).cast(kind) for name, kind in COEFFICIENT_SCHEMA.items())
