"""What must not be fitted together unless the user says so.

Runs of one device that different versions of Mansard measured, or different sources of one kernel,
are refused. Boards are never mixed: two of one name stand side by side, each with its own label.
With ``mix`` both are allowed: versions are noted, and boards that are alike in all but their
serial number count as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import polars as pl
from msgspec.structs import replace as replaced

from mansard.analytics.data.dataset import Dataset, device_id, machine_id
from mansard.analytics.data.names import display_name
from mansard.core.errors import InputError
from mansard.core.records import Manifest

_ANY_BOARD = "any"  # instead of the hash of a serial number
_MOST_NAMED = 4


def unmixed(dataset: Dataset) -> Dataset:
    """``dataset``, with a note for boards of one name; InputError where runs should not mix."""
    for what in _mixtures(dataset):
        raise InputError(
            what,
            where=", ".join(dataset.locations),
            fix="report them from folders of their own, or mix them with --mix",
        )
    notes = [
        f"{len(boards)} boards are called {_device(boards)}; each has its own roofs, and --mix "
        "takes them for one"
        for boards in _alike(dataset.manifests)
    ]
    return replace(dataset, notes=(*dataset.notes, *notes))


def mixed(dataset: Dataset) -> Dataset:
    """``dataset`` with boards that are alike as one device; its notes say what was mixed."""
    alike = _alike(dataset.manifests)
    whats = [
        *_mixtures(dataset),
        *(f"{len(boards)} boards called {_device(boards)} count as one" for boards in alike),
    ]
    one = {device_id(manifest) for boards in alike for manifest in boards}
    manifests = tuple(
        _without_serial(manifest) if device_id(manifest) in one else manifest
        for manifest in dataset.manifests
    )
    ids = {manifest.run_id: machine_id(manifest.machine) for manifest in manifests}
    machine = pl.col("run_id").replace_strict(ids, return_dtype=pl.String).alias("machine_id")
    return replace(
        dataset,
        manifests=manifests,
        runs=dataset.runs.with_columns(machine),
        trials=dataset.trials.with_columns(machine),
        notes=(*dataset.notes, *(f"mixed, as --mix says: {what}" for what in whats)),
    )


def _alike(manifests: Sequence[Manifest]) -> list[list[Manifest]]:
    """Devices that differ in their serial number alone: the first run of each, by kind."""
    kinds: dict[str, dict[str, Manifest]] = {}
    for manifest in manifests:
        own = kinds.setdefault(device_id(_without_serial(manifest)), {})
        own.setdefault(device_id(manifest), manifest)
    return [list(own.values()) for own in kinds.values() if len(own) > 1]


def _without_serial(manifest: Manifest) -> Manifest:
    return replaced(manifest, machine=replaced(manifest.machine, machine_hash=_ANY_BOARD))


def _mixtures(dataset: Dataset) -> Iterable[str]:
    """One line for each device whose runs differ in what measured them."""
    devices: dict[str, list[Manifest]] = {}
    for manifest in dataset.manifests:
        devices.setdefault(device_id(manifest), []).append(manifest)
    for manifests in devices.values():
        versions = _grouped((m.tool_version, m.run_id) for m in manifests)
        if len(versions) > 1:
            yield f"{_device(manifests)} was measured by versions of Mansard {_listed(versions)}"
            continue
        yield from _sources(manifests, dataset.trials)


def _sources(manifests: Sequence[Manifest], trials: pl.DataFrame) -> Iterable[str]:
    """A line for the first kernel that ran from two sources on one device."""
    own = trials.filter(pl.col("run_id").is_in([manifest.run_id for manifest in manifests]))
    kernels = (
        own.select("kernel", "backend", "precision", "source_hash", "run_id")
        .unique()
        .sort("kernel", "backend", "precision", "source_hash", "run_id")
    )
    for key, rows in kernels.group_by("kernel", "backend", "precision", maintain_order=True):
        if rows["source_hash"].n_unique() > 1:
            sources = _grouped(rows.select("source_hash", "run_id").iter_rows())
            kernel = " ".join(display_name(str(part)) for part in key)
            yield f"the kernel {kernel} ran on {_device(manifests)} from sources {_listed(sources)}"
            return


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, run_id in sorted(pairs):
        found.setdefault(key, []).append(run_id)
    return found


def _listed(groups: dict[str, list[str]]) -> str:
    """``0.1.0 (runs a, b) and 0.2.0 (run c)``."""
    parts = []
    for key, run_ids in groups.items():
        more = f" and {len(run_ids) - _MOST_NAMED} more" if len(run_ids) > _MOST_NAMED else ""
        word = "run" if len(run_ids) == 1 else "runs"
        parts.append(f"{display_name(key)} ({word} {', '.join(run_ids[:_MOST_NAMED])}{more})")
    return " and ".join(parts)


def _device(manifests: Sequence[Manifest]) -> str:
    gpu = manifests[0].gpu
    return display_name(manifests[0].machine.name if gpu is None else gpu.name)


_KERNEL = ["kernel", "backend", "precision"]


def newest(dataset: Dataset) -> Dataset:
    """``dataset`` without runs of a device that another Mansard, or another source, measured.

    What counts is the run of the device that began last: runs of its version whose kernels, as
    far as both ran them, are of the same sources. A note says how many are left out.
    """
    devices: dict[str, list[Manifest]] = {}
    for manifest in dataset.manifests:
        devices.setdefault(device_id(manifest), []).append(manifest)
    old = {
        run_id for manifests in devices.values() for run_id in _others(manifests, dataset.trials)
    }
    if not old:
        return dataset
    is_kept = ~pl.col("run_id").is_in(sorted(old))
    runs = "1 run is" if len(old) == 1 else f"{len(old)} runs are"
    note = (
        f"{runs} by another version of Mansard or of its kernels and left out; "
        "'mansard report --mix' shows all of them together"
    )
    return replace(
        dataset,
        runs=dataset.runs.filter(is_kept),
        trials=dataset.trials.filter(is_kept),
        repetitions=dataset.repetitions.filter(is_kept),
        energy=dataset.energy.filter(is_kept),
        samples=dataset.samples.filter(is_kept),
        manifests=tuple(each for each in dataset.manifests if each.run_id not in old),
        measurements=tuple(each for each in dataset.measurements if each.run_id not in old),
        notes=(*dataset.notes, note),
    )


def _others(manifests: Sequence[Manifest], trials: pl.DataFrame) -> Iterator[str]:
    """The runs of one device that do not go with its newest one."""
    last = max(manifests, key=lambda each: (each.started_utc, each.run_id))
    yield from (each.run_id for each in manifests if each.tool_version != last.tool_version)
    own = trials.filter(pl.col("run_id").is_in([each.run_id for each in manifests]))
    sources = own.select("run_id", *_KERNEL, "source_hash").unique()
    wanted = sources.filter(pl.col("run_id") == last.run_id).select(
        *_KERNEL, wanted_hash="source_hash"
    )
    differs = pl.col("source_hash") != pl.col("wanted_hash")
    yield from sources.join(wanted, on=_KERNEL).filter(differs)["run_id"].unique().sort()
