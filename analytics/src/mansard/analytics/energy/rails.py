"""The energy model of each rail by itself: which of them pays for work, traffic and time.

Rails of a board lie inside one another or beside one another (docs/metering.md), so their costs are
read next to those of the total and never added up to it.
"""

from __future__ import annotations

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.energy.fit import EnergyFit, fit_energy
from mansard.analytics.energy.points import energy_points
from mansard.analytics.roofs.roofline import Roofline


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
