"""The models of a dataset's devices: roofs, costs, and laws of their modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.machines import whole_machine
from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, MODE_SCHEMA
from mansard.analytics.data.names import device_labels, device_machines, network_names, stage_of
from mansard.analytics.data.published.recordings import (
    imported_recordings,
    measured_recordings,
    shipped_recordings,
)
from mansard.analytics.data.published.store import (
    Published,
    batch_notes,
    device_names,
    doubt_lines,
    known_modes,
    published_coefficients,
    published_in,
    published_modes,
    published_observations,
)
from mansard.analytics.models.energy.fit import EnergyFit, fit_runs
from mansard.analytics.models.roofs.published_rooflines import published_rooflines
from mansard.analytics.models.roofs.rates import TrialRate, trial_rates
from mansard.analytics.models.roofs.roofline import Roofline, rooflines
from mansard.analytics.models.scaling.above_roofs import Claimed, judge
from mansard.analytics.models.scaling.coefficients import (
    NodeLaunch,
    counted_runs,
    find_node_launches,
    measured_coefficients,
    measured_modes,
    node_coefficients,
    roof_coefficients,
)
from mansard.analytics.models.scaling.observations import measured_observations, workload_modes
from mansard.core.errors import UsageError
from mansard.core.hardware import devices_called, near_hint
from mansard.core.records import MachineIdentity


@dataclass(frozen=True, eq=False)
class Models:
    """What was measured and published of the devices of one dataset.

    ``devices``: those that predictions are about, all or the one that was chosen; everything else
    is of all devices. ``roofs``: of each run and of each published mode; ``energies``: the fit of
    each run that was metered. ``modes``, ``coefficients`` and ``observations``: see
    ``data.model_frames``. Modes in which only networks or programs ran have no coefficients.
    ``notes``: what was measured and is no observation. ``node_launches``: of engines on CPUs.
    ``claims``: networks that were faster than their arithmetic allows.
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
    notes: tuple[str, ...]
    node_launches: tuple[NodeLaunch, ...]
    claims: tuple[Claimed, ...] = ()

    def of_devices(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of ``frame`` that are of ``devices``."""
        return frame.filter(pl.col("device").is_in(list(self.devices)))

    @cached_property
    def cpus(self) -> frozenset[str]:
        """The devices that are CPUs."""
        labels = device_labels(self.dataset.all_manifests)
        names = device_names(self.published)
        runs = self.dataset.all_manifests
        measured = (labels[e.run_id] for e in runs if e.gpu is None and not whole_machine(e))
        rows = self.published.rows
        return frozenset(
            [*measured, *(names[e.device, e.table_id] for e in rows if e.processor == "cpu")]
        )

    def own_settings(self, modes: pl.DataFrame) -> pl.DataFrame:
        """``modes`` (MODE_SCHEMA), those of CPUs without settings of the GPU beside them."""
        is_cpu = pl.col("device").is_in(list(self.cpus))
        return modes.with_columns(
            pl.when(~is_cpu).then(pl.col(name)).alias(name) for name in ("gpu_hz", "n_sms")
        )

    def with_operators(self) -> Models:
        """These with the zoo's operators among the networks: what calibrations rest on."""
        rows = self.dataset.operators
        if not rows.measurements:
            return self
        apart = replace(self.dataset, measurements=rows.measurements, programs=())
        whole = self.dataset.with_operators()
        observations = pl.concat([self.observations, measured_observations(apart).rows])
        return replace(self, dataset=whole, observations=observations).judged_by(
            rows.layers, network_names(whole)
        )

    def with_precisions(self, precisions: Mapping[str, str]) -> Models:
        """These, with the precision of each observed network that says none, by its name.

        A server of a language model does not say in which precision it computes: its score does.
        """
        known = pl.col("network").replace_strict(precisions, default=None, return_dtype=pl.String)
        rows = self.observations.with_columns(precision=pl.coalesce("precision", known))
        return replace(self, observations=rows)

    def judged_by(self, layers: pl.DataFrame, names: Mapping[str, str] | None = None) -> Models:
        """These, without times that are above the roof by the scores of ``layers``.

        ``names``: of networks, as ``data.names.network_names``; None: as their files.
        """
        if layers.is_empty():
            return self
        judged = judge(self.observations, layers, names or {}, self.modes, self.coefficients)
        notes = (*self.notes, *judged.notes())
        claims = (*self.claims, *judged.claims)
        return replace(self, observations=judged.rows, notes=notes, claims=claims)

    @cached_property
    def mode_notes(self) -> tuple[str, ...]:
        """What no table says of published modes of ``devices``, and which times it leaves out."""
        notes = known_modes(self.published).notes
        lines = [f"{name}: {line}" for name in self.devices for line in notes.get(name, ())]
        return (*lines, *batch_notes(self.published), *doubt_lines(self.published))

    @cached_property
    def recordings(self) -> pl.DataFrame:
        """RECORDING_SCHEMA: times of networks that were measured or imported, or that ship."""
        own = measured_recordings(self.observations)
        return pl.concat([own, imported_recordings(self.published), shipped_recordings()])

    def observed_networks(self) -> frozenset[str]:
        """Networks whose times were measured or published."""
        return frozenset(self.observations["network"].to_list())

    def mode_names(self) -> tuple[str, ...]:
        """The modes that were measured or published, each name once."""
        return tuple(dict.fromkeys(self.of_devices(self.modes)["mode"].to_list()))

    def modes_of(self, device: str) -> pl.DataFrame:
        """MODE_SCHEMA of the modes of ``device`` that were measured or published."""
        return self.modes.filter(pl.col("device") == device)

    @cached_property
    def machines(self) -> dict[str, MachineIdentity]:
        """The machine of each device that was measured, by the device's label."""
        return device_machines(self.dataset.all_manifests)

    @cached_property
    def run_modes(self) -> pl.DataFrame:
        """MODE_SCHEMA: each roof as a mode of its own, named by its run id.

        Of one mode several runs may be there. Only the power limit of the mode is known here.
        """
        limits_w = {
            manifest.run_id: manifest.mode_read_back.power_limit_w
            for manifest in self.dataset.manifests
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
        """COEFFICIENT_SCHEMA of ``run_modes``, with the costs of a launch of every mode."""
        of_roofs = [
            roof_coefficients(
                roof, self.energies.get(roof.run_id), device=roof.machine, mode=roof.run_id
            )
            for roof in self.roofs
        ]
        labels = device_labels(self.dataset.all_manifests)
        others = [
            (labels.get(roof.run_id, roof.machine), roof.mode, roof.machine, roof.run_id)
            for roof in self.roofs
            if not roof.launches
        ]
        schema = dict.fromkeys(("device", "mode", "machine", "run_id"), pl.String)
        launches = (
            self.coefficients.filter(pl.col("quantity") == "launch")
            .join(pl.DataFrame(others, schema=schema, orient="row"), on=["device", "mode"])
            .with_columns(device="machine", mode="run_id")
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
    manifests, labels = counted_runs(dataset), device_labels(dataset.all_manifests)
    own_modes = pl.concat([measured_modes(manifests, measured, labels), workload_modes(dataset)])
    own_modes = own_modes.unique(["device", "mode"], keep="first", maintain_order=True)
    modes = pl.concat([own_modes, published_modes(published)])
    coefficients = [
        measured_coefficients(manifests, measured, energies, labels),
        published_coefficients(published),
    ]
    node_launches = find_node_launches(dataset, labels)
    coefficients.append(_new_launches(node_coefficients(node_launches), coefficients))
    observed = measured_observations(dataset)
    observations = pl.concat([observed.rows, published_observations(published)])
    models = Models(
        dataset=dataset,
        devices=_choose_devices(list(dict.fromkeys(modes["device"].to_list())), device),
        rates=rates,
        roofs=(*measured, *published_rooflines(published)),
        energies=energies,
        published=published,
        modes=modes,
        coefficients=pl.concat(coefficients),
        observations=observations,
        notes=(*observed.notes, *batch_notes(published), *doubt_lines(published)),
        node_launches=node_launches,
    )
    precisions = {s.model: s.precision for s in dataset.scores if stage_of(s.model)}
    models = models.with_precisions(precisions)
    return models.judged_by(dataset.layers, network_names(dataset))


def _new_launches(coefficients: pl.DataFrame, others: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Those of ``coefficients`` in modes that have a roof, and no launches of their kernels.

    Launches alone would make a mode look as if it had one.
    """
    known, where = pl.concat(others), ["device", "mode"]
    launches = known.filter(pl.col("quantity") == "launch")
    return coefficients.join(known, on=where, how="semi").join(launches, on=where, how="anti")


def _choose_devices(names: Sequence[str], device: str | None) -> tuple[str, ...]:
    if device is None:
        return tuple(names)
    chosen = devices_called(device, names)
    if not chosen:
        hint = near_hint(device, names)
        fix = f"{hint}there are {', '.join(names)}"
        raise UsageError(f"no device is called {device!r}", fix=fix)
    return chosen
