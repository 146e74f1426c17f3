"""From the metered trials of a run to the points of its energy fit."""

from __future__ import annotations

import polars as pl

from mansard.analytics.dataset import UNDISTURBED, Dataset
from mansard.analytics.energy_fit import LEAST_J, SHORTEST_S, EnergyFit, EnergyPoint, fit_energy
from mansard.analytics.levels import in_level
from mansard.analytics.rates import describe
from mansard.analytics.roofline import Roofline

IDLE = "idle"


def fit_runs(dataset: Dataset, roofs: tuple[Roofline, ...]) -> dict[str, EnergyFit]:
    """The energy fit of each run whose trials have a known total energy, by run id."""
    points = {roof.run_id: energy_points(dataset, roof) for roof in roofs}
    return {
        run_id: fit_energy(found)
        for run_id, found in points.items()
        if any(not point.is_idle for point in found)
    }


def energy_points(dataset: Dataset, roof: Roofline) -> tuple[EnergyPoint, ...]:
    """One point for each undisturbed trial, all its windows together, and each idle window.

    A trial's traffic is that of the memory level that holds its working set; one between two
    levels is left out, and so is a window without a total.
    """
    totals = dataset.energy.filter(
        (pl.col("run_id") == roof.run_id) & pl.col("rail").is_null() & (pl.col("energy_j") > 0)
    )
    idle = totals.filter(pl.col("trial_id").is_null())
    loaded = (
        totals.filter(pl.col("trial_id").is_not_null())
        .group_by("run_id", "trial_id")
        .agg(
            pl.col("energy_j").sum(),
            pl.col("window_s").sum(),
            pl.col("repetitions").cast(pl.Float64).sum(),
        )
        .join(dataset.trials, on=["run_id", "trial_id"])
        .filter(UNDISTURBED)
        .sort("trial_id")
    )
    points = [_idle_point(row) for row in idle.iter_rows(named=True)]
    points += [
        point
        for row in loaded.iter_rows(named=True)
        if (point := _loaded_point(row, roof)) is not None
    ]
    return tuple(p for p in points if p.window_s >= SHORTEST_S and p.energy_j >= LEAST_J)


def _idle_point(row: dict[str, float]) -> EnergyPoint:
    return EnergyPoint(
        name=IDLE,
        work_flop={},
        traffic_bytes={},
        window_s=row["window_s"],
        energy_j=row["energy_j"],
    )


def _loaded_point(row: dict[str, float], roof: Roofline) -> EnergyPoint | None:
    size = row["working_set_bytes"]
    level = next((level.name for level in roof.levels if in_level(level, size)), None)
    if level is None:
        return None
    return EnergyPoint(
        name=describe(row),
        work_flop={str(row["precision"]): row["work_flop"] * row["repetitions"]},
        traffic_bytes={level: row["traffic_bytes"] * row["repetitions"]},
        window_s=row["window_s"],
        energy_j=row["energy_j"],
    )
