"""Notes above the figures: one line for each missing or unusual thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
import polars as pl

from mansard.analytics.data.dataset import device_id
from mansard.analytics.data.names import device_labels, display_name, display_text, first_names
from mansard.analytics.data.quantities import counted
from mansard.analytics.models.roofs.ceilings import DRAM
from mansard.analytics.models.roofs.rates import TRIAL_ORDER, describe
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.models.scaling.coefficients import run_notes
from mansard.analytics.pages.results import Results
from mansard.core.records import named_notes
from mansard.core.text import listed

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
        *_unknown_networks(results),
    ]
    by_run = _joined((labels[run_id], what) for run_id, what in by_run_id)
    mild = [display_text(finding.text) for finding in results.findings if not finding.is_serious]
    by_mode = run_notes(results.dataset.manifests, device_labels(results.dataset.all_manifests))
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
    """How many kernels of a run could not be measured, and the first reasons."""
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
    for row in unknown.len().sort("run_id", "unknown_json").iter_rows(named=True):
        reason = msgspec.json.decode(row["unknown_json"], type=dict[str, str])["total_j"]
        windows = "1 window has" if row["len"] == 1 else f"{row['len']:,} windows have"
        yield row["run_id"], f"{windows} no total energy: {display_text(reason)}"


def _energy_gaps(results: Results) -> Iterator[tuple[str, str]]:
    for run_id, fit in results.energies.items():
        if fit.missing:
            yield run_id, f"the energy fit is short of points: {'; '.join(fit.missing)}"
    for manifest in results.dataset.manifests:
        if manifest.total_rails is not None and manifest.run_id not in results.energies:
            yield manifest.run_id, "no trial has a total energy above 0, so no energy is fitted"


def _lone_modes(results: Results) -> Iterator[tuple[str, str]]:
    """Boards of which a single mode was measured."""
    devices: dict[str, list[tuple[str, str]]] = {}
    for manifest in results.dataset.manifests:
        mode = manifest.mode_read_back
        if mode.kind in _OF_A_BOARD:
            devices.setdefault(device_id(manifest), []).append((mode.name, manifest.run_id))
    for runs in devices.values():
        if len({mode for mode, _ in runs}) == 1:
            yield runs[0][1], "the only mode measured; what is said of others has no error to it"


def _unknown_networks(results: Results) -> Iterator[tuple[str, str]]:
    """Networks whose time is unknown, and what is missing; the rest of them is drawn."""
    unknown = results.networks.filter(pl.col("time_s").is_null() & pl.col("reason").is_not_null())
    rows = unknown.group_by("run_id", "reason", maintain_order=True).agg(
        pl.col("network").unique(maintain_order=True)
    )
    for run_id, reason, networks in rows.iter_rows():
        names = [display_name(network) for network in networks]
        some = f"{counted(len(names), 'network')}, {', '.join(names[:_MOST_NAMED])}, …,"
        who = listed(names) if len(names) <= _MOST_NAMED else some
        yield run_id, f"the time of {who} is unknown: {display_text(reason)}"
