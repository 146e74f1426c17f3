"""The energy model fitted to one mode: what a FLOP, a byte and a second cost.

E = Σ ε_p W_p + Σ ε_l Q_l + π₀ T (Choi, Bedard, Fowler, Vuduc: A roofline model of energy, IPDPS
2013; with more than one cache level, Choi et al., IPDPS 2014): W_p is the work in precision p,
Q_l the traffic from memory level l. A pure function over records: docs/understand/energy.md says
why each equation is divided by its energy, and why idle points are needed.

The points are made of the metered trials of a run, of its total and of each rail. Rails of a board
lie inside one another or beside one another (docs/understand/metering.md), so their costs are read
next to those of the total and never added up to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.frames import UNDISTURBED
from mansard.analytics.models.energy.least_squares import Array, Solution, solve_non_negative
from mansard.analytics.models.roofs.ceilings import STORING_KERNELS, in_level
from mansard.analytics.models.roofs.rates import describe
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.core.records import Record

IDLE = "idle"
# A chase of loads is all waiting, and a library's matrix product moves bytes through caches
# that are not counted; constant operands and memory of the host have costs of their own.
_FITTED = (
    pl.col("family").is_in(["fma", "stream", "tensor"])
    & (pl.col("backend") != "cublas")
    & (pl.col("operands") == "chaotic")
    & (pl.col("memory") != "zero-copy")
    # Stores of a GPU go past its L1, so these kernels do not move bytes from there alone.
    & ((pl.col("scope") != "sm") | ~pl.col("kernel").is_in(STORING_KERNELS))
)


def fit_runs(dataset: Dataset, roofs: tuple[Roofline, ...]) -> dict[str, EnergyFit]:
    """The energy fit of each run whose trials have a known total energy, by run id."""
    points = {roof.run_id: energy_points(dataset, roof) for roof in roofs}
    return {
        run_id: fit_energy(found)
        for run_id, found in points.items()
        if any(not point.is_idle for point in found)
    }


def energy_points(
    dataset: Dataset, roof: Roofline, rail: str | None = None
) -> tuple[EnergyPoint, ...]:
    """One point for each undisturbed trial, all its windows together, and each idle window.

    Energies are those of ``rail``, or of the total where none is named.
    Idle windows are those of a stalled kernel where there is one, else those with nothing
    running. A trial's traffic is that of the memory level that holds its working set; one
    between two levels is left out, and so is a window whose energy is unknown or not above 0.
    """
    totals = dataset.energy.filter(
        (pl.col("run_id") == roof.run_id)
        & pl.col("rail").eq_missing(pl.lit(rail, pl.String))
        & (pl.col("energy_j") > 0)
    )
    calm = dataset.trials.filter((pl.col("run_id") == roof.run_id) & UNDISTURBED)
    stalled = totals.join(
        calm.filter(pl.col("family") == STALLED).select("run_id", "trial_id"),
        on=["run_id", "trial_id"],
    )
    idle = stalled if len(stalled) else totals.filter(pl.col("trial_id").is_null())
    loaded = (
        totals.filter(pl.col("trial_id").is_not_null())
        .group_by("run_id", "trial_id")
        .agg(
            pl.col("energy_j").sum(),
            pl.col("error_j").sum(),  # no more than that; null adds nothing
            pl.col("window_s").sum(),
            pl.col("repetitions").cast(pl.Float64).sum(),
        )
        .join(calm.filter(_FITTED), on=["run_id", "trial_id"])
        .sort("trial_id")
    )
    name = STALLED if len(stalled) else IDLE
    points = [_idle_point(row, name) for row in idle.iter_rows(named=True)]
    points += [
        point
        for row in loaded.iter_rows(named=True)
        if (point := _loaded_point(row, roof)) is not None
    ]
    return tuple(p for p in points if p.window_s >= SHORTEST_S and p.energy_j >= LEAST_J)


def _idle_point(row: dict[str, float], name: str) -> EnergyPoint:
    return EnergyPoint(
        name=name,
        work_flop={},
        traffic_bytes={},
        window_s=row["window_s"],
        energy_j=row["energy_j"],
        error_j=row["error_j"] or 0.0,
    )


def _loaded_point(row: dict[str, float], roof: Roofline) -> EnergyPoint | None:
    size, traffic = row["working_set_bytes"], row["traffic_bytes"] * row["repetitions"]
    levels = [level for level in roof.levels if level.scope == str(row["scope"])]
    level = next((level.name for level in levels if in_level(level, size)), None)
    if level is None and traffic and str(row["family"]) != "tensor":
        return None  # its bytes come from no level in particular
    return EnergyPoint(
        name=describe(row),
        work_flop={_work_name(row): row["work_flop"] * row["repetitions"]},
        traffic_bytes={} if level is None else {level: traffic},
        window_s=row["window_s"],
        energy_j=row["energy_j"],
        error_j=row["error_j"] or 0.0,
    )


def _work_name(row: dict[str, float]) -> str:
    precision = str(row["precision"])
    return f"{precision} tensor" if str(row["family"]) == "tensor" else precision


def fit_rails(dataset: Dataset, roof: Roofline) -> dict[str, EnergyFit]:
    """The fit of every rail of one run that has energy under load, in the order of their names."""
    of_run = dataset.energy.filter((pl.col("run_id") == roof.run_id) & pl.col("rail").is_not_null())
    points = {
        rail: energy_points(dataset, roof, rail)
        for rail in of_run["rail"].unique().sort().to_list()
    }
    return {
        rail: fit_energy(found)
        for rail, found in points.items()
        if any(not point.is_idle for point in found)
    }


CONSTANT = "constant"
STALLED = "stalled"  # the name of idle points with the clocks on
WIDEST = 0.5  # a coefficient whose interval is wider than ± half of it says nothing
LEAST_SPARE = 3  # equations beyond the number of coefficients, to see the scatter
SHORTEST_S, LEAST_J = 1e-6, 1e-6  # of one point; no meter resolves less


class EnergyPoint(Record, frozen=True, kw_only=True):
    """One measurement: work and traffic by kind, and the time and energy they took.

    An idle point has neither work nor traffic.
    """

    name: str
    work_flop: dict[str, float]  # by precision
    traffic_bytes: dict[str, float]  # by memory level
    window_s: float
    energy_j: float
    error_j: float = 0.0  # at most, by counters that move in steps; 0 of a meter without

    @property
    def is_idle(self) -> bool:
        """Whether nothing was computed or moved."""
        return not any(self.work_flop.values()) and not any(self.traffic_bytes.values())


class Coefficient(Record, frozen=True, kw_only=True):
    """One coefficient with its 95 % interval, J/FLOP, J/byte or W; None if not identifiable.

    Operations of integers count as FLOP.
    """

    value: float | None
    low: float | None
    high: float | None


class EnergyFit(Record, frozen=True, kw_only=True):
    """The coefficients of one mode. ``residuals``: (model - measured) / measured, as the points."""

    flop_j: dict[str, Coefficient]  # J/FLOP, by precision
    byte_j: dict[str, Coefficient]  # J/byte, by memory level
    constant_w: Coefficient
    residuals: tuple[float, ...]
    n_points: int
    n_idle: int
    n_stalled: int  # of the idle points, those of a kernel that stalls with its clocks on
    missing: tuple[str, ...]  # what measurements would make it better, in words


def fit_energy(points: Sequence[EnergyPoint]) -> EnergyFit:
    """Non-negative least squares on the relative errors of ``points``, in any order.

    A point of less than SHORTEST_S or LEAST_J raises ValueError. A coefficient that the points
    do not determine has no value, and the reason says what is missing.
    """
    for point in points:
        if not (point.window_s >= SHORTEST_S and point.energy_j >= LEAST_J):
            raise ValueError(f"{point.name}: {point.energy_j} J in {point.window_s} s")
    ordered = sorted(points, key=_key)
    columns = _columns(ordered)
    missing = missing_points(ordered)
    n_needed = len(columns) + LEAST_SPARE
    if len(ordered) < n_needed:
        reason = f"too few points: {len(ordered)}, it takes {n_needed}"
        return _unknown(columns, points, reason, (reason, *missing))
    # Dividing by the energy weights by relative error: meters err by a share of what they read.
    energies_j = np.array([point.energy_j for point in ordered])
    rows = np.array([_row(point, columns) for point in ordered]) / energies_j[:, None]
    errors = np.array([point.error_j for point in ordered]) / energies_j
    # An error is taken to be anywhere within its bound: few residuals may be small by chance.
    least_scatter = float(np.sqrt(np.mean(errors**2) / 3))
    solution = solve_non_negative(rows, np.ones(len(ordered)), least_scatter)
    coefficients = [_coefficient(solution, at, missing) for at in range(len(columns))]
    values = np.array([_row(point, columns) for point in points]) @ solution.values
    return _fit(columns, coefficients, points, _relative(values, points), missing)


def _key(point: EnergyPoint) -> tuple[object, ...]:
    work, traffic = (sorted(kind.items()) for kind in (point.work_flop, point.traffic_bytes))
    return (point.window_s, point.energy_j, work, traffic)


Column = tuple[str, str]  # "flop", "byte" or CONSTANT, and the precision or level


def _columns(points: Sequence[EnergyPoint]) -> list[Column]:
    work = {("flop", kind) for p in points for kind, count in p.work_flop.items() if count}
    traffic = {("byte", kind) for p in points for kind, count in p.traffic_bytes.items() if count}
    return [*sorted(work), *sorted(traffic), (CONSTANT, "")]


def _row(point: EnergyPoint, columns: Sequence[Column]) -> list[float]:
    amounts = {"flop": point.work_flop, "byte": point.traffic_bytes}
    return [
        point.window_s if kind == CONSTANT else float(amounts[kind].get(name, 0.0))
        for kind, name in columns
    ]


def _relative(modelled_j: Array, points: Sequence[EnergyPoint]) -> tuple[float, ...]:
    return tuple(
        float(model_j / point.energy_j - 1)
        for model_j, point in zip(modelled_j, points, strict=True)
    )


def _coefficient(solution: Solution, at: int, missing: Sequence[str]) -> Coefficient:
    needs = f" ({'; '.join(missing)})" if missing else ""
    if solution.is_hidden[at] or solution.half is None:
        return _not_identified(f"not identifiable: other terms can take its place{needs}")
    value, half = float(solution.values[at]), float(solution.half[at])
    high = max(value, float(solution.free[at]) + half)
    if value <= 0:
        top = f"the best value is not above 0, its interval ends at {high:.3g}"
        return _not_identified(f"not identifiable: {top}{needs}")
    if half > WIDEST * value:
        wide = f"the interval is ± {100 * half / value:.0f} % of the value"
        return _not_identified(f"not identifiable: {wide}{needs}")
    low = max(0.0, min(value, float(solution.free[at]) - half))
    return Coefficient(value=value, low=low, high=high)


def _not_identified(reason: str) -> Coefficient:
    unknown = dict.fromkeys(("value", "low", "high"), reason)
    return Coefficient(value=None, low=None, high=None, unknown=unknown)


def _fit(
    columns: Sequence[Column],
    coefficients: Sequence[Coefficient],
    points: Sequence[EnergyPoint],
    residuals: tuple[float, ...],
    missing: tuple[str, ...],
) -> EnergyFit:
    found = dict(zip(columns, coefficients, strict=True))
    return EnergyFit(
        flop_j={name: value for (kind, name), value in found.items() if kind == "flop"},
        byte_j={name: value for (kind, name), value in found.items() if kind == "byte"},
        constant_w=found[CONSTANT, ""],
        residuals=residuals,
        n_points=len(points),
        n_idle=sum(point.is_idle for point in points),
        n_stalled=sum(point.is_idle and point.name == STALLED for point in points),
        missing=missing,
    )


def _unknown(
    columns: Sequence[Column],
    points: Sequence[EnergyPoint],
    reason: str,
    missing: tuple[str, ...],
) -> EnergyFit:
    return _fit(columns, [_not_identified(reason)] * len(columns), points, (), missing)


_NEAR = 0.8  # a point with this share of the best rate is bound by it
_SAME_INTENSITY = 1.5  # intensities within this factor are one


def missing_points(points: Sequence[EnergyPoint]) -> tuple[str, ...]:
    """What kinds of points are not there, in words; they would make the fit better."""
    loaded = [point for point in points if not point.is_idle]
    found = [] if len(loaded) < len(points) else ["no idle point"]
    if not loaded:
        return (*found, "no point under load")
    work = np.array([sum(point.work_flop.values()) for point in loaded])
    traffic = np.array([sum(point.traffic_bytes.values()) for point in loaded])
    if not work.any():
        found.append("no point computes")
    elif not traffic.any():
        found.append("no point moves bytes")
    else:
        with np.errstate(divide="ignore"):
            intensities = work / traffic
        if intensities.max() <= _SAME_INTENSITY * intensities.min():
            found.append("one intensity only")
    times_s = np.array([point.window_s for point in loaded])
    for kinds, unit in (
        ([point.work_flop for point in loaded], "arithmetic"),
        ([point.traffic_bytes for point in loaded], "memory"),
    ):
        if (_shares(kinds, times_s) >= _NEAR).all():
            found.append(f"all points are bound by {unit}")
    return tuple(found)


def _shares(amounts: Sequence[dict[str, float]], times_s: Array) -> Array:
    """How near each point comes to the best rate of its kinds; they share its time."""
    shares = np.zeros(len(times_s))
    for name in sorted({name for kinds in amounts for name in kinds}):
        rates = np.array([kinds.get(name, 0.0) for kinds in amounts]) / times_s
        if rates.any():
            shares += rates / rates.max()
    return shares
