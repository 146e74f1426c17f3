"""The results of a report as one record, for a terminal table or ``--json``, with its notices.

A notice is a line about something missing or unusual, which the page has above its figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import polars as pl
from msgspec.structs import replace

from mansard.analytics.data.accuracies import NetworkAccuracy
from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.machines import device_id
from mansard.analytics.data.names import device_labels, display_name, display_text, first_names
from mansard.analytics.data.quantities import counted
from mansard.analytics.data.totals import idle_power_w
from mansard.analytics.models.energy.fit import EnergyFit
from mansard.analytics.models.predict.generation_times import GenerationTimes
from mansard.analytics.models.predict.row_times import NetworkTimes, ProgramTimes
from mansard.analytics.models.roofs.ceilings import DRAM, Ceiling
from mansard.analytics.models.roofs.gpu_kernels import KernelComparison, KernelLaunch, Latency
from mansard.analytics.models.roofs.rates import TRIAL_ORDER, TrialRate, describe
from mansard.analytics.models.roofs.roofline import Ridge, Roofline
from mansard.analytics.models.sanity.finding import Finding
from mansard.analytics.models.scaling.coefficients import good_trials, run_notes
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.calibration import CalibrationSummary, calibration_summaries
from mansard.core.records import Manifest, Phase, Processor, Record, Source, named_notes
from mansard.core.text import listed, with_ranges, without_numbers

_MOST_NAMED = 4
_MOST_REASONS, _LONGEST_REASON = 2, 300


_OF_A_BOARD = frozenset({"nvpmodel", "clocks", "card"})  # modes that have others beside them


def notices(results: Results) -> tuple[str, ...]:
    """The dataset's notes, then what no figure can be drawn or fitted for, and why.

    The same note for many modes is one line, which names some of them.
    """
    labels = results.labels()
    by_run_id = [
        *_failed_trials(results.dataset.trials),
        *_missing_roofs(results.roofs),
        *_missing_totals(results),
        *_energy_gaps(results),
        *_lone_modes(results),
        *_unknown_networks(results, labels),
    ]
    by_run = _joined((labels[run_id], what) for run_id, what in by_run_id)
    mild = [display_text(finding.text) for finding in results.findings if not finding.is_serious]
    dataset = results.dataset
    devices, good = device_labels(dataset.all_manifests), good_trials(dataset)
    by_mode = run_notes(dataset.manifests, devices, good)
    scored = map(display_text, named_notes(results.dataset.scores))
    return _once(
        (*results.dataset.notes, *by_mode, *results.workload_notes, *scored, *mild, *by_run)
    )


def warnings(results: Results) -> tuple[str, ...]:
    """What cannot be true of the measurements; nothing is recommended from them."""
    return _once(display_text(finding.text) for finding in results.findings if finding.is_serious)


def _once(lines: Iterable[str]) -> tuple[str, ...]:
    """Each line once, with how often it came."""
    counts = Counter(lines)
    return tuple(f"{line} (× {n})" if n > 1 else line for line, n in counts.items())


def _joined(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """``labels: what`` for each ``what``, in the order they come."""
    groups: dict[str, list[str]] = {}
    for label, what in pairs:
        groups.setdefault(what, []).append(display_name(label))
    for what, labels in groups.items():
        yield f"{first_names(labels, separator='; ')}: {what}"


def _failed_trials(trials: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Kernels of each run that could not be measured, and the first reasons."""
    failed = trials.filter(pl.col("failure").is_not_null()).sort(TRIAL_ORDER)
    n_trials = dict(trials.group_by("run_id").len().iter_rows())
    for (run_id,), rows in failed.group_by("run_id", maintain_order=True):
        kernels: dict[str, str] = {}
        for row in rows.iter_rows(named=True):
            kernels.setdefault(display_text(row["failure"][:_LONGEST_REASON]), describe(row))
        first = [f"{kernel}: {why}" for why, kernel in kernels.items()][:_MOST_REASONS]
        more = [f"{len(kernels) - len(first)} other reasons"] if len(kernels) > len(first) else []
        yield (
            str(run_id),
            f"{len(rows)} of {counted(n_trials[run_id], 'trial')} of kernels could not be measured "
            f"(the same command tries again): {'; '.join([*first, *more])}",
        )


