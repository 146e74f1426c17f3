"""Opens the locations of ``--runs`` as one dataset, and merges runs of many boards into one.

Runs of one device that different versions of Mansard measured, or different sources of one kernel,
are refused. Boards are never mixed: two of one name stand side by side, each with its own label.
With ``allow_mixed`` both are allowed: versions are noted, and boards that are alike in all but
their serial number count as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from msgspec.structs import replace as replaced

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.dataset_parts import (
    DatasetPart,
    check_part,
    files_of_runs,
    is_fuller,
    join,
    read_filled_part,
    read_part,
    run_files,
    without_repeats,
)
from mansard.analytics.data.frames import layer_frame, to_json
from mansard.analytics.data.ingest import update_dataset
from mansard.analytics.data.layout import ENTRY_FILE, RUN_TABLES, RunFiles, run_entry
from mansard.analytics.data.machines import device_id, machine_id
from mansard.analytics.data.names import display_name, first_names, processor_name
from mansard.analytics.data.run_folder import MANIFEST
from mansard.analytics.data.scores import score_id
from mansard.analytics.data.store import Store, is_url, write_scores
from mansard.core.errors import InputError, UsageError
from mansard.core.records import Manifest, ModelScore, with_known

_ANY_BOARD = "any"  # instead of the hash of a serial number


def add_scores(dataset: Dataset, scores: Sequence[ModelScore]) -> Dataset:
    """``dataset`` with ``scores``; one that it has already stays as it is."""
    known = set(map(score_id, dataset.scores))
    by_id = {score_id(score): score for score in scores}
    new = [score for identity, score in by_id.items() if identity not in known]
    layers = pl.concat([dataset.layers, layer_frame(new)])
    return replace(dataset, scores=(*dataset.scores, *new), layers=layers)


def unmixed(dataset: Dataset) -> Dataset:
    """``dataset``, with a note for boards of one name; InputError where runs should not mix."""
    for what in _mixtures(dataset):
        raise InputError(
            what,
            where=", ".join(dataset.locations),
            fix="report them from folders of their own, or mix them with --allow-mixed",
        )
    notes = [
        f"{len(boards)} boards are called {_device(boards)}; each has its own roofs; "
        "--allow-mixed takes them for one"
        for boards in _alike(dataset.all_manifests)
    ]
    return replace(dataset, notes=(*dataset.notes, *notes))


def mixed(dataset: Dataset) -> Dataset:
    """``dataset`` with boards that are alike as one device; its notes say what was mixed."""
    alike = _alike(dataset.all_manifests)
    whats = [
        *_mixtures(dataset),
        *(f"{len(boards)} boards called {_device(boards)} count as one" for boards in alike),
    ]
    one = {device_id(manifest) for boards in alike for manifest in boards}

    def as_one(manifests: Iterable[Manifest]) -> tuple[Manifest, ...]:
        return tuple(_without_serial(m) if device_id(m) in one else m for m in manifests)

    manifests = as_one(dataset.manifests)
    ids = {manifest.run_id: machine_id(manifest.machine) for manifest in manifests}
    machine = pl.col("run_id").replace_strict(ids, return_dtype=pl.String).alias("machine_id")
    return replace(
        dataset,
        manifests=manifests,
        workload_manifests=as_one(dataset.workload_manifests),
        accuracy_manifests=as_one(dataset.accuracy_manifests),
        runs=dataset.runs.with_columns(machine),
        trials=dataset.trials.with_columns(machine),
        notes=(*dataset.notes, *(f"mixed, as --allow-mixed says: {what}" for what in whats)),
    )


def _alike(manifests: Sequence[Manifest]) -> list[list[Manifest]]:
    """Devices that differ in their serial number alone: the first run of each, by kind."""
    kinds: dict[str, dict[str, Manifest]] = {}
    for manifest in manifests:
        copies = kinds.setdefault(device_id(_without_serial(manifest)), {})
        copies.setdefault(device_id(manifest), manifest)
    return [list(copies.values()) for copies in kinds.values() if len(copies) > 1]


def _without_serial(manifest: Manifest) -> Manifest:
    return replaced(manifest, machine=with_known(manifest.machine, machine_hash=_ANY_BOARD))


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
    of_device = trials.filter(pl.col("run_id").is_in([manifest.run_id for manifest in manifests]))
    kernels = (
        of_device.select("kernel", "backend", "precision", "source_hash", "run_id")
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
    groups: dict[str, list[str]] = {}
    for key, run_id in sorted(pairs):
        groups.setdefault(key, []).append(run_id)
    return groups


def _listed(groups: dict[str, list[str]]) -> str:
    """``0.1.0 (runs a, b) and 0.2.0 (run c)``."""
    parts = []
    for key, run_ids in groups.items():
        word = "run" if len(run_ids) == 1 else "runs"
        parts.append(f"{display_name(key)} ({word} {first_names(run_ids)})")
    return " and ".join(parts)


def _device(manifests: Sequence[Manifest]) -> str:
    return display_name(processor_name(manifests[0]))


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
        f"{runs} by another version of Mansard or of its kernels and left out "
        f"({first_names(sorted(old))}); 'mansard report --allow-mixed' shows all of them together"
    )
    return replace(
        dataset,
        runs=dataset.runs.filter(is_kept),
        trials=dataset.trials.filter(is_kept),
        repetitions=dataset.repetitions.filter(is_kept),
        energy=dataset.energy.filter(is_kept),
        samples=dataset.samples.filter(is_kept),
        manifests=tuple(run for run in dataset.manifests if run.run_id not in old),
        notes=(*dataset.notes, note),
    )


def _others(manifests: Sequence[Manifest], trials: pl.DataFrame) -> Iterator[str]:
    """The runs of one device that do not go with its newest one."""
    last = max(manifests, key=lambda manifest: (manifest.started_utc, manifest.run_id))
    yield from (
        manifest.run_id for manifest in manifests if manifest.tool_version != last.tool_version
    )
    of_device = trials.filter(pl.col("run_id").is_in([manifest.run_id for manifest in manifests]))
    sources = of_device.select("run_id", *_KERNEL, "source_hash").unique()
    wanted = sources.filter(pl.col("run_id") == last.run_id).select(
        *_KERNEL, wanted_hash="source_hash"
    )
    differs = pl.col("source_hash") != pl.col("wanted_hash")
    yield from sources.join(wanted, on=_KERNEL).filter(differs)["run_id"].unique().sort()


def open_runs(
    locations: Sequence[str | Path], *, allow_mixed: bool = False, newest_only: bool = False
) -> Dataset:
    """All runs of ``locations``: folders of runs, datasets that were merged, URLs of such.

    A folder of runs is ingested first. Runs of one device by different
    versions of Mansard, or from different sources of a kernel, raise InputError unless
    ``allow_mixed``, which also takes boards that are alike for one, or ``newest_only``, which
    leaves out what does not go with the newest run of a device. Raises what ``ingest`` and
    ``join`` raise.
    """
    if not locations:
        raise UsageError("no folder of runs is given", fix="give one or more")
    parts = [
        open_part(str(location))
        for location in dict.fromkeys(str(location) for location in locations)
    ]
    dataset = newest(join(parts)) if newest_only else join(parts)
    return mixed(dataset) if allow_mixed else unmixed(dataset)


def open_part(location: str) -> DatasetPart:
    """One location; a folder of runs is ingested, anything else has to hold a dataset."""
    if not is_url(location):
        if not holds_dataset(Path(location)):
            return update_dataset(Path(location))
        if holds_runs(Path(location)):
            raise InputError(
                "holds a dataset and folders of runs beside it",
                where=location,
                fix="move the runs into a folder of their own",
            )
    return read_filled_part(location)


def holds_dataset(folder: Path) -> bool:
    """Whether a folder is a dataset itself, as ``mansard data merge`` writes one."""
    return any((folder / "runs").glob("run_id=*/*.parquet"))


def holds_runs(folder: Path) -> bool:
    """Whether there are folders of runs in it, as ``mansard bench`` makes them."""
    return any(folder.glob(f"*/{MANIFEST}"))


@dataclass(frozen=True)
class Merged:
    """The result of ``merge``: runs that are new, that grew, and that were there already."""

    place: str  # its location; the name is that of the JSON
    n_new: int
    n_grown: int
    n_same: int


def merge(locations: Sequence[str | Path], into: str) -> Merged:
    """Bring the runs and scores of ``locations`` into the dataset ``into``.

    ``into`` is a folder or a URL; boards may merge into one at the same time, for each run has
    files of its own. Merging again changes nothing. Raises UsageError where ``into`` is a
    folder of runs, InputError as ``without_repeats``, StorageError where writing fails; SchemaError
    and StorageError, before anything is written, where something is not its run's own.
    """
    if not is_url(into) and holds_runs(Path(into)):
        raise UsageError(
            f"{into!r} is a folder of runs, no dataset", fix="merge into a folder of its own"
        )
    opened = [open_part(str(location)) for location in locations]
    for part in opened:
        check_part(part)
    parts = without_repeats(opened)
    store = Store(into)
    with store.locked():
        return _merge(parts, into)


def _merge(parts: Sequence[DatasetPart], into: str) -> Merged:
    there = read_part(into)
    _remove_left(there)
    known = {row["run_id"]: row for row in there.runs.iter_rows(named=True)}
    n_new = n_grown = n_same = 0
    for part in parts:
        for (run_id,), entry in part.runs.partition_by("run_id", as_dict=True).items():
            old = known.get(run_id)
            if old is not None and not is_fuller(part, entry.row(0, named=True), there, old):
                n_same += 1
                continue
            n_new, n_grown = n_new + (old is None), n_grown + (old is not None)
            files = _copy(part, entry, there.store)
            if old is not None:
                # After the new entry: a reader in between finds all files of either.
                there.store.remove(run_files(old, into).keys() - files.keys())
        write_scores(there.store, part.scores, there.scores)
    return Merged(into, n_new, n_grown, n_same)


def _remove_left(there: DatasetPart) -> None:
    """Remove what a merge that was killed left: files of runs whose entry does not name them.

    A run that another version has an entry of is left alone: its files are in that entry.
    """
    foreign = there.store.foreign("runs", ENTRY_FILE)
    there.store.remove_others(tuple(RUN_TABLES), files_of_runs(there), foreign)


def _copy(part: DatasetPart, entry: pl.DataFrame, into: Store) -> RunFiles:
    """Write a run's rows, then its entry, which says that it is there."""
    files = run_files(entry.row(0, named=True), part.location)
    copied = {
        name: into.write(name, part.store.read([name], RUN_TABLES[name.partition("/")[0]]))
        for name in files
    }
    into.write(
        run_entry(entry["run_id"].item()),
        entry.with_columns(pl.lit(to_json(copied)).alias("files_json")),
    )
    return copied
