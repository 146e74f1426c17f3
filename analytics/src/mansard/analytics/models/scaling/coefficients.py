"""Measurements of kernels and calls, as the modes and coefficients that models exchange.

One mode of a device is one set of rows. Of several runs in one mode the newest one counts: first
those that came to their end, of them those that are known well, of them those that have the most
kernels, of them those of the most trials, of them the one begun last. A run is known well if it has
at least half as many stable, undisturbed trials as the best run of the mode: a run of a busy hour
does not replace one of a quiet hour.

What an engine needs on a CPU to call a network and to start each of its nodes is measured by two
chains of tiny nodes beside the networks (inference/preparing/writing.py): t(n) = call + n · node,
with the medians of both. The ends of a node's interval are those of both chains at once, which is
more than 95 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.frames import UNDISTURBED
from mansard.analytics.data.machines import device_id, processor_of
from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, MODE_SCHEMA
from mansard.analytics.data.names import display_name, engine_name, first_names, label_words
from mansard.analytics.models.energy.fit import Coefficient, EnergyFit
from mansard.analytics.models.roofs.ceilings import Ceiling
from mansard.analytics.models.roofs.gpu_kernels import ONE_BY_ONE, KernelLaunch
from mansard.analytics.models.roofs.rates import BlockMedian, estimate
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.models.scaling.use_of_rows import why_unused
from mansard.core.records import CHAIN_LENGTHS, Manifest, Measurement, Record, Source, chain_length


class NodeLaunch(Record, frozen=True, kw_only=True):
    """What one engine needs in one mode, s; None where its chains do not tell."""

    run_id: str
    device: str
    mode: str
    engine: str
    node_s: float | None
    node_low_s: float | None
    node_high_s: float | None
    call_s: float | None
    source: Source


_NUMBERS = ("node_s", "node_low_s", "node_high_s", "call_s")


def find_node_launches(dataset: Dataset, labels: dict[str, str]) -> tuple[NodeLaunch, ...]:
    """One for each device, mode and engine with both chains undisturbed: of the newest run.

    The newest run comes last. ``labels``: the device's by run id.
    """
    chains: dict[str, dict[str, list[Measurement]]] = {}
    for row in dataset.measurements:
        if chain_length(row.model) is not None:
            chains.setdefault(row.run_id, {}).setdefault(engine_name(row), []).append(row)
    launches: dict[tuple[str, str, str], NodeLaunch] = {}
    for run in sorted(dataset.workload_manifests, key=lambda run: (run.started_utc, run.run_id)):
        device, mode = labels[run.run_id], run.mode_read_back.name
        for engine, rows in chains.get(run.run_id, {}).items():
            launch = _launch(rows, run.run_id, device, mode, engine)
            if launch is not None:
                launches.pop((device, mode, engine), None)
                launches[device, mode, engine] = launch
    return tuple(launches.values())


def _launch(
    rows: Sequence[Measurement], run_id: str, device: str, mode: str, engine: str
) -> NodeLaunch | None:
    by_length = {chain_length(row.model): row for row in rows if not why_unused(row)}
    if not by_length.keys() >= set(CHAIN_LENGTHS):
        return None
    least, most = CHAIN_LENGTHS
    short, long = _median(by_length[least]), _median(by_length[most])
    n_more = most - least
    values: dict[str, float | None] = dict.fromkeys(_NUMBERS)
    why = "the longer chain took no longer than the shorter one"
    node_s = (long.value - short.value) / n_more
    unknown = dict.fromkeys(_NUMBERS, why)
    if node_s > 0:
        values["node_s"], values["call_s"] = node_s, max(short.value - least * node_s, 0.0)
        unknown = dict.fromkeys(_NUMBERS[1:3], "too few blocks to show their own spread")
        if None not in (short.low, short.high, long.low, long.high):
            values["node_low_s"] = max((long.low - short.high) / n_more, 0.0)  # type: ignore[operator]
            values["node_high_s"] = (long.high - short.low) / n_more  # type: ignore[operator]
            unknown = {}
    return NodeLaunch(
        run_id=run_id,
        device=device,
        mode=mode,
        engine=engine,
        source=by_length[most].source,
        unknown=unknown,
        **values,
    )


def _median(row: Measurement) -> BlockMedian:
    """Of its blocks' medians, s."""
    seconds_s, block = np.array(row.seconds_s), np.array(row.block)
    medians = [float(np.median(seconds_s[block == number])) for number in np.unique(block)]
    return estimate([np.array(medians)])