def _missing_roofs(roofs: Iterable[Roofline]) -> Iterator[tuple[str, str]]:
    for roof in roofs:
        if roof.source == "published":
            continue
        if all(peak.value is None for peak in roof.peaks):
            reason = (
                roof.peaks[0].unknown["value"]
                if roof.peaks
                else "no kernel that computes was measured"
            )
            yield roof.run_id, f"no peak, so no roof of arithmetic: {display_text(reason)}"
        memory = roof.bandwidth(DRAM)
        if memory.value is None:
            reason = display_text(memory.unknown["value"])
            yield roof.run_id, f"no bandwidth of main memory, so no roof of it: {reason}"


def _missing_totals(results: Results) -> Iterator[tuple[str, str]]:
    """Meters whose rails make no total, and windows in which a rail was not read."""
    for manifest in results.dataset.manifests:
        if manifest.meters and manifest.total_rails is None:
            reason = display_text(manifest.unknown["total_rails"])
            yield manifest.run_id, f"no total power, so no energy: {reason}"
    with_total = [m.run_id for m in results.dataset.manifests if m.total_rails is not None]
    totals = results.dataset.energy.filter(
        pl.col("rail").is_null() & pl.col("run_id").is_in(with_total)
    )
    unknown = totals.filter(pl.col("energy_j").is_null()).group_by("run_id", "unknown_json")
    groups: dict[tuple[str, str], list[tuple[int, str]]] = {}  # reasons that differ in numbers
    for row in unknown.len().sort("run_id", "unknown_json").iter_rows(named=True):
        reason = msgspec.json.decode(row["unknown_json"], type=dict[str, str])["total_j"]
        key = (row["run_id"], without_numbers(reason))
        groups.setdefault(key, []).append((row["len"], reason))
    for (run_id, _), members in groups.items():
        n_windows = sum(n for n, _ in members)
        windows = "1 window has" if n_windows == 1 else f"{n_windows:,} windows have"
        reason = with_ranges([reason for _, reason in members])
        yield run_id, f"{windows} no total energy: {display_text(reason)}"


def _energy_gaps(results: Results) -> Iterator[tuple[str, str]]:
    for run_id, fit in results.energies.items():
        if fit.missing:
            yield run_id, f"the energy fit is short of points: {'; '.join(fit.missing)}"
    for manifest in results.dataset.manifests:
        if manifest.total_rails is not None and manifest.run_id not in results.energies:
            yield manifest.run_id, "no trial has a total energy above 0, so no energy is fitted"


def _lone_modes(results: Results) -> Iterator[tuple[str, str]]:
    """Boards with a single measured mode."""
    devices: dict[str, list[tuple[str, str]]] = {}
    for manifest in results.dataset.manifests:
        mode = manifest.mode_read_back
        if mode.kind in _OF_A_BOARD:
            devices.setdefault(device_id(manifest), []).append((mode.name, manifest.run_id))
    for runs in devices.values():
        if len({mode for mode, _ in runs}) == 1:
            yield (
                runs[0][1],
                "the only mode measured; predictions of other modes have no known error",
            )


