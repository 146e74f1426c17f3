"""Calibration by classes of operators: how near kernels come to their roofs.

T of a group = factor(class, precision) · max(work / peak, traffic / bandwidth) + n · launch(mode).
A calibration belongs to one device and one runtime, and says what it was fitted on and how far
off it is: before, after, and on networks that it did not see (docs/calibration.md). It is applied
to its own device, precisions and phases alone; others keep the plain model, and a prediction says
which of the two it is (``is_calibrated``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA
from mansard.analytics.predict.engine import predict_scores
from mansard.analytics.predict.op_classes import OP_CLASSES
from mansard.core.records import Record

# What networks that were timed layer by layer took in a mode. A layer of an engine is one group
# of nodes or several, and a group is one row or, where its work and its traffic have factors of
# their own, two (``groups.halves``).
TIMED_SCHEMA: FrameSchema = {
    "device": pl.String,
    "mode": pl.String,
    "network": pl.String,
    "batch": pl.Int64,
    "precision": pl.String,
    "layer": pl.Int64,  # rows with equal numbers are one layer of the network
    "op_class": pl.String,
    "roof_s": pl.Float64,  # of the row, in the mode
    "n_launches": pl.Int64,  # of the row
    "measured_s": pl.Float64,  # of the whole layer
}


class ClassFactor(Record, frozen=True, kw_only=True):
    """How many times the time under the roof groups of a class take, without their launch.

    ``value`` is None where too few groups were timed: the overall factor holds for them. 95 %.
    """

    op_class: str
    precision: str
    value: float | None
    low: float | None
    high: float | None
    n_groups: int
    n_networks: int


@dataclass(frozen=True)
class ClassFactors:
    """Factors alone: by op_class and precision, of all else, and the mean cost of a launch."""

    by_kind: Mapping[tuple[str, str], float]
    overall: float
    launch_s: float

    def factor(self, op_class: str, precision: str) -> float:
        """Of a class in a precision; in one that was not timed as in the first that was."""
        known = dict.fromkeys(each for _, each in self.by_kind)
        alike = precision if precision in known else next(iter(known), precision)
        return self.by_kind.get((op_class, alike), self.overall)


class LaunchCost(Record, frozen=True, kw_only=True):
    """What it takes to start one group in a mode, 95 %."""

    mode: str
    value_s: float | None
    low_s: float | None
    high_s: float | None
    n_groups: int


class Misfit(Record, frozen=True, kw_only=True):
    """|modelled / measured - 1| of network totals: each network, batch, precision and mode one.

    ``ratio_95``: of 95 % of them modelled and measured differ by no more than this ratio, ≥ 1.
    """

    median: float
    worst: float
    ratio_95: float | None
    n_totals: int


class Calibration(Record, frozen=True, kw_only=True):
    """Factors and launch costs of one device and runtime, and what they rest on.

    ``before``: the roofs alone. ``after``: on the networks it was fitted on. ``unseen``: each
    network by the calibration of the others.
    """

    device: str
    runtime: str
    phase: str
    modes: tuple[str, ...]
    networks: tuple[str, ...]
    batches: tuple[int, ...]
    factors: tuple[ClassFactor, ...]
    overall: float
    least_factor: float
    launches: tuple[LaunchCost, ...]
    is_launch_in_cycles: bool  # one number of CPU cycles for all modes, not a cost of each
    n_groups: int
    n_left_out: int  # groups without a time under the roof, or without a measured one
    before: Misfit
    after: Misfit
    unseen: Misfit | None

    @property
    def precisions(self) -> tuple[str, ...]:
        """Those of the networks that were timed."""
        return tuple(dict.fromkeys(found.precision for found in self.factors))

    def factor(self, op_class: str, precision: str) -> float:
        """What the time under the roof is multiplied with; overall where none is known."""
        for found in self.factors:
            if (found.op_class, found.precision) == (op_class, precision):
                return self.overall if found.value is None else found.value
        return self.overall

    def efficiency(self, precision: str) -> dict[str, float]:
        """The factor of every class for networks in ``precision``, as the engine takes them."""
        classes = dict.fromkeys((*OP_CLASSES, *(found.op_class for found in self.factors)))
        return {name: self.factor(name, precision) for name in classes}

    def launch_s(self, mode: str) -> float | None:
        """The cost of a launch in a mode that it was fitted on; None in any other."""
        return next((found.value_s for found in self.launches if found.mode == mode), None)


def misfit(modelled_s: NDArray[np.float64], measured_s: NDArray[np.float64]) -> Misfit:
    """How far modelled totals are off the measured ones, which are above 0; at least one."""
    ratio = modelled_s / measured_s
    error = np.abs(ratio - 1)
    unknown = {}
    ratio_95 = None
    if (ratio > 0).all():
        ratio_95 = float(np.quantile(np.maximum(ratio, 1 / ratio), 0.95))
    else:
        unknown["ratio_95"] = "the modelled time of a network is 0"
    return Misfit(
        median=float(np.median(error)),
        worst=float(error.max()),
        ratio_95=ratio_95,
        n_totals=len(ratio),
        unknown=unknown,
    )


def predict_calibrated(
    groups: pl.DataFrame,
    scores: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
    calibration: Calibration,
) -> pl.LazyFrame:
    """As ``engine.predict_scores``, with the calibration where it was made for.

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
    return part.with_columns(
        pl.col("latency_low_s", "energy_low_j", "power_low_w") / by,
        pl.col("latency_high_s", "energy_high_j", "power_high_w") * by,
    )


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
