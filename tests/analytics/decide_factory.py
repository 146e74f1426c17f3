"""Predictions made by hand, in the frame that decisions read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from mansard.analytics.data.model_frames import PREDICTION_SCHEMA

DEVICE = "Made-up board"


def row(
    mode: str,
    latency_s: float | None,
    energy_j: float | None = None,
    *,
    spread: float | None = None,
    batch: int = 1,
    network: str = "net",
    **others: object,
) -> dict[str, object]:
    """One prediction; ``energy_j`` is that of the batch, the intervals are value × spread^±1."""
    power_w = None if energy_j is None or not latency_s else energy_j / latency_s
    found: dict[str, object] = {
        "device": DEVICE,
        "mode": mode,
        "score_id": f"{network}-{batch}",
        "network": network,
        "batch": batch,
        "precision": "fp16",
        "phase": "inference",
        "time_bound": "compute",
        "interval": None if spread is None else "spread",
        "source": "modelled",
        "is_extrapolated": False,
        "is_calibrated": False,
    }
    values = {"latency": (latency_s, "s"), "energy": (energy_j, "j"), "power": (power_w, "w")}
    for name, (value, unit) in values.items():
        found[f"{name}_{unit}"] = value
        if spread is not None and value is not None:
            found[f"{name}_low_{unit}"] = value / spread
            found[f"{name}_high_{unit}"] = value * spread
    return {**found, **others}


def frame(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
    return pl.DataFrame([dict(each) for each in rows], schema=PREDICTION_SCHEMA)
