"""Ten networks on a Jetson AGX Orin 64GB in four power modes, timed piece by piece by others.

branes-ai/graphs (MIT) ran torchvision's networks in eager PyTorch 2.1 (L4T 35, cuDNN, TensorRT not
used) and timed every subgraph by itself, 50 times; ../shared/data/SOURCES.md. What its columns
count, found by comparing them with the networks:

- ``flops`` are 2 for a multiply-add (ResNet-18's first convolution: 2 × 118,013,952); additions
  1 for an element, pooling and activations 0.
- ``total_bytes`` are what enters and leaves the subgraph once, with weights. Activations are
  counted in 4 bytes whatever the precision, weights in 2 for fp16 and bf16. So the traffic is the
  fp32 row's, and half of it in 16 bits.
- Dropout, Flatten and StochasticDepth are counted as copies though nothing runs.
- Clocks were left to the governor: the modes' caps are used.
- fp32 convolutions run in TF32 on tensor cores: cuDNN's default in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import polars as pl

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, GROUP_SCHEMA, MODE_SCHEMA
from mansard.analytics.models.predict.class_fit import TIMED_SCHEMA
from mansard.analytics.models.predict.group_rows import predict_groups
from mansard.core.hardware.peaks import memory_roof_bytes_per_s, peak_flop_per_s
from mansard.core.hardware.table import AGX_ORIN_64
from recorded.power_modes import AGX, recorded_modes

RUNTIME = "PyTorch 2.1, eager"
FILE = "power_modes/branes-ai+graphs__jetson_orin_per_subgraph_latency_by_power_mode.csv"
# The caps of the CPU's clock, nvpmodel_p3701_0000.
CPU_HZ = MappingProxyType({"15W": 1113.6e6, "30W": 1728e6, "50W": 1497.6e6, "MAXN": 2201.6e6})
TOTAL = ("network", "precision", "batch", "mode")
_PIECE = ("model", "batch", "subgraph_id")
# A filter of k × k for each channel: 2·k² FLOP for each output, which with a stride of s comes with
# s² inputs: 2·k² / (4·(s² + 1)) FLOP for each byte of its activations, whatever their size.
_DEPTHWISE = tuple(2 * k * k / (4 * (s * s + 1)) for k in (3, 5) for s in (1, 2))


@dataclass(frozen=True, eq=False)
class Recording:
    """The file in Mansard's frames. ``timed``: TIMED_SCHEMA with ``group`` and ``least_s``."""

    modes: pl.DataFrame  # MODE_SCHEMA
    coefficients: pl.DataFrame  # COEFFICIENT_SCHEMA: peaks and bandwidth by the caps
    groups: pl.DataFrame  # GROUP_SCHEMA
    scores: pl.DataFrame
    timed: pl.DataFrame


def read_recording(shared: Path) -> Recording:
    """All 25,704 rows. ``shared``: the folder of recorded data."""
    rows = _with_traffic(pl.read_csv(shared / FILE))
    modes = agx_modes()
    coefficients = cap_coefficients(modes)
    groups = _groups(rows)
    key = ["score_id", "mode", "group"]
    roofs = predict_groups(groups, coefficients, modes).select(*key, roof_s="time_s")
    timed = rows.with_columns(
        pl.lit(AGX).alias("device"),
        pl.col("power_mode").alias("mode"),
        pl.col("model").alias("network"),
        pl.col("subgraph_id").alias("group"),
        pl.col("subgraph_id").alias("layer"),
        pl.lit(1, pl.Int64).alias("n_launches"),
        measured_s=pl.col("latency_mean_ms") / 1e3,
        least_s=pl.col("latency_min_ms") / 1e3,
    ).join(roofs, on=key, how="left", maintain_order="left")
    scores = timed.unique("score_id", maintain_order=True).select(
        "score_id", "network", "batch", "precision", phase=pl.lit("inference")
    )
    kept = [*TIMED_SCHEMA, "score_id", "group", "pattern", "least_s"]
    return Recording(modes, coefficients, groups, scores, timed.select(kept))


def agx_modes() -> pl.DataFrame:
    """MODE_SCHEMA of the four modes at their caps."""
    cpu_hz = pl.col("mode").replace_strict(dict(CPU_HZ), return_dtype=pl.Float64)
    agx = recorded_modes().filter(pl.col("device") == AGX)
    return agx.with_columns(cpu_hz=cpu_hz).select(list(MODE_SCHEMA))


