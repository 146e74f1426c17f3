"""Predictions as arrays that a decision can compare, and whether a value is known to keep a limit.

``interval`` says what the ends of an interval mean (data.model_frames.INTERVALS):

- "spread": a value v with the 95 % interval [low, high] is modelled as log-normal with median v
  and a separate σ on each side: above v it is ln(high / v) / z, below v it is ln(v / low) / z,
  with z = 1.95996, the 97.5 % quantile of the standard normal distribution. So P(X ≤ high) =
  0.975, P(X ≤ v) = 0.5, P(X ≤ low) = 0.025. Times and energies are positive and their errors are
  relative, hence the logarithm.
- "bounds": the true value lies between the ends. Where a fit to the network's own measurements
  gives v, it is modelled likewise, with the ends BOUNDS_Z standard deviations from v; elsewhere
  nothing tells where between them it lies, so there is no probability.
- "roof": time and energy are at least the lower end; how much more is unknown, but for what
  recorded networks took with TensorRT (``expected_span_s``). A power is their ratio, which a roof
  does not bound.
- none: the error of the value is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.decisions.records import (
    UNKNOWN_PRECISION,
    Candidate,
    Objective,
    Quantity,
    Wanted,
)

Array = NDArray[np.float64]
_NORMAL = NormalDist()
Z95 = _NORMAL.inv_cdf(0.975)


# How many standard deviations the ends of bounds lie from the value of a fit: one over the largest
# root mean square of errors over half of the bounds, rounded down. On recorded boards with one to
# four measured modes it is 0.41, 0.27 and 0.24 (benchmarks/recorded/regret.py).
BOUNDS_Z: Mapping[str, float] = {"latency": 2.0, "power": 3.0, "energy": 4.0}

# An open answer counts as the dearest candidate at twice its objective, in logarithms: a choice.
UNDECIDED = math.log(2.0)

KEPT, UNKNOWN, BROKEN = 1, 0, -1  # whether a value keeps a limit
NO_INTERVAL = "the prediction has no interval"


@dataclass(frozen=True, eq=False)
class ValueBand:
    """Values of one quantity with their intervals, arrays of one length; NaN is unknown.

    ``interval``: for each value a key of INTERVALS, empty where it has no interval. ``is_power``:
    the values are powers, which a roof does not bound. ``bounds_z``: how many standard deviations
    the ends of each value lie from it if they are bounds; NaN where nothing tells.
    """

    value: Array
    low: Array
    high: Array
    interval: NDArray[np.str_]
    is_power: bool = False
    bounds_z: Array | float = math.nan

    @cached_property
    def ends_z(self) -> Array:
        """How many standard deviations the ends lie from each value; NaN: it has no probability."""
        bounds_z = np.where(self.interval == "bounds", self.bounds_z, math.nan)
        return np.asarray(np.where(self.interval == "spread", Z95, bounds_z))

    @property
    def has_chance(self) -> NDArray[np.bool_]:
        """Which values keep a limit with a known probability."""
        return np.isfinite(self.ends_z)

    def ends(self) -> tuple[Array, Array]:
        """Low and high; the value itself where there is no interval."""
        return (
            np.where(np.isnan(self.low), self.value, self.low),
            np.where(np.isnan(self.high), self.value, self.high),
        )

    def times(self, other: ValueBand) -> ValueBand:
        """The product; its ends are the products of the lower and of the upper ends."""
        interval = np.where((self.interval == "") | (other.interval == ""), "", self.interval)
        low, high = self.low * other.low, self.high * other.high
        bounds_z = np.minimum(self.bounds_z, other.bounds_z)
        return ValueBand(self.value * other.value, low, high, interval, bounds_z=bounds_z)

    def over(self, divisor: Array) -> ValueBand:
        """The quotient by an exactly known divisor."""
        ends = (self.value / divisor, self.low / divisor, self.high / divisor)
        return ValueBand(*ends, self.interval, self.is_power, self.bounds_z)

    def deviation(self) -> Array:
        """The standard deviation of each value's logarithm, ln(high / low) / 2z; 0 without ends."""
        low, high = self.ends()
        z = np.where(self.has_chance, self.ends_z, Z95)
        return np.asarray(np.log(high / low) / (2 * z))

    def cost(self) -> Array:
        """The values with a penalty for uncertainty, value · exp(¼σ), to compare them by.

        The least of many uncertain values tends to be an underestimate, the more so the larger its
        error (J. E. Smith, R. L. Winkler, The optimizer's curse, Management Science 52(3), 2006).
        The factor is a choice; on recorded boards it has the least regret
        (benchmarks/recorded/regret.py).
        Bounds: at most the upper end. Roof: the value, whose interval is of the ceilings alone.
        """
        _, high = self.ends()
        cost = self.value * np.exp(self.deviation() / 4)
        cost = np.where(self.interval == "bounds", np.minimum(cost, high), cost)
        return np.asarray(np.where(self.interval == "roof", self.value, cost))

    def quantile(self, probability: float) -> Array:
        """The quantile of each value at ``probability``.

        Bounds without one: the upper end, or the lower one if ``probability`` is below one half;
        none is beyond its bounds. Without an interval, and for a roof: the value itself.
        """
        low, high = self.ends()
        z = _NORMAL.inv_cdf(probability)
        end = high if z >= 0 else low
        is_bounds = self.interval == "bounds"
        share = np.divide(z, self.ends_z, out=np.zeros(len(end)), where=self.has_chance)
        share = np.where(is_bounds, np.clip(share, -1.0, 1.0), share)
        likely = self.value * np.exp(np.abs(np.log(end / self.value)) * share)
        certain = np.where(is_bounds, end, self.value)
        return np.where(self.has_chance, likely, certain)

    def holds(self, bound: float, probability: float) -> NDArray[np.int8]:
        """KEPT, BROKEN or UNKNOWN: whether each value is at most ``bound``.

        With a probability: KEPT if P(X ≤ bound) ≥ ``probability``, BROKEN if P(X ≤ bound) is less
        than both ``probability`` and 1 - ``probability``. Bounds: KEPT if the upper end is at most
        ``bound``, BROKEN if the lower end is above it. Roof: BROKEN if the lower end is above it,
        but for powers. No interval: BROKEN if the value is above it. Otherwise UNKNOWN.
        """
        low, high = self.ends()
        least = np.where(self.has_chance, self.quantile(min(probability, 1 - probability)), low)
        has_least = (self.interval != "roof") | (not self.is_power)
        keeps = self.has_chance & (self.quantile(probability) <= bound)
        keeps |= (self.interval == "bounds") & (high <= bound)
        breaks = has_least & (least > bound)
        return np.where(keeps, KEPT, np.where(breaks, BROKEN, UNKNOWN)).astype(np.int8)


