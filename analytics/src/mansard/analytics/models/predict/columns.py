"""The coefficients of many modes and the groups of many scores as columns of numbers.

Unknown coefficients are NaN with a reason. Beside the groups of a score stand the ceilings that
their work runs under.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.models.predict.groups import COMPUTED_IN, CUDA, TENSOR
from mansard.analytics.models.roofs.ceilings import DRAM

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
    """Rows of COEFFICIENT_SCHEMA by mode of MODE_SCHEMA; the first of duplicates counts.

    A value that cannot be (a rate of 0, a negative cost, NaN, beyond 1e±30) is unknown, and so is
    an interval that does not hold its value.
    """
    once = (
        modes.select("device", "mode", "power_limit_w")
        .unique(["device", "mode"], keep="first", maintain_order=True)
        .with_row_index("at")
    )
    joined = coefficients.join(
        once.select("device", "mode", "at"), on=["device", "mode"], how="inner"
    )
    parts = joined.partition_by("quantity", "subject", "unit", as_dict=True, maintain_order=True)
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
    constant: pl.Series = one.new_from_index(0, n)
    return constant


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


Codes = NDArray[np.int64]
_COUNTS = ("tensor_flop", "cuda_flop", "traffic_bytes")
_MOST_COUNT = 1e30  # of any count; times a coefficient it is still a number
NONE = -1  # the code of no precision
# A GPU whose tensor cores multiply these computes them on CUDA cores at least as fast as fp32
# (CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions").
NO_SLOWER_THAN_FP32 = ("fp16", "bf16")


@dataclass(frozen=True, eq=False)
class WorkTable:
    """Groups of all scores, those of one score together; NaN is unknown. FLOP, bytes.

    ``tensor`` and ``cuda`` are the precisions of the work as places in ``precisions``, NONE where
    there is no such work. ``factor`` is what a calibration multiplies a group's time with.
    """

    spans: Mapping[str, slice]  # of each score
    precisions: tuple[str, ...]
    tensor: Codes
    tensor_flop: Array
    cuda: Codes
    cuda_flop: Array
    traffic_bytes: Array
    n_launches: Array
    factor: Array
    reasons: pl.Series  # why work or traffic is unknown; null where it is known

    def of(self, score: str) -> WorkTable:
        """The groups of one score; none where it has none."""
        span = self.spans.get(score, slice(0, 0))
        return WorkTable(
            {score: slice(0, span.stop - span.start)},
            self.precisions,
            self.tensor[span],
            self.tensor_flop[span],
            self.cuda[span],
            self.cuda_flop[span],
            self.traffic_bytes[span],
            self.n_launches[span],
            self.factor[span],
            self.reasons[span],
        )

    def reason(self) -> str | None:
        """Why the work or traffic of a group is unknown, in one line; None where all is known."""
        reasons = self.reasons.drop_nulls().unique().sort().to_list()
        lost = np.isnan(self.tensor_flop + self.cuda_flop + self.traffic_bytes).any()
        return "; ".join(reasons) or ("the work or traffic of a group is unknown" if lost else None)


def busy_groups(groups: pl.DataFrame) -> pl.DataFrame:
    """The rows of a WorkTable of ``groups``: those that work, move or start something, in order."""
    idle = pl.all_horizontal(pl.col(*_COUNTS, "n_launches") == 0)
    return groups.filter(~idle.fill_null(value=False)).sort("score_id", "group")


def work_table(groups: pl.DataFrame, efficiency: Mapping[str, float] | None = None) -> WorkTable:
    """GROUP_SCHEMA as columns; groups that neither work nor move nor start anything are left out.

    ``efficiency``: what the time of a group of each op_class is multiplied with; 1 for a class
    that is not in it, and a factor that is not above 0 raises ValueError. Work or traffic that
    cannot be (negative, NaN) is unknown.
    """
    factors = efficiency or {}
    for name, factor in factors.items():
        if not 0 < factor < _MOST_COUNT:
            raise ValueError(f"the time of {name} cannot be multiplied with {factor}")
    busy = busy_groups(groups).with_columns(
        pl.when(pl.col(*_COUNTS).is_between(0.0, _MOST_COUNT)).then(pl.col(*_COUNTS))
    )
    names = pl.concat([busy["tensor_precision"], busy["cuda_precision"]]).drop_nulls()
    precisions = tuple(names.unique().sort().to_list())
    codes = {name: code for code, name in enumerate(precisions)}
    # Work in no precision has no peak that could be looked for.
    busy = busy.with_columns(
        pl.when(pl.col(f"{kind}_precision").is_not_null() | (pl.col(f"{kind}_flop") == 0)).then(
            f"{kind}_flop"
        )
        for kind in ("tensor", "cuda")
    )
    lengths = busy.group_by("score_id", maintain_order=True).len()
    ends = lengths["len"].cum_sum()
    spans = {
        score: slice(end - length, end)
        for score, length, end in zip(lengths["score_id"], lengths["len"], ends, strict=True)
    }
    tensor_flop, cuda_flop, traffic = (
        busy[name].fill_null(np.nan).to_numpy().astype(np.float64) for name in _COUNTS
    )
    return WorkTable(
        spans=spans,
        precisions=precisions,
        tensor=_codes(busy["tensor_precision"], codes, tensor_flop),
        tensor_flop=tensor_flop,
        cuda=_codes(busy["cuda_precision"], codes, cuda_flop),
        cuda_flop=cuda_flop,
        traffic_bytes=traffic,
        n_launches=busy["n_launches"].fill_null(1).to_numpy().astype(np.float64),
        factor=_factors(busy["op_class"], factors),
        reasons=busy["reason"],
    )


def _codes(names: pl.Series, codes: Mapping[str, int], flop: Array) -> Codes:
    numbers = names.replace_strict(codes, default=NONE, return_dtype=pl.Int64)
    return np.where(flop > 0, numbers.fill_null(NONE).to_numpy(), NONE)  # no work needs no peak


def _factors(classes: pl.Series, factors: Mapping[str, float]) -> Array:
    values = classes.replace_strict(dict(factors), default=1.0, return_dtype=pl.Float64)
    return np.asarray(values.fill_null(1.0))


@dataclass(frozen=True, eq=False)
class CeilingAssignment:
    """Under which ceilings the work of each precision runs where certain peaks are known.

    ``keys``: the ceilings; ``tensor`` and ``cuda`` are places in it, for each precision of a
    WorkTable and then NONE for NONE. A ceiling that is not known is in it too: it is what is
    missing.
    """

    keys: tuple[Key, ...]
    tensor: Codes
    cuda: Codes


def assign_ceilings(precisions: tuple[str, ...], given: frozenset[Key]) -> CeilingAssignment:
    """Which of the peaks that modes have, ``given``, the work of each of ``precisions`` runs under.

    Work for tensor cores runs on CUDA cores where a mode has no such peak on tensor cores (tf32
    as fp32); one that it has but that is not known is missed. Work in fp16 or bf16 on CUDA cores
    runs at the fp32 peak where it has none of its own but one on tensor cores.
    """
    tensor = [_tensor_key(name, given) for name in precisions]
    cuda = [_cuda_key(name, given) for name in precisions]
    keys = tuple(dict.fromkeys((*tensor, *cuda)))
    places = {key: at for at, key in enumerate(keys)}
    return CeilingAssignment(
        keys,
        np.array([*(places[key] for key in tensor), NONE]),
        np.array([*(places[key] for key in cuda), NONE]),
    )


def _tensor_key(precision: str, given: frozenset[Key]) -> Key:
    exact = peak_key(TENSOR, precision)
    return exact if exact in given else cuda_peak("fp32" if precision == "tf32" else precision)


def _cuda_key(precision: str, given: frozenset[Key]) -> Key:
    exact = cuda_peak(COMPUTED_IN.get(precision, precision))
    if exact in given or precision not in NO_SLOWER_THAN_FP32:
        return exact
    return cuda_peak("fp32") if peak_key(TENSOR, precision) in given else exact