def _unknown_networks(results: Results, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Networks whose time is unknown, and what is missing; one note for all runs of one label."""
    unknown = results.networks.filter(pl.col("time_s").is_null() & pl.col("reason").is_not_null())
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for row in unknown.select("run_id", "reason", "network").iter_rows():
        groups.setdefault(labels[row[0]], []).append(row)
    for rows in groups.values():
        names = list(dict.fromkeys(display_name(network) for _, _, network in rows))
        reasons = dict.fromkeys(display_text(reason) for _, reason, _ in rows)
        some = f"{counted(len(names), 'network')}, {', '.join(names[:_MOST_NAMED])}, …,"
        who = listed(names) if len(names) <= _MOST_NAMED else some
        yield rows[0][0], f"the time of {who} is unknown: {'; or '.join(reasons)}"


class ModeSummary(Record, frozen=True, kw_only=True):
    """The ceilings of one run; ``bandwidths`` has the roof of each memory level.

    ``traffic_bandwidth``: what the traffic of networks is priced at, from main memory.
    """

    run_id: str
    machine_id: str
    machine: str  # the processor that computed: a GPU's own name
    host: str
    processor: Processor
    n_sms: int | None
    clock_hz: float | None  # of the SMs, median over the trials
    mode: str
    label: str
    source: Source
    peaks: tuple[Ceiling, ...]
    bandwidths: tuple[Ceiling, ...]
    traffic_bandwidth: Ceiling
    ridges: tuple[Ridge, ...]
    standings: tuple[KernelComparison, ...]  # of a GPU's kernels beside their limits
    latencies: tuple[Latency, ...]
    launches: tuple[KernelLaunch, ...]
    energy: EnergyFit | None
    idle_power_w: float | None  # median of the idle windows' totals
    n_trials: int
    n_trials_disturbed: int  # kept, and in no ceiling
    n_trials_unstable: int  # in a ceiling only where no other of it settled
    n_trials_failed: int = 0  # could not be measured, each with its reason


class NetworkSummary(Record, frozen=True, kw_only=True):
    """One network in one mode: modelled seconds with the interval of the ceilings.

    Operations of integers count as FLOP.
    """

    model: str
    model_hash: str
    run_id: str
    label: str
    phase: Phase
    batch: int | None
    precision: str
    n_layers: int
    n_groups: int  # fused layers that work, move or start something
    work_flop: int | None
    traffic_bytes: int | None
    intensity_flop_per_byte: float | None
    time_s: float | None
    low_s: float | None
    high_s: float | None
    least_s: float  # the modelled time of what is known, also where time_s is None
    bound: str | None
    memory_share: float | None
    bound_share: float | None  # of the time, in what it is bound by; null for a power limit
    energy_j: float | None
    energy_low_j: float | None
    energy_high_j: float | None
    power_w: float | None
    energy_bound: str | None
    interval: str | None  # what the ends mean: a key of data.model_frames.INTERVALS
    notes: str | None  # what the time is without
    source: Source


class Summary(Record, frozen=True, kw_only=True):
    """What ``mansard bench`` prints at its end."""

    modes: tuple[ModeSummary, ...]
    networks: tuple[NetworkSummary, ...]
    measured: tuple[NetworkTimes, ...]  # networks that were run, beside what is predicted
    programs: tuple[ProgramTimes, ...]  # programs that were run, and their windows
    generations: tuple[GenerationTimes, ...]  # servers of language models
    accuracies: tuple[NetworkAccuracy, ...]  # how often networks are right
    calibrations: tuple[CalibrationSummary, ...]  # what --calibrate makes of those networks
    findings: tuple[Finding, ...]  # what cannot be true of the measurements
    notes: tuple[str, ...]

    def of_runs(self, run_ids: Collection[str] | None) -> Summary:
        """The same with what is of these runs alone; None: of every run."""
        if run_ids is None:
            return self
        wanted = set(run_ids)
        return replace(
            self,
            modes=tuple(mode for mode in self.modes if mode.run_id in wanted),
            networks=tuple(network for network in self.networks if network.run_id in wanted),
            measured=tuple(
                times for times in self.measured if not wanted.isdisjoint(times.run_ids)
            ),
            programs=tuple(program for program in self.programs if program.run_id in wanted),
            generations=tuple(row for row in self.generations if row.run_id in wanted),
            accuracies=tuple(row for row in self.accuracies if row.run_id in wanted),
        )


def summary(dataset: Dataset, results: Results | None = None) -> Summary:
    """Ceilings per mode and predicted times per network; unknown is None with a reason."""
    every = results or compute(dataset)
    rates: dict[str, list[TrialRate]] = {}
    for rate in every.rates:
        rates.setdefault(rate.run_id, []).append(rate)
    return Summary(
        modes=tuple(_mode(roof, every, rates.get(roof.run_id, [])) for roof in every.roofs),
        networks=tuple(_network(row) for row in every.networks.iter_rows(named=True)),
        measured=every.measured,
        programs=every.programs,
        generations=every.generations,
        accuracies=every.accuracies,
        calibrations=calibration_summaries(every.calibration, every.of_runs.models.node_launches),
        findings=every.findings,
        notes=notices(every),
    )


def _mode(roof: Roofline, results: Results, rates: Sequence[TrialRate]) -> ModeSummary:
    trials = results.dataset.trials.filter(pl.col("run_id") == roof.run_id)
    energy, idle_w, unmetered = None, None, "published figures have no energy of their own"
    if roof.source != "published":
        manifest = results.dataset.manifest(roof.run_id)
        energy, idle_w = results.energies.get(roof.run_id), idle_power_w(manifest)
        unmetered = _why_unmetered(manifest)
    unknown = {} if energy else {"energy": unmetered}
    unknown |= {name: roof.unknown[name] for name in ("n_sms", "clock_hz") if name in roof.unknown}
    return ModeSummary(
        run_id=roof.run_id,
        machine_id=roof.machine_id,
        machine=roof.machine,
        host=roof.host,
        processor=roof.processor,
        n_sms=roof.n_sms,
        clock_hz=roof.clock_hz,
        mode=roof.mode,
        label=roof.label,
        source=roof.source,
        peaks=roof.peaks,
        bandwidths=tuple(roof.bandwidth(level.name) for level in roof.levels),
        traffic_bandwidth=roof.traffic_bandwidth(),
        ridges=roof.ridges(),
        standings=roof.kernel_comparisons,
        latencies=roof.latencies,
        launches=roof.launches,
        energy=energy,
        idle_power_w=idle_w,
        unknown=unknown if idle_w is not None else {**unknown, "idle_power_w": unmetered},
        n_trials=len(rates),
        n_trials_disturbed=sum(bool(rate.disturbances) for rate in rates),
        n_trials_unstable=sum(rate.unstable for rate in rates),
        n_trials_failed=trials["failure"].count(),  # those that are not null
    )


def _why_unmetered(manifest: Manifest) -> str:
    if manifest.total_rails is None:
        return f"no total power: {manifest.unknown['total_rails']}"
    return "no window has a total energy"


def _network(row: dict[str, Any]) -> NetworkSummary:
    values = {**row, "intensity_flop_per_byte": row["intensity"], "source": "modelled"}
    values = {name: values[name] for name in NetworkSummary.__struct_fields__ if name in values}
    reasons = {name: why for name, why in _reasons(row).items() if values[name] is None}
    return NetworkSummary(**values, unknown=reasons)


def _reasons(row: dict[str, Any]) -> dict[str, str]:
    counted = "the work or traffic of a layer is unknown"
    reason = row["reason"]
    time = str(reason or "the network has no work and no traffic")
    no_interval = time if row["time_s"] is None else "a coefficient it needs has no interval"
    no_share = time if row["bound"] is None else f"it is bound by {row['bound']} as a whole"
    return {
        "work_flop": counted,
        "traffic_bytes": counted,
        "batch": "the model does not say which dimension is the batch",
        "time_s": time,
        "low_s": no_interval,
        "high_s": no_interval,
        "bound": time,
        "memory_share": time,
        "bound_share": no_share,
        "energy_j": time,
        "energy_low_j": time if row["energy_j"] is None else no_interval,
        "energy_high_j": time if row["energy_j"] is None else no_interval,
        "power_w": time,
        "energy_bound": time,
        "interval": no_interval,
        "notes": "there is nothing to say",
        "intensity_flop_per_byte": counted
        if row["traffic_bytes"] is None or row["work_flop"] is None
        else "the network moves no bytes",
    }
