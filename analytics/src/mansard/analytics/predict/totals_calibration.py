"""Calibration by whole networks: from what a few of them took in a few modes.

Totals cannot tell classes of operators apart, but they say two things:

- a network that was measured in some modes: T = a · T_model^b, the line through its logarithms.
  One mode gives a (b = 1), two whose modelled times differ give both. b says how much of what the
  model leaves out goes with the clocks (docs/calibration.md);
- a network that was not measured: the median of measured / modelled of the others of its device
  and phase, with b = 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import (
    OBSERVATION_SCHEMA,
    PREDICTION_KEY,
    PREDICTION_SCHEMA,
)
from mansard.analytics.predict.class_calibration import Misfit, misfit
from mansard.core.errors import InputError

Array = NDArray[np.float64]

LEAST_SPAN = 1.1  # the modelled times of a network differ by this much, or a slope says nothing
FACTOR_SCHEMA: FrameSchema = {
    **{name: PREDICTION_SCHEMA[name] for name in PREDICTION_KEY},
    "scale": pl.Float64,  # a, with times in s
    "slope": pl.Float64,  # b
    "n_modes": pl.Int64,  # in which the network was measured; 0 where others speak for it
    "ratio_95": pl.Float64,  # by which its times may be off; null where nothing tells
}


@dataclass(frozen=True, eq=False)
class TotalsCalibration:
    """A line for each network, and how far the lines are off; None where nothing tells.

    ``unseen_modes``: each mode by the others of the same network. ``unseen_networks``: each
    network by the others of its device and phase.
    """

    factors: pl.DataFrame  # FACTOR_SCHEMA
    before: Misfit
    after: Misfit
    unseen_modes: Misfit | None
    unseen_networks: Misfit | None


@dataclass(frozen=True)
class _TotalsLine:
    """T = scale · T_model^slope, s."""

    scale: float
    slope: float

    def at(self, modelled_s: Array) -> Array:
        return np.asarray(self.scale * modelled_s**self.slope, dtype=np.float64)


def calibrate_totals(predictions: pl.DataFrame, observations: pl.DataFrame) -> TotalsCalibration:
    """Lines for all networks of ``predictions`` whose device and phase have observations.

    PREDICTION_SCHEMA and OBSERVATION_SCHEMA, matched by device, mode, network, batch, precision
    and phase. Published observations count only of networks that were not measured here. Where
    nothing matches, InputError.
    """
    pairs = _pairs(predictions, observations)
    if pairs.is_empty():
        raise InputError(
            "no measured network is among the predicted ones",
            fix="device, mode, network, batch, precision and phase must be the same",
        )
    parts = pairs.partition_by(*PREDICTION_KEY, maintain_order=True)
    lines = [_line(*_columns(part)) for part in parts]
    after = [line.at(_columns(part)[0]) for line, part in zip(lines, parts, strict=True)]
    modelled_s, measured_s = _columns(pl.concat(parts))
    unseen_modes = _collected(_without_each_mode(parts))
    unseen_networks = _collected(_without_each_network(pairs))
    own = _measured_rows(parts, lines, _ratio(unseen_modes))
    other = _other_rows(predictions, pairs, _ratio(unseen_networks))
    return TotalsCalibration(
        factors=pl.DataFrame([*own, *other], schema=FACTOR_SCHEMA),
        before=misfit(modelled_s, measured_s),
        after=misfit(np.concatenate(after), measured_s),
        unseen_modes=unseen_modes,
        unseen_networks=unseen_networks,
    )


def _pairs(predictions: pl.DataFrame, observations: pl.DataFrame) -> pl.DataFrame:
    """PREDICTION_KEY, mode, modelled_s and measured_s: one row where both are known and above 0."""
    usable = pl.col("latency_s").is_finite() & (pl.col("latency_s") > 0)
    is_published = pl.col("source") == "published"
    key = [*PREDICTION_KEY, "mode"]
    measured = (
        observations.select(list(OBSERVATION_SCHEMA))
        .filter(usable)
        .filter(is_published == is_published.min().over(PREDICTION_KEY))
        .group_by(key)
        .agg(pl.col("latency_s").median().alias("measured_s"))
    )
    return (
        predictions.filter(usable)
        .select(*key, modelled_s="latency_s")
        .join(measured, on=key, nulls_equal=True)
        .unique(key, keep="first", maintain_order=True)
        .sort(key)
    )


def _columns(pairs: pl.DataFrame) -> tuple[Array, Array]:
    return pairs["modelled_s"].to_numpy(), pairs["measured_s"].to_numpy()


def _line(modelled_s: Array, measured_s: Array) -> _TotalsLine:
    """Through the logarithms of one network's times; of slope 1 where they do not tell it."""
    x, y = np.log(modelled_s), np.log(measured_s)
    if np.ptp(x) >= np.log(LEAST_SPAN):
        away = x - x.mean()
        slope = float(away @ y / (away @ away))
        if slope > 0:  # or else the model has the modes the wrong way round
            return _TotalsLine(float(np.exp(y.mean() - slope * x.mean())), slope)
    return _TotalsLine(float(np.exp((y - x).mean())), 1.0)


