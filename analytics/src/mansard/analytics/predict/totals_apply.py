"""Predictions with the lines of measured networks: ``calibration_totals``."""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.model_frames import NETWORK
from mansard.analytics.predict.calibration_totals import TotalsCalibration

_UNITS = {"latency": "s", "energy": "j", "power": "w"}
_NO_END = "nothing tells how far the calibration is off"
_NO_POWER = "no constant power is known in this mode: the calibrated energy is unknown"


def apply_totals(
    predictions: pl.DataFrame, calibration: TotalsCalibration, coefficients: pl.DataFrame
) -> pl.DataFrame:
    """``predictions`` (PREDICTION_SCHEMA) with calibrated latency, energy and power.

    Where the latency changes by dT the energy does by π₀ · dT, with the constant power of
    ``coefficients`` (COEFFICIENT_SCHEMA): work and traffic stay what they are. Ends of intervals
    keep their share of the value, and are widened by the factors' ``ratio_95``; without it there
    are none. Networks without a factor stay as they are.
    """
    found = _with_factors(predictions, calibration, coefficients)
    longer_s = pl.col("scale") * pl.col("latency_s") ** pl.col("slope")
    energy_j = pl.col("energy_j") + pl.col("constant_w") * (longer_s - pl.col("latency_s"))
    new = {"latency_s": longer_s, "energy_j": energy_j, "power_w": energy_j / longer_s}
    new |= {
        f"{name}_{end}_{unit}": _end(f"{name}_{end}_{unit}", f"{name}_{unit}", new, end)
        for name, unit in _UNITS.items()
        for end in ("low", "high")
    }
    has_factor = pl.col("scale").is_not_null() & pl.col("latency_s").is_not_null()
    lost_energy = pl.col("energy_j").is_not_null() & pl.col("constant_w").is_null()
    said = [
        "reason",
        pl.when(has_factor & pl.col("ratio_95").is_null()).then(pl.lit(_NO_END)),
        pl.when(has_factor & lost_energy).then(pl.lit(_NO_POWER)),
    ]
    changed = [
        pl.when(pl.col("scale").is_not_null()).then(value).otherwise(name).alias(name)
        for name, value in new.items()
    ]
    reason = pl.concat_str(said, separator="; ", ignore_nulls=True)
    return found.with_columns(
        *changed,
        is_calibrated=pl.col("is_calibrated") | has_factor,
        reason=pl.when(reason != "").then(reason),
    ).select(predictions.columns)


def _with_factors(
    predictions: pl.DataFrame, calibration: TotalsCalibration, coefficients: pl.DataFrame
) -> pl.DataFrame:
    constant = coefficients.filter(pl.col("quantity") == "constant_power")
    known = constant.unique(["device", "mode"], keep="first", maintain_order=True)
    factors = calibration.factors
    return predictions.join(
        factors, on=NETWORK, how="left", nulls_equal=True, maintain_order="left"
    ).join(
        known.select("device", "mode", constant_w="value"),
        on=["device", "mode"],
        how="left",
        maintain_order="left",
    )


def _end(end_name: str, name: str, new: dict[str, pl.Expr], end: str) -> pl.Expr:
    """The end of an interval at its old share of the value, widened; null without a ratio."""
    moved = new[name] * pl.col(end_name) / pl.col(name)
    return moved / pl.col("ratio_95") if end == "low" else moved * pl.col("ratio_95")
