"""All that is computed from a dataset, once, for the report, the summary and the decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.model_frames import NETWORK
from mansard.analytics.data.names import network_names
from mansard.analytics.decide.recommend import recommend_each
from mansard.analytics.decide.records import Recommendation, Wanted
from mansard.analytics.energy.fit import EnergyFit
from mansard.analytics.energy.rails import fit_rails
from mansard.analytics.predict.calibration_totals import TotalsCalibration, calibrate_totals
from mansard.analytics.predict.models import find_models
from mansard.analytics.predict.prediction import Prediction, predict
from mansard.analytics.predict.run_networks import groups_of_runs, networks_of_runs
from mansard.analytics.published.store import Published
from mansard.analytics.roofs.rates import TrialRate
from mansard.analytics.roofs.roofline import Roofline


@dataclass(frozen=True, eq=False)
class Results:
    """Rates, roofs, models and predictions of one dataset.

    ``of_runs``, ``groups`` and ``networks``: under the roofs of each run, see
    ``predict.run_networks``;
    ``energies`` and ``rail_energies``: the energy fits of each run that was metered, of its total
    and of each rail. The frames of ``data.model_frames`` hold what was measured, published and
    modelled: ``modes``, ``coefficients``, ``predictions`` and ``observations``.
    """

    dataset: Dataset
    rates: tuple[TrialRate, ...]
    roofs: tuple[Roofline, ...]
    of_runs: Prediction
    networks: pl.DataFrame
    names: dict[str, str]
    energies: dict[str, EnergyFit]
    rail_energies: dict[str, dict[str, EnergyFit]]
    published: Published
    modes: pl.DataFrame
    coefficients: pl.DataFrame
    predictions: pl.DataFrame
    observations: pl.DataFrame
    calibration: TotalsCalibration | None  # by the observations; nothing here is calibrated by it
    recommendations: tuple[Recommendation, ...]

    @cached_property
    def groups(self) -> pl.DataFrame:
        """Group by group under ``roofs``; made when asked for, for a page draws few of many."""
        return groups_of_runs(self.of_runs)

    def labels(self) -> dict[str, str]:
        """The label of each run."""
        return {roof.run_id: roof.label for roof in self.roofs}


def compute(dataset: Dataset, wanted_modes: Sequence[pl.DataFrame] = ()) -> Results:
    """Everything, from raw rows; the same rows always give the same results.

    ``wanted_modes`` (each MODE_SCHEMA): modes to predict beside those that were measured or
    published.
    """
    models = find_models(dataset)
    modes = _with_wanted(models.modes, wanted_modes)
    found = predict(models, modes=modes, fill_gaps=bool(wanted_modes))
    of_runs = predict(models, each_run=True)
    return Results(
        dataset=dataset,
        rates=models.rates,
        roofs=models.roofs,
        of_runs=of_runs,
        networks=networks_of_runs(of_runs),
        names=network_names(dataset),
        energies=models.energies,
        rail_energies={
            roof.run_id: fit_rails(dataset, roof)
            for roof in models.roofs
            if roof.run_id in models.energies
        },
        published=models.published,
        modes=modes,
        coefficients=found.coefficients,
        predictions=found.predictions,
        observations=models.observations,
        calibration=_calibration(found.predictions, models.observations),
        recommendations=_recommendations(found.predictions, modes),
    )


def _with_wanted(modes: pl.DataFrame, wanted_modes: Sequence[pl.DataFrame]) -> pl.DataFrame:
    if not wanted_modes:
        return modes
    new = pl.concat(wanted_modes).join(modes, on=["device", "mode"], how="anti")
    return pl.concat([modes, new.unique(["device", "mode"], maintain_order=True)])


def _calibration(predictions: pl.DataFrame, observations: pl.DataFrame) -> TotalsCalibration | None:
    """How far measured networks are from their predictions; None where no pair is known."""
    timed = observations.filter(pl.col("latency_s") > 0)
    # A prediction that was fitted to the very measurements would tell nothing about the model.
    predictions = predictions.filter(~pl.col("is_calibrated"))
    pairs = predictions.filter(pl.col("latency_s") > 0).join(
        timed, on=["mode", *NETWORK], how="semi", nulls_equal=True
    )
    return None if pairs.is_empty() else calibrate_totals(predictions, timed)


def _recommendations(predictions: pl.DataFrame, modes: pl.DataFrame) -> tuple[Recommendation, ...]:
    """The mode of least energy for each network on each device, or of least time.

    Energy decides where it is known in several modes, or in the only one there is: else the mode
    that happens to have one would be called the best.
    """
    found: list[Recommendation] = []
    for rows in predictions.partition_by("device", maintain_order=True):
        with_energy = rows.filter(pl.col("energy_j").is_not_null())["mode"].n_unique()
        decides = with_energy >= min(2, rows["mode"].n_unique())
        wanted = Wanted(minimise="energy" if decides else "latency")
        found += recommend_each(rows, modes, wanted)
    return tuple(found)
