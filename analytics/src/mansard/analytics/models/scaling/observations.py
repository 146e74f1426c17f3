"""Networks and programs that were measured, as observations: how long, and at what power.

Of a network that one engine ran several times alike in one mode, one row counts: a stable one
before an unstable one, then the newest; versions may differ. What failed or was disturbed is no
observation. Of several labels of a network or program the one of its newest good row counts in all
modes, so that no model mixes builds. Of several engines, or numbers of threads, those count that
ran the network in the most modes: fits and calibrations are of one.

A program is a network without batch and precision; each of its named windows is one as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.machines import machine_id, whole_machine
from mansard.analytics.data.model_frames import MODE_SCHEMA, OBSERVATION_SCHEMA, PREDICTION_KEY
from mansard.analytics.data.names import (
    device_labels,
    display_name,
    display_text,
    engine_name,
    first_names,
    network_names,
    window_name,
)
from mansard.analytics.data.statistics import repetition_deviation
from mansard.analytics.data.totals import known_totals, meter_deviation
from mansard.analytics.data.transients import settled_network, settled_program, transient_notes
from mansard.analytics.models.scaling.call_energy import agrees, call_energy
from mansard.analytics.models.scaling.generations import generation_rows
from mansard.analytics.models.scaling.repeats import (
    best,
    identity_of,
    key_of,
    labels_of,
    modes_of,
    newest,
    of_newest_label,
    repeat_notes,
    with_uncounted,
)
from mansard.analytics.models.scaling.use_of_rows import (
    single_thread_s,
    why_unused,
    windows_by_name,
)
from mansard.core.records import (
    EnergyWindow,
    GenerationRun,
    Manifest,
    Measurement,
    NamedWindow,
    ProgramRepetition,
    ProgramRun,
    chain_length,
)
from mansard.core.text import with_ranges, without_numbers

_MOST_NAMED = 4
PROGRAM = "program"  # the engine name of programs
_PHASE = "inference"  # the phase of programs: the default of commands


@dataclass(frozen=True)
class Observations:
    """``rows``: OBSERVATION_SCHEMA. ``notes``: what is no observation, and why."""

    rows: pl.DataFrame
    notes: tuple[str, ...]


def measured_observations(dataset: Dataset) -> Observations:
    """The median latency and power of each network, program and window that counts.

    The latency of a program is the wall time of one run of it, that of a window its length.
    """
    runs = {run.run_id: run for run in dataset.workload_manifests}
    if not runs:
        return Observations(pl.DataFrame(schema=OBSERVATION_SCHEMA), ())
    devices, names = _devices(dataset), network_names(dataset)
    modes = modes_of(dataset)
    networks, programs = counted_measurements(dataset), counted_programs(dataset)
    unused = [
        *(
            (_why_unobserved(row), names[key_of(row)])
            for row in with_uncounted(networks, network_measurements(dataset), dataset)
        ),
        *(
            (why_unused(row), display_name(row.workload))
            for row in with_uncounted(programs, dataset.programs, dataset)
        ),
    ]
    rows: list[dict[str, object]] = []
    for measured in networks:
        where = _where(runs[measured.run_id], devices)
        rows.append({**where, **_network_row(measured, names[key_of(measured)])})
    for program in programs:
        where = _where(runs[program.run_id], devices)
        rows += [{**where, **row} for row in _program_rows(program)]
    generated = counted_generations(dataset)
    for generation in generated:
        where = _where(runs[generation.run_id], devices)
        rows += [{**where, **row} for row in generation_rows(generation, _values)]
    frame, others = _of_one_engine(pl.DataFrame(rows, schema=OBSERVATION_SCHEMA))
    changed = _changed_programs(dataset, programs, modes)
    counted: Sequence[Measurement | ProgramRun] = [*networks, *programs]
    repeated = repeat_notes(dataset, (*counted, *generated))
    used = {(row.run_id, row.trial_id) for row in counted}
    recorded: Sequence[Measurement | ProgramRun] = [*dataset.measurements, *dataset.programs]
    set_aside = [
        line
        for row in recorded
        if (row.run_id, row.trial_id) in used
        for line in transient_notes(row)
    ]
    return Observations(frame, (*_joined(unused), *changed, *repeated, *others, *set_aside))


def notes_on_repeats(dataset: Dataset, asked: Collection[str | None]) -> tuple[str, ...]:
    """Which rows count of what was measured more than once; ``asked``: as for ``repeat_notes``."""
    if not dataset.workload_manifests:
        return ()
    networks, programs = counted_measurements(dataset), counted_programs(dataset)
    return repeat_notes(dataset, (*networks, *programs, *counted_generations(dataset)), asked)


def counted_generations(dataset: Dataset) -> tuple[GenerationRun, ...]:
    """The best undisturbed row of each server, model, lengths and mode; of its newest label."""
    modes = modes_of(dataset)
    good = [row for row in dataset.generations if not row.disturbances and row.counted]
    good = of_newest_label(good, modes, labels_of(dataset))
    return best(good, lambda row: identity_of(row, modes))


def shown_generations(dataset: Dataset) -> tuple[GenerationRun, ...]:
    """As ``counted_generations``, and the best row of what has no usable one, by label."""
    return with_uncounted(counted_generations(dataset), dataset.generations, dataset)


def counted_measurements(dataset: Dataset) -> tuple[Measurement, ...]:
    """The best good measurement of each network, engine and mode, in the dataset's order.

    One whose wall times were all rejected is good where its CPU time is known. Of several labels
    of a network on an engine the newest counts.
    """
    modes = modes_of(dataset)
    good = [row for row in network_measurements(dataset) if not _why_unobserved(row)]
    good = of_newest_label(good, modes, labels_of(dataset))
    return best(good, lambda row: identity_of(row, modes))


def network_measurements(dataset: Dataset) -> Iterator[Measurement]:
    """All of whole networks but the chains of tiny nodes (``scaling.coefficients``).

    A layer or stage that was cut out of a network and run alone is no network: see ``shown_parts``.
    """
    return (
        settled_network(row)
        for row in dataset.measurements
        if chain_length(row.model) is None and not row.is_part
    )


def shown_parts(dataset: Dataset) -> tuple[Measurement, ...]:
    """The best good row of each layer or stage that was run alone, else its best one.

    Of a network's layers, or stages, those count that are cut and run as the newest of them: an
    earlier cut, other dimensions or another version of the engine do not.
    """
    modes, labels = modes_of(dataset), labels_of(dataset)

    def network(row: Measurement) -> object:
        what = (row.part.whole, row.part.whole_hash, row.phase, row.precision, row.batch)
        return (modes[row.run_id], what, engine_name(row), row.part.kind)

    def cut(row: Measurement) -> object:
        return (row.part.n_parts, ran_as(row), labels[row.run_id])

    def part(row: Measurement) -> object:
        return (network(row), row.part.number)

    of_parts = (row for row in dataset.measurements if row.part.kind in {"layer", "stage"})
    rows = [settled_network(row) for row in of_parts]
    last = {network(row): cut(row) for row in newest(rows, network)}
    rows = [row for row in rows if cut(row) == last[network(row)]]
    counted = best((row for row in rows if not why_unused(row)), part)
    known = {part(row) for row in counted}
    return counted + best((row for row in rows if part(row) not in known), part)


def ran_as(row: Measurement) -> object:
    """What has to be equal for times of a network and of its parts to be compared."""
    return (tuple(sorted(row.dimensions.items())), row.engine_version)


def counted_programs(dataset: Dataset) -> tuple[ProgramRun, ...]:
    """The best good run of each program in each mode, in the dataset's order.

    Of a program that was changed in between, or has another label, only runs of its last version
    on the device.
    """
    modes = modes_of(dataset)
    good = [settled_program(row) for row in dataset.programs if not why_unused(row)]
    good = of_newest_label(good, modes, labels_of(dataset))
    last = newest(good, lambda row: _workload(row, modes))
    hashes = {_workload(row, modes): row.program_hash for row in last}
    newest_program = [row for row in good if row.program_hash == hashes[_workload(row, modes)]]
    return best(newest_program, lambda row: identity_of(row, modes))


def _workload(row: ProgramRun, modes: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    return (modes[row.run_id][0], row.workload)


def _changed_programs(
    dataset: Dataset, counted: Iterable[ProgramRun], modes: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    """One line for each program of which runs of an earlier version are here."""
    labels = labels_of(dataset)
    versions = {_workload(row, modes): (row.program_hash, labels[row.run_id]) for row in counted}
    n_old = Counter(
        row.workload
        for row in dataset.programs
        for (program_hash, label) in [versions.get(_workload(row, modes), ("", ""))]
        if not why_unused(row)
        # Those of other labels have a line of their own.
        if row.program_hash != program_hash and labels[row.run_id] == label
    )
    for name, n_runs in n_old.items():
        yield (
            f"{display_name(name)}: the program, a file it names or its environment was changed; "
            f"{n_runs} earlier {'run is' if n_runs == 1 else 'runs are'} not used for "
            "predictions: measure again in these modes"
        )


def shown_measurements(dataset: Dataset) -> tuple[Measurement, ...]:
    """As ``counted_measurements``, and the best row of what has no usable one, by label.

    A network on an engine in a mode has none if all its runs failed or were disturbed.
    """
    return with_uncounted(counted_measurements(dataset), network_measurements(dataset), dataset)


def shown_programs(dataset: Dataset) -> tuple[ProgramRun, ...]:
    """As ``counted_programs``, and the best row of programs in modes without one, by label."""
    return with_uncounted(counted_programs(dataset), dataset.programs, dataset)


def workload_modes(dataset: Dataset) -> pl.DataFrame:
    """MODE_SCHEMA: one row for each mode of each device in which networks or programs ran."""
    devices = _devices(dataset)
    rows = []
    for run in sorted(
        dataset.workload_manifests, key=lambda manifest: manifest.started_utc, reverse=True
    ):
        mode, is_cpu = run.mode_read_back, run.gpu is None and not whole_machine(run)
        settings = {name: getattr(mode, name, None) for name in MODE_SCHEMA}
        gpu_settings: dict[str, int | None] = {"gpu_hz": None, "n_sms": None} if is_cpu else {}
        if run.gpu is not None:
            gpu_settings["n_sms"] = run.gpu.n_sms
        rows.append(settings | gpu_settings | _where(run, devices))
    frame = pl.DataFrame(rows, schema=MODE_SCHEMA)
    return frame.unique(["device", "mode"], keep="first", maintain_order=True).reverse()


def _devices(dataset: Dataset) -> dict[str, str]:
    """The device of each run, by run id.

    A server of a language model runs on the GPU of its machine, where the dataset knows one.
    """
    labels = device_labels(dataset.all_manifests)
    gpus: dict[str, set[str]] = {}
    for run in dataset.all_manifests:
        if run.gpu is not None:
            gpus.setdefault(machine_id(run.machine), set()).add(labels[run.run_id])
    for run in dataset.workload_manifests:
        of_machine = gpus.get(machine_id(run.machine), set())
        if run.kind == "generations" and len(of_machine) == 1:
            labels[run.run_id] = next(iter(of_machine))
    return labels


def _where(run: Manifest, devices: Mapping[str, str]) -> dict[str, str]:
    return {"device": devices[run.run_id], "mode": run.mode_read_back.name}


def _why_unobserved(row: Measurement) -> str:
    why = row.failure or "; ".join(row.disturbances)
    return why if why or single_thread_s(row) else why_unused(row)


def _joined(unused: Iterable[tuple[str, str]]) -> Iterator[str]:
    """One line for each reason why networks and programs are no observations."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for why, name in unused:
        if why:  # reasons that differ in a number are one
            groups.setdefault(without_numbers(why), []).append((why, name))
    for group in groups.values():
        named = first_names(list(dict.fromkeys(name for _, name in group)))
        why = with_ranges([why for why, _ in group])
        yield f"{named}: run, but not used for predictions: {display_text(why)}"