def probability_at_most(
    value: float, low: float | None, high: float | None, limit: float, ends_z: float = Z95
) -> float | None:
    """P(X ≤ limit); None without an interval. All arguments are above 0.

    ``ends_z``: how many standard deviations the ends lie from the value; NaN: nothing tells.
    """
    if low is None or high is None or math.isnan(ends_z):
        return None
    end = high if limit >= value else low
    spread = abs(math.log(end / value))
    distance = math.log(limit / value)
    if spread == 0:
        return 1.0 if distance >= 0 else 0.0
    return _NORMAL.cdf(ends_z * distance / spread)


_ORDER = ("mode", "batch", "precision", "phase", "network", "score_id")


@dataclass(frozen=True)
class OmittedRows:
    """Rows that are left out because they have no time; ``n_all``: the number of all rows.

    ``modes``: those in which no row has a time. ``reasons``: each reason with its number of rows,
    the most frequent first.
    """

    n: int
    n_all: int
    modes: tuple[str, ...]
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class Values:
    """Usable rows of a prediction frame, in an order that is independent of the frame's.

    ``latency``: s of one batch; ``item``: s of one item; ``energy``: J of one item;
    ``power``: W. NaN is unknown. ``omitted``: rows without a time, of modes where others have one;
    ``n_timeless``: the number of all rows without a time.
    """

    frame: pl.DataFrame
    latency: ValueBand
    item: ValueBand
    energy: ValueBand
    power: ValueBand
    omitted: OmittedRows | None
    n_timeless: int = 0

    def __len__(self) -> int:
        return self.frame.height

    @cached_property
    def is_measured(self) -> NDArray[np.bool_]:
        """Whether the network itself was measured in the row's mode, here or by others."""
        return (self.frame["source"] != "modelled").to_numpy()

    @cached_property
    def is_extrapolated(self) -> NDArray[np.bool_]:
        """Whether the row's mode lies outside the measured modes."""
        return self.frame["is_extrapolated"].fill_null(value=False).to_numpy()

    def of(self, quantity: Quantity) -> ValueBand:
        """The quantity that a limit bounds; for a rate the time of one item."""
        bands = {"latency": self.latency, "power": self.power, "energy": self.energy}
        return bands.get(quantity, self.item)

    def objective(self, minimise: Objective) -> ValueBand:
        """The quantity that is minimised: s, J, W, or J·s of the energy-delay product."""
        if minimise == "edp":
            return self.energy.times(self.latency)
        return self.of(minimise)

    def candidate(self, at: int) -> Candidate:
        """One row as a record."""
        row = self.frame.row(at, named=True)
        bands = (
            ("latency", "s", self.latency),
            ("power", "w", self.power),
            ("energy", "j", self.energy),
        )
        numbers = {f"{name}_{unit}": band.value[at] for name, unit, band in bands}
        for name, unit, band in bands:
            numbers |= {f"{name}_low_{unit}": band.low[at], f"{name}_high_{unit}": band.high[at]}
        fields: dict[str, Any] = {
            name: None if np.isnan(value) else float(value) for name, value in numbers.items()
        }
        unknown = {}
        for name, value in fields.items():
            if value is None:
                middle = fields[name.replace("_low_", "_").replace("_high_", "_")]
                why = row["reason"] or "not predicted"
                unknown[name] = why if middle is None else NO_INTERVAL
        fields["bound"] = row["time_bound"]
        if row["time_bound"] is None:
            unknown["bound"] = "not told apart"
        fields["interval"] = row["interval"]
        if row["interval"] is None:
            unknown["interval"] = NO_INTERVAL
        for name in ("is_extrapolated", "is_calibrated"):
            fields[name] = row[name]
            if row[name] is None:
                unknown[name] = "the prediction does not say"
        same = ("device", "mode", "network", "batch", "precision", "phase", "source")
        return Candidate(**{name: row[name] for name in same}, **fields, unknown=unknown)


