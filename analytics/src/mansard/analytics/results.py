"""All that is computed from a dataset, once, for the report and the summary alike."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import network_names
from mansard.analytics.energy.fit import EnergyFit
from mansard.analytics.energy.points import fit_runs
from mansard.analytics.predict.layers import predict_layers, predict_networks
from mansard.analytics.roofs.rates import TrialRate, trial_rates
from mansard.analytics.roofs.roofline import Roofline, rooflines


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