def _network_row(measured: Measurement, name: str) -> dict[str, object]:
    windows = measured.energy or ()
    return {
        "network": name,
        "batch": measured.batch,
        "precision": measured.precision,
        "phase": measured.phase,
        "engine": engine_name(measured),
        **_values(measured.seconds_s, windows, measured.unknown.get("energy")),
        "cpu_s": single_thread_s(measured),
        "source": measured.source,
    }


def _program_rows(program: ProgramRun) -> Iterator[dict[str, object]]:
    """The whole program, then each of its windows by name, in the order they first appear."""
    runs = program.repetitions
    name = display_name(program.workload)
    yield _program_row(program, name, [run.wall_s for run in runs], runs)
    for title, windows in windows_by_name(runs).items():
        name = window_name(program.workload, title)
        yield _program_row(program, name, [window.window_s for window in windows], windows)


def _program_row(
    program: ProgramRun,
    name: str,
    seconds_s: Sequence[float],
    timed: Sequence[ProgramRepetition] | Sequence[NamedWindow],
) -> dict[str, object]:
    energies = [window.energy for window in timed if window.energy is not None]
    why = next((window.unknown["energy"] for window in timed if window.energy is None), None)
    return {
        "network": name,
        "phase": _PHASE,
        "engine": PROGRAM,
        **_values(seconds_s, energies, why, is_program=True),
        "source": program.source,
    }


