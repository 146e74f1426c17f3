"""The coefficients of many modes as columns of numbers, unknown ones as NaN with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.models.predict.groups import CUDA, TENSOR
from mansard.analytics.models.roofs.levels import DRAM

Array = NDArray[np.float64]
Places = NDArray[np.int64]
Key = tuple[str, str, str]  # quantity, subject and unit of a coefficient

BANDWIDTH: Key = ("bandwidth", DRAM, "")
LAUNCH: Key = ("launch", "", "")
BYTE_ENERGY: Key = ("byte_energy", DRAM, "")
CONSTANT_POWER: Key = ("constant_power", "", "")
_RATES = ("peak", "bandwidth")
# Of any coefficient, SI; times any count of 63 bits it is still a number.
_LEAST, _MOST = 1e-30, 1e30


@dataclass(frozen=True, eq=False)
class CoefficientColumn:
    """One coefficient in every mode, SI; NaN where it, or its interval, is not known."""

    value: Array
    low: Array
    high: Array
    is_given: NDArray[np.bool_]  # whether the mode has such a coefficient, known or not
    is_extrapolated: NDArray[np.bool_]
    reasons: pl.Series  # one for each mode: why there is no value; null where nothing is said

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Where there is a value."""
        return ~np.isnan(self.value)


@dataclass(frozen=True, eq=False)
class CoefficientTable:
    """``columns`` over the rows of ``modes``: device, mode and power_limit_w, each mode once."""

    modes: pl.DataFrame
    columns: Mapping[Key, CoefficientColumn]
    limit_w: Array  # NaN where a mode has none that is known
    _whys: dict[Key, pl.Series] = field(default_factory=dict, init=False)

    @property
    def n_modes(self) -> int:
        """How many modes there are."""
        return len(self.limit_w)

    def whys(self, key: Key) -> pl.Series:
        """Why a coefficient has no value, for each mode; null where it has one."""
        if key not in self._whys:
            self._whys[key] = self._why(key)
        return self._whys[key]

    def _why(self, key: Key) -> pl.Series:
        column, name = self.columns.get(key), describe(key)
        bare = f"no {name} is known in this mode"
        if column is None:
            return repeated(pl.Series([bare]), self.n_modes)
        frame = pl.DataFrame({"known": column.is_known, "reason": column.reasons})
        return frame.select(
            pl.when("known")
            .then(None)
            .when(pl.col("reason").is_not_null())
            .then(pl.concat_str(pl.lit(f"no {name}: "), "reason"))
            .otherwise(pl.lit(bare))
        ).to_series()


def coefficient_table(coefficients: pl.DataFrame, modes: pl.DataFrame) -> CoefficientTable:
    """COEFFICIENT_SCHEMA over MODE_SCHEMA; of modes or coefficients that are there twice the first.

    A value that cannot be (a rate of 0, a negative cost, NaN, beyond 1e±30) is unknown, and so is
    an interval that does not hold its value.
    """
    once = (
        modes.select("device", "mode", "power_limit_w")
        .unique(["device", "mode"], keep="first", maintain_order=True)
        .with_row_index("at")
    )
    found = coefficients.join(
        once.select("device", "mode", "at"), on=["device", "mode"], how="inner"
    )
    parts = found.partition_by("quantity", "subject", "unit", as_dict=True, maintain_order=True)
    columns = {
        (str(quantity), str(subject), str(unit)): _column(str(quantity), part, len(once))
        for (quantity, subject, unit), part in parts.items()
    }
    limit_w = _numbers(once["power_limit_w"])
    return CoefficientTable(once.drop("at"), columns, np.where(limit_w > 0, limit_w, np.nan))


def _column(quantity: str, part: pl.DataFrame, n_modes: int) -> CoefficientColumn:
    if part["at"].n_unique() < len(part):
        part = part.unique("at", keep="first", maintain_order=True)
    at = part["at"].to_numpy()
    given, low, high = (_numbers(part[name]) for name in ("value", "low", "high"))
    fits = (given >= _LEAST) & (given <= _MOST)
    if quantity == LAUNCH[0]:  # starting a kernel may cost nothing
        fits |= given == 0
    value = np.where(fits, given, np.nan)
    holds = (low <= value) & (value <= high) & (high <= _MOST)
    holds &= low >= (_LEAST if quantity in _RATES else 0.0)
    impossible = part["value"].is_not_null() & pl.Series(~fits)
    said = (
        part.select(
            pl.when(impossible)
            .then(pl.format("a value of {} cannot be", "value"))
            .otherwise("reason")
        )
        .to_series()
        .cast(pl.String)
    )
    return CoefficientColumn(
        value=_spread(value, at, n_modes),
        low=_spread(np.where(holds, low, np.nan), at, n_modes),
        high=_spread(np.where(holds, high, np.nan), at, n_modes),
        is_given=_spread(np.ones(len(part)), at, n_modes) == 1,
        is_extrapolated=_spread(part["is_extrapolated"].fill_null(value=False), at, n_modes) == 1,
        reasons=_reasons(said, at, n_modes),
    )


def repeated(one: pl.Series, n: int) -> pl.Series:
    """The only value of ``one``, ``n`` times."""
    found: pl.Series = one.new_from_index(0, n)
    return found


def _numbers(series: pl.Series) -> Array:
    return np.asarray(series.cast(pl.Float64).fill_null(np.nan))


def _spread(part: Array | pl.Series, at: NDArray[np.uint32], n_modes: int) -> Array:
    whole = np.full(n_modes, np.nan)
    whole[at] = part
    return whole


def _reasons(said: pl.Series, at: NDArray[np.uint32], n_modes: int) -> pl.Series:
    if said.null_count() == len(said):
        return repeated(pl.Series([None], dtype=pl.String), n_modes)
    places = np.full(n_modes, len(said))
    places[at] = np.arange(len(said))
    return pl.concat([said, pl.Series([None], dtype=pl.String)]).gather(places)


def describe(key: Key) -> str:
    """What is missing without the coefficient: "fp16 peak on tensor cores"."""
    quantity, subject, unit = key
    where = f" on {unit}s" if unit == TENSOR else ""
    return {
        "peak": f"{subject} peak{where}",
        "bandwidth": f"{subject} bandwidth",
        "flop_energy": f"energy of {subject} work{where}",
        "byte_energy": f"energy of {subject} traffic",
    }.get(quantity, quantity.replace("_", " "))


def why_unknown(table: CoefficientTable, keys: Sequence[Key], at: Places) -> pl.Series:
    """Why ``keys``, at least one, have no value in the modes at ``at``; null where all have one."""
    frame = pl.DataFrame({str(place): table.whys(key).gather(at) for place, key in enumerate(keys)})
    joined = pl.concat_str(pl.all(), separator="; ", ignore_nulls=True)
    return frame.select(pl.when(joined != "").then(joined)).to_series()


def peak_key(unit: str, precision: str) -> Key:
    """The key of a peak."""
    return ("peak", precision, unit)


def energy_key(peak: Key) -> Key:
    """The key of what work costs that runs at ``peak``."""
    return ("flop_energy", peak[1], peak[2])


def cuda_peak(precision: str) -> Key:
    """The key of a peak on CUDA cores, or of a CPU."""
    return peak_key(CUDA, precision)
