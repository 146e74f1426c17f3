"""Small frames to predict with: modes, coefficients and groups of round numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, GROUP_SCHEMA, MODE_SCHEMA
from mansard.analytics.models.predict.engine import predict_scores

Key = tuple[str, str, str]  # quantity, subject, unit
Value = float | tuple[float, float, float] | None  # value, low and high

FP32: Key = ("peak", "fp32", "CUDA core")
FP16: Key = ("peak", "fp16", "CUDA core")
TENSOR: Key = ("peak", "fp16", "tensor core")
DRAM: Key = ("bandwidth", "DRAM", "")
LAUNCH: Key = ("launch", "", "")
FP32_J: Key = ("flop_energy", "fp32", "CUDA core")
FP16_J: Key = ("flop_energy", "fp16", "CUDA core")
TENSOR_J: Key = ("flop_energy", "fp16", "tensor core")
BYTE_J: Key = ("byte_energy", "DRAM", "")
CONSTANT_W: Key = ("constant_power", "", "")

# A board of round numbers: 1 TFLOP/s, 100 GB/s, 1 ms a launch; 1 pJ/FLOP, 10 pJ/byte, 5 W.
ROUND: Mapping[Key, Value] = {
    FP32: 1e12,
    FP16: 2e12,
    TENSOR: 8e12,
    DRAM: 100e9,
    LAUNCH: 1e-3,
    FP32_J: 1e-12,
    FP16_J: 0.5e-12,
    TENSOR_J: 0.25e-12,
    BYTE_J: 10e-12,
    CONSTANT_W: 5.0,
}


def mode_frame(names: Sequence[str] = ("m",), limit_w: float | None = None) -> pl.DataFrame:
    rows = [{"device": "board", "mode": name, "power_limit_w": limit_w} for name in names]
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


def coefficient_rows(values: Mapping[Key, Value], mode: str = "m") -> pl.DataFrame:
    """One row for each of ``values``; a number alone is its own interval."""
    rows = []
    for (quantity, subject, unit), given in values.items():
        value, low, high = given if isinstance(given, tuple) else (given, given, given)
        rows.append(
            {
                "device": "board",
                "mode": mode,
                "quantity": quantity,
                "subject": subject,
                "unit": unit,
                "value": value,
                "low": low,
                "high": high,
                "source": "measured",
                "is_extrapolated": False,
                "reason": "nobody looked" if value is None else None,
            }
        )
    return pl.DataFrame(rows, schema=COEFFICIENT_SCHEMA)


def group(
    at: int = 0,
    *,
    tensor: float | None = 0.0,
    cuda: float | None = 0.0,
    traffic: float | None = 0.0,
    precision: str | None = "fp32",
    tensor_precision: str | None = "fp16",
    op_class: str = "conv",
    n_launches: int = 1,
    score: str = "s",
    reason: str | None = None,
) -> dict[str, object]:
    return {
        "score_id": score,
        "group": at,
        "name": f"group {at}",
        "op_class": op_class,
        "tensor_precision": tensor_precision if tensor else None,
        "tensor_flop": tensor,
        "cuda_precision": precision if cuda else None,
        "cuda_flop": cuda,
        "function_flop": 0.0,
        "traffic_bytes": traffic,
        "n_launches": n_launches,
        "reason": reason,
    }


def groups_of(*rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=GROUP_SCHEMA)


def scores_of(*names: str) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "score_id": list(names),
            "network": list(names),
            "batch": [1] * len(names),
            "precision": ["fp32"] * len(names),
            "phase": ["inference"] * len(names),
        }
    )


def predicted(
    *rows: dict[str, object],
    values: Mapping[Key, Value] = ROUND,
    limit_w: float | None = None,
    efficiency: Mapping[str, float] | None = None,
) -> dict[str, object]:
    """The only prediction: one mode, one score "s" of the groups ``rows``."""
    found = predict_scores(
        groups_of(*rows),
        scores_of("s"),
        coefficient_rows(values),
        mode_frame(limit_w=limit_w),
        efficiency=efficiency,
    ).collect()
    return found.row(0, named=True)