def node_coefficients(launches: Sequence[NodeLaunch]) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA: a node as the launch of a group, in the modes where it was measured.

    Where several engines were timed, the last one of ``launches`` counts.
    """
    rows = [
        {
            "device": node.device,
            "mode": node.mode,
            "quantity": "launch",
            "subject": "",
            "unit": "",
            "value": node.node_s,
            "low": node.node_low_s,
            "high": node.node_high_s,
            "source": node.source,
            "error": None,
            "n_fitted": None,
            "is_extrapolated": False,
            "reason": node.unknown.get("node_s") or node.unknown.get("node_low_s"),
        }
        for node in {(launch.device, launch.mode): launch for launch in launches}.values()
    ]
    return pl.DataFrame(rows, schema=COEFFICIENT_SCHEMA)


TENSOR, CUDA = "tensor core", "CUDA core"  # a CPU's work is said to be on the latter too
_TENSOR_ENDING = " tensor"  # of an energy fit's names


_WELL_KNOWN = 0.5  # of the good trials of the best run in a mode


class GoodTrials(NamedTuple):
    """How much of a run of kernels is usable.

    ``n``: stable, undisturbed trials. ``n_kinds``: kernels, each by its precision, with an
    undisturbed trial; the others give no ceiling.
    """

    n: int
    n_kinds: int


_NONE_GOOD = GoodTrials(0, 0)


def good_trials(dataset: Dataset) -> dict[str, GoodTrials]:
    """The usable trials of each run of kernels, by run id."""
    is_good = UNDISTURBED & (pl.col("stability") == "stable")
    kind = pl.struct("kernel", "family", "precision").filter(UNDISTURBED)
    counts = dataset.trials.group_by("run_id").agg(n=is_good.sum(), n_kinds=kind.n_unique())
    rows = counts.select("run_id", *GoodTrials._fields).iter_rows()
    return {run_id: GoodTrials(*numbers) for run_id, *numbers in rows}


def counted_runs(dataset: Dataset) -> tuple[Manifest, ...]:
    """The run of kernels that counts for each mode of each device."""
    return newest_runs(dataset.manifests, good_trials(dataset))


def newest_runs(
    manifests: Sequence[Manifest], good: Mapping[str, GoodTrials] = MappingProxyType({})
) -> tuple[Manifest, ...]:
    """One run for each mode of each device, in the order of their first.

    Of several labels of a device the newest counts, in all modes. ``good``: usable trials by run
    id; without it all runs count as known well.
    """
    last: dict[str, Manifest] = {}
    for manifest in sorted(manifests, key=lambda one: (one.started_utc, one.run_id)):
        last[device_id(manifest)] = manifest
    of_mode: dict[tuple[str, str], list[Manifest]] = {}
    for manifest in manifests:
        device = device_id(manifest)
        if manifest.label == last[device].label:
            of_mode.setdefault((device, manifest.mode_read_back.name), []).append(manifest)
    return tuple(max(runs, key=_rank_among(runs, good)) for runs in of_mode.values())


def run_notes(
    manifests: Sequence[Manifest],
    labels: Mapping[str, str],
    good: Mapping[str, GoodTrials] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Which run counts: a line for each mode of a device that several runs measured.

    Also a line for each device whose runs have several labels. ``labels``: the name of the device
    of each run, by run id; ``good``: as for ``newest_runs``.
    """
    counted = newest_runs(manifests, good)
    n_runs = Counter((device_id(m), m.mode_read_back.name) for m in manifests)
    of_modes = (
        f"{labels[run.run_id]}: {n_runs[mode]} runs in mode {display_name(mode[1])}; what is "
        f"modelled rests on that of {run.started_utc[:16].replace('T', ' ')}"
        for run in counted
        for mode in ((device_id(run), run.mode_read_back.name),)
        if n_runs[mode] > 1
    )
    builds = {device_id(run): run for run in counted}
    others: dict[str, set[str]] = {}
    for manifest in manifests:
        if manifest.label != builds[device_id(manifest)].label:
            others.setdefault(device_id(manifest), set()).add(manifest.label)
    of_labels = (
        f"{labels[run.run_id]}: what is modelled rests on {label_words(run.label)}, the newest; "
        f"{first_names(sorted(map(label_words, others[device])))}: not used for predictions"
        for device, run in builds.items()
        if device in others
    )
    return (*of_modes, *of_labels)


def _rank_among(
    runs: Sequence[Manifest], good: Mapping[str, GoodTrials]
) -> Callable[[Manifest], tuple[bool, bool, int, int, str, str]]:
    known = {run.run_id: good.get(run.run_id, _NONE_GOOD) for run in runs}
    least = _WELL_KNOWN * max(each.n for each in known.values())

    def rank(run: Manifest) -> tuple[bool, bool, int, int, str, str]:
        is_finished, its = run.finished_utc is not None, known[run.run_id]
        return (
            is_finished,
            its.n >= least,
            its.n_kinds,
            run.n_trials,
            run.started_utc,
            run.run_id,
        )

    return rank


