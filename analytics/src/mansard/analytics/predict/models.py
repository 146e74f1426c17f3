"""What is known of the devices of a dataset: roofs, costs, and models of their modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, MODE_SCHEMA
from mansard.analytics.data.names import device_labels, network_names
from mansard.analytics.energy.fit import EnergyFit
from mansard.analytics.energy.points import fit_runs
from mansard.analytics.published.rooflines import published_rooflines
from mansard.analytics.published.store import (
    Published,
    known_modes,
    published_coefficients,
    published_in,
    published_modes,
    published_observations,
)
from mansard.analytics.roofs.rates import TrialRate, trial_rates
from mansard.analytics.roofs.roofline import Roofline, rooflines
from mansard.analytics.scaling.coefficients import (
    measured_coefficients,
    measured_modes,
    measured_observations,
    roof_coefficients,
)
from mansard.core.errors import UsageError


@dataclass(frozen=True, eq=False)
class Models:
    """What was measured and published of the devices of one dataset.

    ``devices``: those that predictions are about, all or the one that was chosen; everything else
    is of all devices. ``roofs``: of each run and of each published mode; ``energies``: the fit of
    each run that was metered. ``modes``, ``coefficients`` and ``observations``: see
    ``data.model_frames``.
    """

    dataset: Dataset
    devices: tuple[str, ...]
    rates: tuple[TrialRate, ...]
    roofs: tuple[Roofline, ...]
    energies: dict[str, EnergyFit]
    published: Published
    modes: pl.DataFrame
    coefficients: pl.DataFrame
    observations: pl.DataFrame

    def of_devices(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of ``frame`` that are of ``devices``."""
        return frame.filter(pl.col("device").is_in(list(self.devices)))

    @cached_property
    def mode_notes(self) -> tuple[str, ...]:
        """Which settings of published modes of ``devices`` no table gives, and whose they are."""
        notes = known_modes(self.published).notes
        return tuple(f"{name}: {line}" for name in self.devices for line in notes.get(name, ()))

    def observed_networks(self) -> frozenset[str]:
        """Networks whose times were measured or published."""
        return frozenset(self.observations["network"].to_list())

    def mode_names(self) -> tuple[str, ...]:
        """The modes that were measured or published, each name once."""
        return tuple(dict.fromkeys(self.of_devices(self.modes)["mode"].to_list()))

    def modes_named(self, text: str) -> pl.DataFrame | None:
        """The modes (MODE_SCHEMA) that ``text`` names, with commas; None where it means others."""
        names = [part.strip() for part in text.split(",")]
        if not set(names) <= set(self.mode_names()):
            return None
        chosen = self.modes.filter(pl.col("mode").is_in(names))
        return pl.concat([chosen.filter(pl.col("device") == name) for name in self.devices])

    @cached_property
    def run_modes(self) -> pl.DataFrame:
        """MODE_SCHEMA: each roof as a mode of its own, named by its run id.

        Of one mode several runs may be there. Only the power limit of the mode is known here.
        """
        limits_w = {
            each.run_id: each.mode_read_back.power_limit_w for each in self.dataset.manifests
        }
        rows = [
            {
                "device": roof.machine,
                "mode": roof.run_id,
                "power_limit_w": limits_w.get(roof.run_id),
            }
            for roof in self.roofs
        ]
        return pl.DataFrame(rows, schema=MODE_SCHEMA)

    @cached_property
    def run_coefficients(self) -> pl.DataFrame:
        """COEFFICIENT_SCHEMA of ``run_modes``, with the published costs of a launch."""
        of_roofs = [
            roof_coefficients(
                roof, self.energies.get(roof.run_id), device=roof.machine, mode=roof.run_id
            )
            for roof in self.roofs
        ]
        published = pl.DataFrame(
            [
                {"device": roof.machine, "mode": roof.mode, "run_id": roof.run_id}
                for roof in self.roofs
                if roof.source == "published"
            ],
            schema={"device": pl.String, "mode": pl.String, "run_id": pl.String},
        )
        launches = (
            self.coefficients.filter(pl.col("quantity") == "launch")
            .join(published, on=["device", "mode"])
            .with_columns(mode="run_id")
        )
        empty = pl.DataFrame(schema=COEFFICIENT_SCHEMA)
        return pl.concat([empty, *of_roofs, launches.select(list(COEFFICIENT_SCHEMA))])


def find_models(dataset: Dataset, device: str | None = None) -> Models:
    """The models of ``dataset``; the same rows always give the same.

    ``device``: the name of a device or a part of one; None: all devices. Raises UsageError where
    there is no such device.
    """
    rates = trial_rates(dataset)
    measured = rooflines(dataset, rates)
    energies = fit_runs(dataset, measured)
    published = published_in(dataset.locations)
    manifests = dataset.manifests
    modes = pl.concat([measured_modes(manifests, measured), published_modes(published)])
    coefficients = [
        measured_coefficients(manifests, measured, energies),
        published_coefficients(published),
    ]
    observations = [
        measured_observations(
            dataset.measurements, manifests, device_labels(manifests), network_names(dataset)
        ),
        published_observations(published),
    ]
    return Models(
        dataset=dataset,
        devices=_choose_devices(list(dict.fromkeys(modes["device"].to_list())), device),
        rates=rates,
        roofs=(*measured, *published_rooflines(published)),
        energies=energies,
        published=published,
        modes=modes,
        coefficients=pl.concat(coefficients),
        observations=pl.concat(observations),
    )


def _choose_devices(names: Sequence[str], device: str | None) -> tuple[str, ...]:
    if device is None:
        return tuple(names)
    chosen = [name for name in names if name == device] or [
        name for name in names if device.casefold() in name.casefold()
    ]
    if not chosen:
        raise UsageError(f"no device is called {device!r}", fix=f"there are {', '.join(names)}")
    return tuple(chosen)
