"""Predictions with a calibration: its factors, its launch costs, and its error in every interval.

Nothing is calibrated that the calibration was not made for: other devices, precisions and phases
keep the plain model, and a prediction says which of the two it is (``is_calibrated``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA
from mansard.analytics.predict.calibration import Calibration
from mansard.analytics.predict.engine import predict_scores

_ENDS = {"latency": "s", "energy": "j", "power": "w"}


def predict_calibrated(
    groups: pl.DataFrame,
    scores: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
    calibration: Calibration,
) -> pl.LazyFrame:
    """As ``engine.predict``, with the calibration where it was made for.

    Intervals are as much wider as 95 % of the networks were off that the calibration had not
    seen (``unseen.ratio_95``, else ``after.ratio_95``): an energy's too, for its constant part
    goes with the time and the rest does not change.
    """
    is_own = pl.col("device") == calibration.device
    own = modes.filter(is_own)
    is_launch = is_own & (pl.col("quantity") == "launch")
    known = pl.concat([launch_coefficients(calibration, own), coefficients.filter(~is_launch)])
    is_meant = pl.col("precision").is_in(calibration.precisions) & (
        pl.col("phase") == calibration.phase
    )
    others = scores.filter(~is_meant.fill_null(value=False))
    parts = [
        predict_scores(groups, scores, coefficients, modes.filter(~is_own)),
        predict_scores(groups, others, coefficients, own),
    ]
    ratio = (calibration.unseen or calibration.after).ratio_95
    for precision in calibration.precisions:
        some = scores.filter(is_meant, pl.col("precision") == precision)
        efficiency = calibration.efficiency(precision)
        parts.append(
            _widened(predict_scores(groups, some, known, own, efficiency=efficiency), ratio)
        )
    return pl.concat(parts)


def _widened(part: pl.LazyFrame, ratio: float | None) -> pl.LazyFrame:
    """With ends further apart by ``ratio``; without ends where it is not known."""
    by = pl.lit(ratio, pl.Float64)
    lows = (pl.col(f"{name}_low_{unit}") / by for name, unit in _ENDS.items())
    highs = (pl.col(f"{name}_high_{unit}") * by for name, unit in _ENDS.items())
    return part.with_columns(*lows, *highs)


def launch_coefficients(calibration: Calibration, modes: pl.DataFrame) -> pl.DataFrame:
    """The cost of a launch in each of ``modes`` (MODE_SCHEMA) of the calibrated device, s.

    COEFFICIENT_SCHEMA. Starting a kernel is the CPU's work, so that it takes as many of its
    cycles in every mode: on a recorded AGX Orin 31,700 to 32,800 of them for an empty kernel at
    1.1 to 2.2 GHz (docs/calibration.md). A mode that was not calibrated has the mean of the others'
    cycles over its CPU clock; ``error`` is the median of leaving one of them out, the interval
    holds the worst.
    """
    return pl.DataFrame(list(_launch_rows(calibration, modes)), schema=COEFFICIENT_SCHEMA)


def _launch_rows(calibration: Calibration, modes: pl.DataFrame) -> Iterator[dict[str, object]]:
    own = modes.filter(pl.col("device") == calibration.device)
    clocks = dict(own.select("mode", "cpu_hz").drop_nulls().iter_rows())
    fitted = {cost.mode: cost for cost in calibration.launches if cost.value_s is not None}
    seen = [clocks[mode] for mode in fitted if mode in clocks]
    for mode in own["mode"]:
        row: dict[str, object] = {"device": calibration.device, "mode": mode}
        row |= {"quantity": "launch", "subject": "", "unit": "", "source": "modelled"}
        if mode in fitted:
            cost = fitted[mode]
            row |= {"value": cost.value_s, "low": cost.low_s, "high": cost.high_s}
            row |= {"is_extrapolated": False, "reason": cost.unknown.get("low_s")}
        elif mode in clocks and seen:
            row |= _between(calibration, clocks, clocks[mode])
            row["is_extrapolated"] = not min(seen) <= clocks[mode] <= max(seen)
        else:
            row |= {"is_extrapolated": True, "reason": _why_none(mode in clocks)}
        yield row


def _between(
    calibration: Calibration, clocks: Mapping[str, float], cpu_hz: float
) -> dict[str, object]:
    """The cost at ``cpu_hz`` by the cycles of the calibrated modes, and how far it may be off."""
    known = [cost for cost in calibration.launches if cost.value_s and cost.mode in clocks]
    if not known:
        return {"value": 0.0, "reason": "no launch was seen to cost anything"}
    cycles = [float(cost.value_s or 0.0) * clocks[cost.mode] for cost in known]
    found: dict[str, object] = {"n_fitted": len(known)}
    if calibration.is_launch_in_cycles:  # all of them are the same
        share = clocks[known[0].mode] / cpu_hz
        low, high = (
            None if end is None else end * share for end in (known[0].low_s, known[0].high_s)
        )
        reason = "one number of cycles was fitted to all modes: none was left out"
        return found | {"value": cycles[0] / cpu_hz, "low": low, "high": high, "reason": reason}
    value = float(np.exp(np.log(cycles).mean())) / cpu_hz
    if len(cycles) < 2:
        reason = "one mode was calibrated: nothing tells how far it is off elsewhere"
        return found | {"value": value, "reason": reason}
    logs = np.log(cycles)
    errors = np.abs(np.exp((logs.sum() - logs) / (len(logs) - 1) - logs) - 1)
    worst = 1 + float(errors.max())
    ends = {"low": value / worst, "high": value * worst}
    return found | ends | {"value": value, "error": float(np.median(errors))}


def _why_none(has_clock: bool) -> str:
    if has_clock:
        return "no launch cost was calibrated in a mode whose CPU clock is known"
    return "the mode was not calibrated and its CPU clock is not known"