def measured_modes(
    manifests: Sequence[Manifest], roofs: Sequence[Roofline], labels: Mapping[str, str]
) -> pl.DataFrame:
    """MODE_SCHEMA: one row for each of ``manifests``, the runs that count (``counted_runs``).

    ``labels``: the name of the device of each run, by run id. The GPU's clock is null for a CPU,
    whose modes do not set it; SMs are those that were on while the kernels ran. Runs without a
    roof are left out.
    """
    by_run = {roof.run_id: roof for roof in roofs}
    rows = []
    for manifest in manifests:
        if manifest.run_id not in by_run:
            continue
        mode, is_gpu = manifest.mode_read_back, processor_of(manifest) == "gpu"
        rows.append(
            {
                "device": labels[manifest.run_id],
                "mode": mode.name,
                "gpu_hz": mode.gpu_hz if is_gpu else None,
                "memory_hz": mode.memory_hz,
                "cpu_hz": mode.cpu_hz,
                "n_sms": by_run[manifest.run_id].n_sms if is_gpu else None,
                "n_cpus": mode.n_cpus,
                "power_limit_w": mode.power_limit_w,
            }
        )
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


def measured_coefficients(
    manifests: Sequence[Manifest],
    roofs: Sequence[Roofline],
    energies: Mapping[str, EnergyFit],
    labels: Mapping[str, str],
) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA of the modes of ``measured_modes``.

    Peaks, bandwidths of every level for what is mostly read, and where the run was metered the
    costs of its fit; on a GPU what it takes to launch a kernel, where that was measured. What has
    no value is there with the reason.
    """
    by_run = {roof.run_id: roof for roof in roofs}
    frames = [
        roof_coefficients(
            by_run[manifest.run_id],
            energies.get(manifest.run_id),
            device=labels[manifest.run_id],
            mode=manifest.mode_read_back.name,
        )
        for manifest in manifests
        if manifest.run_id in by_run
    ]
    return pl.concat([pl.DataFrame(schema=COEFFICIENT_SCHEMA), *frames])


def roof_coefficients(
    roof: Roofline, energy: EnergyFit | None, *, device: str, mode: str
) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA of one roof, under any names; ``energy``: None where not metered."""
    names = {"device": device, "mode": mode}
    rows = [{**names, **row} for row in _roof_rows(roof, energy)]
    return pl.DataFrame(rows, schema=COEFFICIENT_SCHEMA)


def _roof_rows(roof: Roofline, energy: EnergyFit | None) -> Iterator[dict[str, object]]:
    for peak in roof.peaks:
        unit = TENSOR if peak.family == "tensor" else CUDA
        yield _row("peak", peak.subject, unit, peak, roof.source)
    for level in roof.levels:
        bandwidth = roof.traffic_bandwidth(level.name)
        yield _row("bandwidth", level.name, "", bandwidth, roof.source)
    for launch in roof.launches:
        if launch.kernel == ONE_BY_ONE:
            yield _launch_row(launch, roof.source)
    if energy is None:
        return
    for name, cost in energy.flop_j.items():
        is_tensor = name.endswith(_TENSOR_ENDING)
        precision = name.removesuffix(_TENSOR_ENDING)
        yield _row("flop_energy", precision, TENSOR if is_tensor else CUDA, cost, roof.source)
    for name, cost in energy.byte_j.items():
        yield _row("byte_energy", name, "", cost, roof.source)
    yield _row("constant_power", "", "", energy.constant_w, roof.source)


def _launch_row(launch: KernelLaunch, source: Source) -> dict[str, object]:
    """Launches one by one: how an engine starts the kernels of a network, if it makes no graph."""
    values = {"value": launch.value_s, "low": launch.low_s, "high": launch.high_s}
    reason = launch.unknown.get("value_s") or launch.unknown.get("low_s")
    return {**_names("launch", "", "", source), **values, "reason": reason}


def _row(
    quantity: str, subject: str, unit: str, value: Ceiling | Coefficient, source: Source
) -> dict[str, object]:
    values = {"value": value.value, "low": value.low, "high": value.high}
    reason = value.unknown.get("value") or value.unknown.get("low")
    return {**_names(quantity, subject, unit, source), **values, "reason": reason}


def _names(quantity: str, subject: str, unit: str, source: Source) -> dict[str, object]:
    """What a measured coefficient is called, and that no law was fitted to it."""
    return {
        "quantity": quantity,
        "subject": subject,
        "unit": unit,
        "source": source,
        "error": None,
        "n_fitted": None,
        "is_extrapolated": False,
    }
