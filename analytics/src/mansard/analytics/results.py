"""All that is computed from a dataset, once, for the report and the summary alike."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from mansard.analytics.dataset import Dataset
from mansard.analytics.energy_fit import EnergyFit
from mansard.analytics.energy_points import fit_runs
from mansard.analytics.names import network_names
from mansard.analytics.predict import predict_layers, predict_networks
from mansard.analytics.rates import TrialRate, trial_rates
from mansard.analytics.roofline import Roofline, rooflines


@dataclass(frozen=True, eq=False)
class Results:
    """Rates, roofs and predictions of one dataset; see ``predict`` for the columns.

    ``energies``: the energy fit of each run that was metered.
    """

    dataset: Dataset
    rates: tuple[TrialRate, ...]
    roofs: tuple[Roofline, ...]
    layers: pl.DataFrame
    networks: pl.DataFrame
    names: dict[str, str]
    energies: dict[str, EnergyFit]

    def labels(self) -> dict[str, str]:
        """The label of each run."""
        return {roof.run_id: roof.label for roof in self.roofs}


def compute(dataset: Dataset) -> Results:
    """Everything, from raw rows; the same rows always give the same results."""
    rates = trial_rates(dataset)
    roofs = rooflines(dataset, rates)
    layers = predict_layers(dataset.layers.lazy(), roofs).collect()
    networks = predict_networks(layers.lazy()).collect()
    energies = fit_runs(dataset, roofs)
    return Results(dataset, rates, roofs, layers, networks, network_names(dataset), energies)
