"""What is known of the devices of a dataset: roofs, costs, and models of their modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import device_labels, network_names
from mansard.analytics.energy.fit import EnergyFit
from mansard.analytics.energy.points import fit_runs
from mansard.analytics.published.frames import (
    published_coefficients,
    published_modes,
    published_observations,
)
from mansard.analytics.published.rooflines import published_rooflines
from mansard.analytics.published.store import Published, published_in
from mansard.analytics.roofs.rates import TrialRate, trial_rates
from mansard.analytics.roofs.roofline import Roofline, rooflines
from mansard.analytics.scaling.board import scale
from mansard.analytics.scaling.coefficients import measured_coefficients, measured_modes
from mansard.analytics.scaling.observations import measured_observations


@dataclass(frozen=True, eq=False)
class Models:
    """Of the devices of one dataset, what was measured, published and modelled.

    ``roofs``: of each run and of each published mode; ``energies``: the fit of each run that was
    metered. ``modes``, ``coefficients`` and ``observations``: see ``data.model_frames``.
    """

    rates: tuple[TrialRate, ...]
    roofs: tuple[Roofline, ...]
    energies: dict[str, EnergyFit]
    published: Published
    modes: pl.DataFrame
    coefficients: pl.DataFrame
    observations: pl.DataFrame


def find_models(dataset: Dataset, wanted_modes: Sequence[pl.DataFrame] = ()) -> Models:
    """The models of all devices of ``dataset``; the same rows always give the same.

    ``wanted_modes`` (each MODE_SCHEMA): modes to model beside those that were measured or
    published; then what one of the latter lacks is modelled too.
    """
    rates = trial_rates(dataset)
    measured = rooflines(dataset, rates)
    energies = fit_runs(dataset, measured)
    published = published_in(dataset.places)
    manifests = dataset.manifests
    modes = pl.concat([measured_modes(manifests, measured), published_modes(published)])
    coefficients = pl.concat(
        [
            measured_coefficients(manifests, measured, energies),
            published_coefficients(published),
        ]
    )
    if wanted_modes:
        new = pl.concat(wanted_modes).join(modes, on=["device", "mode"], how="anti")
        new = new.unique(["device", "mode"], maintain_order=True)
        every = pl.concat([modes, new])
        coefficients = scale(modes, coefficients, every)
        modes = every
    return Models(
        rates=rates,
        roofs=(*measured, *published_rooflines(published)),
        energies=energies,
        published=published,
        modes=modes,
        coefficients=coefficients,
        observations=_observations(dataset, published),
    )


def _observations(dataset: Dataset, published: Published) -> pl.DataFrame:
    measured = measured_observations(
        dataset.measurements,
        dataset.manifests,
        device_labels(dataset.manifests),
        network_names(dataset),
    )
    return pl.concat([measured, published_observations(published)])