def cap_coefficients(modes: pl.DataFrame) -> pl.DataFrame:
    """Peaks and bandwidth of ``modes`` at their caps, by the hardware's tables."""
    rows = [
        {
            "device": AGX,
            "mode": mode["mode"],
            "quantity": quantity,
            "subject": subject,
            "unit": unit,
            "value": value,
            "source": "modelled",
            "is_extrapolated": False,
            "reason": "the hardware's limit: nothing was measured",
        }
        for mode in modes.iter_rows(named=True)
        for quantity, subject, unit, value in _limits(
            mode["n_sms"], mode["gpu_hz"], mode["memory_hz"]
        )
    ]
    return pl.DataFrame(rows, schema=COEFFICIENT_SCHEMA)


def _limits(
    n_sms: int, gpu_hz: float, memory_hz: float
) -> Iterator[tuple[str, str, str, float | None]]:
    board = AGX_ORIN_64
    roof = memory_roof_bytes_per_s(board, memory_hz=memory_hz, gpu_hz=gpu_hz)
    yield "bandwidth", "DRAM", "", roof
    yield "peak", "fp32", "CUDA core", peak_flop_per_s(board, n_sms=n_sms, gpu_hz=gpu_hz)
    for precision in ("tf32", "fp16", "bf16"):
        peak = peak_flop_per_s(
            board, n_sms=n_sms, gpu_hz=gpu_hz, precision=precision, unit="tensor"
        )
        yield "peak", precision, "tensor core", peak


def _with_traffic(rows: pl.DataFrame) -> pl.DataFrame:
    """Adds score_id, pattern, traffic_bytes and op_class."""
    of_fp32 = rows.filter(pl.col("precision") == "fp32").unique(_PIECE)
    by_batch = of_fp32.filter(pl.col("batch") <= 4).pivot(
        on="batch", index=["model", "subgraph_id"], values=["total_bytes", "flops"]
    )
    # Weights do not grow with the batch: three more samples bring three times the activations.
    activation = (pl.col("total_bytes_4") - pl.col("total_bytes_1")) / 3
    shapes = by_batch.select(
        "model",
        "subgraph_id",
        has_weights=pl.col("total_bytes_1") > activation + 0.5,
        intensity=pl.col("flops_1") / activation,
    )
    share = pl.when(pl.col("precision") == "fp32").then(1.0).otherwise(0.5)
    found = rows.join(
        of_fp32.select(*_PIECE, fp32_bytes="total_bytes"), on=_PIECE, maintain_order="left"
    ).join(shapes, on=["model", "subgraph_id"], maintain_order="left")
    return found.with_columns(
        score_id=pl.format("{} {} {}", "model", "batch", "precision"),
        pattern=pl.col("fusion_pattern"),
        traffic_bytes=pl.col("fp32_bytes") * share,
        op_class=_op_class(),
    )


def _op_class() -> pl.Expr:
    pattern, intensity = pl.col("fusion_pattern"), pl.col("intensity")
    is_depthwise = pl.any_horizontal((intensity - known).abs() < 1e-6 for known in _DEPTHWISE)
    return (
        pl.when(pattern.str.starts_with("AdaptiveAvgPool2d_Conv2d"))
        .then(pl.lit("pooling+conv"))
        .when(pattern == "Conv2d_BatchNorm2d_SiLU_+3more")
        .then(pl.lit("conv+depthwise"))
        .when(pattern.str.starts_with("Conv2d") & is_depthwise)
        .then(pl.lit("depthwise"))
        .when(pattern.str.starts_with("Conv2d"))
        .then(pl.lit("conv"))
        .when(pl.col("has_weights"))
        .then(pl.lit("matmul"))
        .when(pl.col("flops") > 0)
        .then(pl.lit("elementwise"))
        .otherwise(pl.lit("pooling"))
    )


def _groups(rows: pl.DataFrame) -> pl.DataFrame:
    """GROUP_SCHEMA: one row for each subgraph of each network, batch and precision."""
    is_tensor = ~pl.col("op_class").is_in(["depthwise", "elementwise", "pooling"])
    precision = pl.col("precision")
    tensor = pl.when(precision == "fp32").then(pl.lit("tf32")).otherwise(precision)
    return (
        rows.filter(pl.col("power_mode") == "MAXN")
        .with_columns(
            group=pl.col("subgraph_id"),
            name=pl.format("{} {}", "fusion_pattern", "subgraph_id"),
            tensor_precision=pl.when(is_tensor).then(tensor),
            tensor_flop=pl.when(is_tensor).then("flops").otherwise(0),
            cuda_precision=pl.when(~is_tensor & (pl.col("flops") > 0)).then(precision),
            cuda_flop=pl.when(is_tensor).then(0).otherwise("flops"),
            function_flop=pl.lit(0.0),
            kernel=pl.lit(None, pl.String),
            **dict.fromkeys(
                ("operand_bytes", "result_bytes", "weight_bytes"), pl.lit(None, pl.Float64)
            ),
            n_launches=1,
            reason=None,
        )
        .select(pl.col(name).cast(kind) for name, kind in GROUP_SCHEMA.items())
    )