def read_values(predictions: pl.DataFrame, wanted: Wanted) -> Values:
    """The rows of PREDICTION_SCHEMA that can be compared, for the batches in ``wanted``.

    Rows whose latency is unknown or not positive are left out. Energies and powers that are not
    positive count as unknown.
    """
    # A network without a batch dimension processes one item at a time.
    rows = predictions.with_columns(
        pl.col("batch").fill_null(1), pl.col("precision").fill_null(UNKNOWN_PRECISION)
    ).sort(_ORDER)
    if wanted.batches is not None:
        rows = rows.filter(pl.col("batch").is_in(list(wanted.batches)))
    is_usable = _is_positive("latency_s") & (pl.col("batch") >= 1)
    usable, timeless = rows.filter(is_usable), rows.filter(~is_usable)
    # Modes that have no time at all are reported as such (``unknown_modes``).
    omitted = timeless.filter(pl.col("mode").is_in(usable["mode"].implode()))
    omitted = omitted if usable.height else timeless
    batch = usable["batch"].to_numpy().astype(np.float64)
    latency = _band(usable, "latency", "s")
    return Values(
        frame=usable,
        latency=latency,
        item=latency.over(batch),
        energy=_band(usable, "energy", "j").over(batch),
        power=_band(usable, "power", "w"),
        omitted=_omitted(omitted, rows, usable) if omitted.height else None,
        n_timeless=timeless.height,
    )


def _omitted(timeless: pl.DataFrame, rows: pl.DataFrame, usable: pl.DataFrame) -> OmittedRows:
    known = usable["mode"].unique().to_list()
    modes = rows.filter(~pl.col("mode").is_in(known))["mode"].unique().sort()
    counts = timeless.filter(pl.col("reason") != "").group_by("reason").len()
    reasons = counts.sort("len", "reason", descending=[True, False]).iter_rows()
    return OmittedRows(timeless.height, rows.height, tuple(modes), tuple(reasons))


def _is_positive(column: str) -> pl.Expr:
    return (pl.col(column).is_finite() & (pl.col(column) > 0)).fill_null(value=False)


def _band(rows: pl.DataFrame, name: str, unit: str) -> ValueBand:
    columns = (f"{name}_{unit}", f"{name}_low_{unit}", f"{name}_high_{unit}")
    value, low, high = (
        rows.select(pl.when(_is_positive(column)).then(pl.col(column)).cast(pl.Float64))
        .to_series()
        .fill_null(float("nan"))
        .to_numpy()
        for column in columns
    )
    # An interval needs both ends; it is widened to its value, which rounding may put outside.
    whole = ~(np.isnan(low) | np.isnan(high) | np.isnan(value))
    # As in Candidate.certainty: outside the measured modes a modelled spread is only bounds.
    is_guess = (pl.col("interval") == "spread") & pl.col("is_extrapolated")
    is_guess &= pl.col("source") == "modelled"
    bound = pl.when(is_guess.fill_null(value=False)).then(pl.lit("bounds"))
    kinds = rows.select(bound.otherwise(pl.col("interval").fill_null(""))).to_series()
    kind = kinds.to_numpy().astype(np.str_)
    is_fitted = (pl.col("interval") == "bounds") & pl.col("is_calibrated")
    has_fit = rows.select(is_fitted.fill_null(value=False)).to_series().to_numpy()
    return ValueBand(
        value,
        _where(whole, np.fmin(low, value)),
        _where(whole, np.fmax(high, value)),
        np.where(whole | (kind == "roof"), kind, ""),
        is_power=name == "power",
        bounds_z=np.where(has_fit, BOUNDS_Z[name], math.nan),
    )


def _where(mask: Array, values: Array) -> Array:
    return np.where(mask, values, np.nan)
