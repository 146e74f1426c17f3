"""Datasets as sides: the runs of each device and mode, with everything that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.machines import device_id, processor_of, whole_machine
from mansard.analytics.data.names import display_name, run_labels
from mansard.analytics.decisions.comparing.kinds import Kind
from mansard.analytics.decisions.comparing.repetitions import (
    Observed,
    quantities_of,
    workload_rows,
)
from mansard.analytics.decisions.comparing.sides import Side
from mansard.analytics.models.energy.fit import Coefficient, EnergyFit, fit_runs
from mansard.analytics.models.roofs.rates import TrialRate, trial_rates
from mansard.analytics.models.roofs.roofline import Roofline, rooflines
from mansard.core.errors import InputError, MansardError, UsageError
from mansard.core.hardware import is_one_mode
from mansard.core.power_mode import plain_name
from mansard.core.precision import work_unit
from mansard.core.records import Manifest


def sides_of(
    dataset: Dataset,
    *,
    name: str = "",
    mode: str | None = None,
    build: str | None = None,
    run_id: str | None = None,
    with_layers: bool = False,
) -> tuple[Side, ...]:
    """What ``dataset`` has of each device and mode; of one mode, label or run if asked for.

    ``name`` comes before their labels, to tell two datasets apart. ``build``: the label of runs.
    Raises UsageError where there is no such run, InputError where there is none at all.
    """
    runs = [*dataset.manifests, *dataset.workload_manifests]
    groups: dict[tuple[str, str], list[Manifest]] = {}
    for run in runs:
        if run_id not in (None, run.run_id) or build not in (None, run.label):
            continue
        if mode is None or is_one_mode(run.mode_read_back.name, mode, run.machine.name):
            groups.setdefault((device_id(run), plain_name(run.mode_read_back.name)), []).append(run)
    kernels = list(_kernel_rows(dataset)) if dataset.manifests else []
    newest = {key: max(group, key=_age) for key, group in groups.items()}
    labels = run_labels(list(newest.values()))
    sides = []
    for key, group in groups.items():
        ids = {run.run_id for run in group}
        observed = [row for of_run, row in kernels if of_run in ids]
        observed += workload_rows(dataset, group, with_layers=with_layers)
        if observed:
            label = f"{name}{labels[newest[key].run_id]}"
            sides.append(_side(label, newest[key], group, observed))
    if not sides:
        raise _nothing(dataset, runs, mode, build)
    return tuple(sides)


def _side(
    label: str, newest: Manifest, group: Sequence[Manifest], observed: list[Observed]
) -> Side:
    quantities, unusable = quantities_of(observed)
    return Side(
        label=label,
        device=device_id(newest),
        processor="whole" if whole_machine(newest) else processor_of(newest),
        machine=newest.machine.name,
        mode=newest.mode_read_back.name,
        builds=tuple(dict.fromkeys(run.label for run in group if run.label)),
        source="simulated" if newest.machine.is_simulated else "measured",
        started_utc=newest.started_utc,
        facts=_facts(sorted(group, key=_age)),
        quantities=quantities,
        unusable=unusable,
    )


def _age(manifest: Manifest) -> tuple[bool, str, str]:
    return (manifest.finished_utc is not None, manifest.started_utc, manifest.run_id)


def _facts(runs: Sequence[Manifest]) -> dict[str, str]:
    """What may differ between sides, from the newest runs; what is not known is left out."""
    facts: dict[str, str | None] = {}
    for run in runs:
        facts |= {
            "label": run.label or None,
            "machine": run.machine.name,
            "mode": run.mode_read_back.name,
            "profile": run.profile,
            "Mansard": run.tool_version,
            "kernel": run.machine.kernel_release,
            "driver": run.machine.driver,
            "image": run.image,
            **dict(sorted(run.versions.items())),
        }
    return {name: display_name(fact) for name, fact in facts.items() if fact is not None}


def _kernel_rows(dataset: Dataset) -> Iterator[tuple[str, Observed]]:
    """The id of each run of kernels with its ceilings and fitted costs."""
    rates = trial_rates(dataset)
    roofs = rooflines(dataset, rates)
    energies = fit_runs(dataset, roofs)
    for roof in roofs:
        run = dataset.manifest(roof.run_id)
        of_run = [rate for rate in rates if rate.run_id == roof.run_id]
        for row in (
            *_ceilings(roof, of_run, run),
            *_costs(energies.get(roof.run_id), run),
        ):
            yield roof.run_id, row


def _ceilings(roof: Roofline, rates: Iterable[TrialRate], run: Manifest) -> Iterator[Observed]:
    by_id = {rate.trial_id: rate for rate in rates}
    for ceiling in (*roof.peaks, *roof.bandwidths):
        if ceiling.value is None:
            continue
        seen = [by_id[trial_id] for trial_id in ceiling.trial_ids if trial_id in by_id]
        kind: Kind = "bandwidth" if ceiling.family == "stream" else "peak"
        yield Observed(
            kind,
            f"{ceiling.name} peak" if kind == "peak" else f"{ceiling.subject} {ceiling.kernel}",
            ceiling.unit,
            {_experiment(rate): rate.blocks.tolist() for rate in seen},
            (run.label, run.tool_version),
            (run.started_utc, run.run_id),
            span=(ceiling.value, ceiling.low, ceiling.high),
        )


def _experiment(rate: TrialRate) -> str:
    """What makes two trials the same experiment."""
    return f"{rate.kernel} {rate.backend} {rate.fma_per_element} {rate.working_set_bytes}"


def _costs(energy: EnergyFit | None, run: Manifest) -> Iterator[Observed]:
    if energy is None:
        return
    costs: list[tuple[str, str, Coefficient]] = [
        *(
            (f"energy of {name} work", f"J/{work_unit(name)}", cost)
            for name, cost in energy.flop_j.items()
        ),
        *((f"energy of {name} traffic", "J/B", cost) for name, cost in energy.byte_j.items()),
        ("constant power", "W", energy.constant_w),
    ]
    for name, unit, cost in costs:
        if cost.value is not None and cost.value > 0:
            yield Observed(
                "cost",
                name,
                unit,
                {},
                (run.label, run.tool_version),
                (run.started_utc, run.run_id),
                span=(cost.value, cost.low, cost.high),
            )


def _nothing(
    dataset: Dataset, runs: Sequence[Manifest], mode: str | None, build: str | None
) -> MansardError:
    def listed(names: Iterable[str]) -> str:
        return ", ".join(dict.fromkeys(map(display_name, names)))

    if build is not None and runs and all(run.label != build for run in runs):
        there = listed(run.label for run in runs if run.label)
        fix = f"there are {there}" if there else "measure with --label"
        return UsageError(f"no run has the label {build!r}", fix=fix)
    if mode is not None and runs:
        there = listed(run.mode_read_back.name for run in runs)
        return UsageError(f"no run is of mode {mode!r}", fix=f"there are {there}")
    return InputError(
        "no run is there to compare; published tables are not compared",
        where=", ".join(dataset.locations),
        fix="measure first, with 'mansard bench' or 'mansard measure'",
    )
