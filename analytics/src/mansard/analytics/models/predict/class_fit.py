"""Classes of operators, fitted to layers timed one by one: docs/understand/calibration.md.

T of a layer = Σ over its rows of factor(class, precision) · time at the roof + launches · λ(mode)

The sum of |modelled - measured| over all layers, each divided by the measured time of its whole
network, is made as small as possible under factors ≥ 0. So every network counts the same, and in
it a layer counts by its share of the time. The median of errors is not moved by a few layers
whose clock fell while they were timed; their mean square is. So absolute errors are added up, by
least squares over and over, each equation divided by the square root of its error before
(iteratively reweighted least squares: P. Bloomfield and W. L. Steiger, Least Absolute Deviations,
1983, chapter 6).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.statistics import student_quantile
from mansard.analytics.models.energy.least_squares import solve_active_set
from mansard.core.records import Record

Array = NDArray[np.float64]

# What networks that were timed layer by layer took in a mode, on one device. A layer of an engine
# is one group of nodes or several, and a group is two rows: its work and its traffic
# (``groups.halves``).
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
LEAST_LAYERS = 8  # of a mode, to say anything about it
# Of a class: a factor of a few recurrent layers is far nearer than that of all classes together.
_LEAST_OF_KIND = 2
# Traffic may overlap with work or stay in a cache, so a factor may be almost 0, but not negative.
_LEAST_FACTOR = 1e-3
_LEAST_NETWORKS = 3  # to tell how much they differ
_N_ROUNDS = 30
_SETTLED = 1e-4  # relative change of the answer from which on it stays as it is
_SMALLEST = 1e-5  # errors below it, as a share of ``scale``, count alike: none divides by 0
_TOTAL = ("network", "batch", "precision", "mode")
_LAYER = (*_TOTAL, "layer")


class ClassFactor(Record, frozen=True, kw_only=True):
    """How many times their time at the roof the rows of a class take, without their launches.

    ``value`` is None where too few were timed: the overall factor holds for them. 95 %.
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
    """Factors alone: by op_class and precision, and of all else; the cost of a launch by mode."""

    by_kind: Mapping[tuple[str, str], float]
    overall: float
    launches_s: Mapping[str, float]

    def factor(self, op_class: str, precision: str) -> float:
        """The factor of a class in a precision.

        A precision without timed layers takes the factors of the first one that was timed; a class
        without a factor takes the overall one.
        """
        known = dict.fromkeys(each for _, each in self.by_kind)
        alike = precision if precision in known else next(iter(known), precision)
        return self.by_kind.get((op_class, alike), self.overall)

    @property
    def launch_s(self) -> float:
        """Geometric mean over the modes in which a launch costs more than 0; 0 if there is none."""
        costs_s = [cost_s for cost_s in self.launches_s.values() if cost_s > 0]
        return float(np.exp(np.log(costs_s).mean())) if costs_s else 0.0


@dataclass(frozen=True, eq=False)
class ClassFit:
    """The factors of all networks, and without each of them; ``records``: with their intervals.

    ``n_left_out``: rows without a time at the roof or a measured one, or in modes with few layers.
    """

    records: tuple[ClassFactor, ...]
    networks: tuple[str, ...]
    all_networks: ClassFactors
    without: Mapping[str, ClassFactors]  # empty where one network was timed
    n_groups: int
    n_left_out: int


def fit_classes(timed: pl.DataFrame) -> ClassFit | None:
    """Factors and costs of launches from ``timed``: TIMED_SCHEMA of one device, phase and engine.

    None where no mode has LEAST_LAYERS layers with both times.
    """
    kept = _usable(timed)
    if kept.is_empty():
        return None
    table = _timed_table(kept)
    answer = _solve(table)
    networks = sorted(set(table.network.tolist()))
    without: list[_Answer] = []
    if len(networks) > 1:
        without = [_solve(table.only(table.network != name)) for name in networks]
    return ClassFit(
        records=tuple(_records(kept, table, answer, without)),
        networks=tuple(networks),
        all_networks=_class_factors(table, answer),
        without={
            name: _class_factors(table, each) for name, each in zip(networks, without, strict=False)
        },
        n_groups=len(kept),
        n_left_out=len(timed) - len(kept),
    )


