"""From the metered trials of a run to the points of its energy fit, of its total and of each rail.

Rails of a board lie inside one another or beside one another (docs/understand/metering.md), so
their costs are read next to those of the total and never added up to it.
"""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.dataset import UNDISTURBED, Dataset
from mansard.analytics.models.energy.fit import (
    LEAST_J,
    SHORTEST_S,
    STALLED,
    EnergyFit,
    EnergyPoint,
    fit_energy,
)
from mansard.analytics.models.roofs.ceilings import STORING_KERNELS
from mansard.analytics.models.roofs.levels import in_level
from mansard.analytics.models.roofs.rates import describe
from mansard.analytics.models.roofs.roofline import Roofline

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