def _without_each_mode(parts: list[pl.DataFrame]) -> Iterator[tuple[Array, Array]]:
    for part in parts:
        modelled_s, measured_s = _columns(part)
        for at in range(len(part) if len(part) > 1 else 0):
            line = _line(np.delete(modelled_s, at), np.delete(measured_s, at))
            yield line.at(modelled_s[at : at + 1]), measured_s[at : at + 1]


def _without_each_network(pairs: pl.DataFrame) -> Iterator[tuple[Array, Array]]:
    for of_phase in pairs.partition_by("device", "phase"):
        for name in of_phase["network"].unique():
            is_left_out = pl.col("network") == name
            scale = _common_scale(of_phase.filter(~is_left_out))
            if scale is not None:
                modelled_s, measured_s = _columns(of_phase.filter(is_left_out))
                yield scale * modelled_s, measured_s


def _common_scale(pairs: pl.DataFrame) -> float | None:
    """The median over networks of their median of measured / modelled; None without any."""
    ratio = (pl.col("measured_s") / pl.col("modelled_s")).median()
    middle = pairs.group_by("network").agg(ratio.alias("ratio"))["ratio"].median()
    return middle if isinstance(middle, float) else None


def _collected(found: Iterator[tuple[Array, Array]]) -> Misfit | None:
    both = list(found)
    if not both:
        return None
    modelled, measured = zip(*both, strict=True)
    return misfit(np.concatenate(modelled), np.concatenate(measured))


def _ratio(unseen: Misfit | None) -> float | None:
    return None if unseen is None else unseen.ratio_95


def _measured_rows(
    parts: list[pl.DataFrame], lines: list[_TotalsLine], ratio: float | None
) -> Iterator[Mapping[str, object]]:
    for part, line in zip(parts, lines, strict=True):
        own = part.select(PREDICTION_KEY).row(0, named=True)
        found = {"scale": line.scale, "slope": line.slope, "n_modes": len(part)}
        yield {**own, **found, "ratio_95": ratio}


def _other_rows(
    predictions: pl.DataFrame, pairs: pl.DataFrame, ratio: float | None
) -> Iterator[Mapping[str, object]]:
    """Networks that were not measured, of devices and phases of which others were."""
    others = predictions.select(PREDICTION_KEY).unique(maintain_order=True)
    others = others.join(pairs, on=PREDICTION_KEY, how="anti", nulls_equal=True)
    parts = pairs.partition_by("device", "phase", as_dict=True)
    scales = {key: _common_scale(part) for key, part in parts.items()}
    for row in others.iter_rows(named=True):
        scale = scales.get((row["device"], row["phase"]))
        if scale is not None:
            yield {**row, "scale": scale, "slope": 1.0, "n_modes": 0, "ratio_95": ratio}


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
        interval=pl.when(has_factor)
        .then(pl.when(pl.col("ratio_95").is_not_null()).then(pl.lit("spread")))
        .otherwise("interval"),
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
        factors, on=PREDICTION_KEY, how="left", nulls_equal=True, maintain_order="left"
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