def _usable(timed: pl.DataFrame) -> pl.DataFrame:
    roof, measured = pl.col("roof_s"), pl.col("measured_s")
    is_good = pl.all_horizontal(
        roof.is_finite() & (roof >= 0),
        measured.is_finite() & (measured > 0),
        pl.col("n_launches") >= 0,
        pl.all_horizontal(pl.col("op_class", *_LAYER).is_not_null()),
    ).fill_null(value=False)
    return timed.filter(is_good.all().over(_LAYER)).filter(
        pl.struct(_LAYER).n_unique().over("mode") >= LEAST_LAYERS
    )


@dataclass(frozen=True, eq=False)
class _TimedTable:
    """One place for each layer; ``kinds``: op_class and precision of those with enough rows."""

    roofs: Array  # layers × (kinds, and at last all others): seconds
    launches: Array  # layers × modes: how many
    measured_s: Array
    total_s: Array  # measured time of all layers of the network, batch, precision and mode
    network: NDArray[np.object_]
    kinds: tuple[tuple[str, str], ...]
    modes: tuple[str, ...]

    def only(self, kept: NDArray[np.bool_]) -> _TimedTable:
        """The layers that are kept, with the same kinds and modes."""
        return replace(
            self,
            roofs=self.roofs[kept],
            launches=self.launches[kept],
            measured_s=self.measured_s[kept],
            total_s=self.total_s[kept],
            network=self.network[kept],
        )


def _timed_table(kept: pl.DataFrame) -> _TimedTable:
    counted = kept.filter(pl.col("roof_s") > 0).group_by("op_class", "precision").len()
    kinds = tuple(
        (str(name), str(precision))
        for name, precision, count in counted.sort("op_class", "precision").iter_rows()
        if count >= _LEAST_OF_KIND
    )
    places = {kind: at for at, kind in enumerate(kinds)}
    rows = kept.with_columns(at=pl.struct(_LAYER).rank("dense") - 1)
    layers = rows.unique("at", keep="first").sort("at")
    at = rows["at"].to_numpy().astype(np.int64)
    own = rows.select("op_class", "precision").iter_rows()
    kind = np.array([places.get(kind, len(kinds)) for kind in own], dtype=np.int64)
    roofs = np.zeros((len(layers), len(kinds) + 1))
    np.add.at(roofs, (at, kind), rows["roof_s"].to_numpy())
    modes = tuple(kept["mode"].unique().sort().to_list())
    launches = np.zeros((len(layers), len(modes)))
    mode = np.searchsorted(modes, rows["mode"].to_list())
    np.add.at(launches, (at, mode), rows["n_launches"].to_numpy())
    return _TimedTable(
        roofs=roofs,
        launches=launches,
        measured_s=layers["measured_s"].to_numpy(),
        total_s=layers.select(pl.col("measured_s").sum().over(_TOTAL)).to_series().to_numpy(),
        network=layers["network"].to_numpy(),
        kinds=kinds,
        modes=modes,
    )


@dataclass(frozen=True, eq=False)
class _Answer:
    """NaN where no layer determines it."""

    overall: float  # the factor of all kinds together
    factors: Array  # one for each kind of the table
    launches: Array  # one for each mode, s


def _solve(table: _TimedTable) -> _Answer:
    """The least sum of errors, each a share of its total.

    Rows of kinds that are too few take the overall factor, which is solved for first.
    """
    # The solver bounds its unknowns by 0: it solves for the factor less _LEAST_FACTOR.
    roof_s, others_s = table.roofs.sum(axis=1), table.roofs[:, -1]
    above = table.measured_s - _LEAST_FACTOR * roof_s
    rows = np.column_stack([roof_s, table.launches])
    on_top = float(least_absolute(rows, above, table.total_s)[0])
    rows = np.column_stack([table.roofs[:, :-1], table.launches])
    found = least_absolute(rows, above - on_top * others_s, table.total_s)
    found = np.where(rows.any(axis=0), found, np.nan)
    n_kinds = len(table.kinds)
    return _Answer(_LEAST_FACTOR + on_top, _LEAST_FACTOR + found[:n_kinds], found[n_kinds:])