def _values(
    seconds_s: Sequence[float],
    windows: Sequence[EnergyWindow],
    why_no_window: str | None,
    *,
    is_program: bool = False,
) -> dict[str, object]:
    # Windows of no length are those that the timer did not resolve.
    times_s = [value for value in seconds_s if value > 0]
    energy = call_energy(windows, times_s, is_program=is_program)
    calm = [total for total in known_totals(windows) if not total[1].is_disturbed]
    if not is_program:
        calm = [total for total in calm if times_s and _is_of(total[1], times_s)] or calm
    powers_w = [total_j / window.window_s for total_j, window in calm]
    reasons = [] if times_s else ["no repetition was timed"]
    reasons += [] if energy.power_w else [why_no_window or energy.reason]
    return {
        "latency_s": float(np.median(times_s)) if times_s else None,
        "latency_deviation": repetition_deviation(times_s),
        "power_w": energy.power_w,
        "energy_j": energy.energy_j,
        # That of repetitions has the meter's share in it already, where there are enough of them.
        "power_deviation": max(repetition_deviation(powers_w) or 0.0, meter_deviation(windows))
        or None,
        "citation": None,
        "reason": "; ".join(reasons) or None,
    }


def _is_of(window: EnergyWindow, times_s: Sequence[float]) -> bool:
    """Whether the calls of a window took as long as those that were timed."""
    calm_s = window.window_s * (1 - window.disturbed_share)
    return window.repetitions > 0 and agrees(calm_s / window.repetitions, times_s)


def _of_one_engine(rows: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The rows of the engine that ran each network in the most modes, and what is left out."""
    counts = rows.group_by(*PREDICTION_KEY, "engine", maintain_order=True).agg(
        n=pl.col("mode").n_unique()
    )
    chosen = counts.sort("n", descending=True, maintain_order=True).unique(
        PREDICTION_KEY, keep="first", maintain_order=True
    )
    by = [*PREDICTION_KEY, "engine"]
    selected = rows.join(chosen, on=by, how="semi", nulls_equal=True, maintain_order="left")
    left = counts.join(chosen, on=by, how="anti", nulls_equal=True)
    engines = left.group_by("device", "engine", maintain_order=True).agg("network")
    notes = [
        f"{device}: {', '.join(dict.fromkeys(networks[:_MOST_NAMED]))} by {engine}: in the tables, "
        "but not used for predictions: another engine ran it in as many modes or more"
        for device, engine, networks in engines.iter_rows()
    ]
    return selected, tuple(notes)