def least_absolute(rows: Array, wanted: Array, scale: Array) -> Array:
    """The x ≥ 0 with the least sum of |rows @ x - wanted| / scale.

    ``rows``: equations × columns, finite; ``scale`` is above 0. A column of zeros gets 0.
    """
    both = np.column_stack([rows, wanted])
    weight = scale
    found = np.zeros(rows.shape[1])
    for _ in range(_N_ROUNDS):
        before = found
        found = _least_squares(both / weight[:, None])
        if np.abs(found - before).max(initial=0.0) <= _SETTLED * np.abs(found).max(initial=0.0):
            break
        error = np.abs(rows @ found - wanted) / scale
        weight = scale * np.sqrt(np.maximum(error, _SMALLEST))
    return found


def _least_squares(both: Array) -> Array:
    """As ``solve_active_set``, of a system reduced to as many rows as columns; the last column of
    ``both`` is the right-hand side.

    If the products of the columns are V Λ Vᵀ, Λ^½ Vᵀ has the same products, and so the same
    solution. Columns are first scaled to length 1, because forming the products loses half of the
    digits.
    """
    products = both.T @ both
    length = np.sqrt(np.diag(products))
    unit = np.where(length > 0, length, 1.0)
    values, vectors = np.linalg.eigh(products / np.outer(unit, unit))
    few = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T * length
    return solve_active_set(few[:, :-1], few[:, -1])


def jackknife_half(without: Array) -> Array | None:
    """Half widths of 95 % intervals from the answers with one network left out at a time.

    ``without``: networks × columns; NaN where a column was only in the network left out: its
    half width is NaN. None with fewer than three networks. (Quenouille and Tukey's standard error,
    B. Efron, The jackknife, the bootstrap and other resampling plans, 1982, chapter 3.)
    """
    n_networks = len(without)
    if n_networks < _LEAST_NETWORKS:
        return None
    spread = ((without - without.mean(axis=0)) ** 2).sum(axis=0)
    error = np.sqrt(spread * (n_networks - 1) / n_networks)
    return np.asarray(student_quantile(n_networks - 1) * error, dtype=np.float64)


def _class_factors(table: _TimedTable, answer: _Answer) -> ClassFactors:
    factors = zip(table.kinds, answer.factors.tolist(), strict=True)
    launches = zip(table.modes, answer.launches.tolist(), strict=True)
    return ClassFactors(
        {kind: factor for kind, factor in factors if not np.isnan(factor)},
        answer.overall,
        {mode: cost_s for mode, cost_s in launches if not np.isnan(cost_s)},
    )


def _records(
    kept: pl.DataFrame, table: _TimedTable, answer: _Answer, without: Sequence[_Answer]
) -> Iterator[ClassFactor]:
    half = jackknife_half(np.array([other.factors for other in without]))
    places = {kind: at for at, kind in enumerate(table.kinds)}
    counted = (
        kept.filter(pl.col("roof_s") > 0)
        .group_by("op_class", "precision")
        .agg(pl.len(), pl.col("network").n_unique())
    )
    for name, precision, n_groups, n_networks in counted.sort("op_class", "precision").iter_rows():
        at = places.get((name, precision))
        value = None if at is None else float(answer.factors[at])
        low = high = None
        few = f"fewer than {_LEAST_OF_KIND} groups: the overall factor holds"
        unknown = dict.fromkeys(("value", "low", "high"), few)
        if value is not None:
            own = None if half is None else float(half[at])
            why = _why_no_interval(value, own)
            unknown = dict.fromkeys(("low", "high"), why) if why else {}
            if own is not None and not why:
                low, high = max(_LEAST_FACTOR, value - own), value + own
        yield ClassFactor(
            op_class=name,
            precision=precision,
            value=value,
            low=low,
            high=high,
            n_groups=n_groups,
            n_networks=n_networks,
            unknown=unknown,
        )


def _why_no_interval(value: float, half: float | None) -> str | None:
    if value <= _LEAST_FACTOR:
        return "the factor is at its lower bound"
    if half is None:
        return "an interval needs three networks"
    return "only one network has this class" if np.isnan(half) else None
