"""Reads the files of a dataset into the frames that everything else is computed from.

Several locations are read as one: every run once, every score once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import msgspec
import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.frames import (
    accuracy_frame,
    concurrent_frame,
    generation_frame,
    layer_frame,
    layer_time_frame,
    measurement_frame,
    offload_frame,
    program_frame,
)
from mansard.analytics.data.layout import (
    ENTRY_FILE,
    MAKE_AGAIN,
    RUN_ENTRY_SCHEMA,
    RUN_TABLES,
    SCORE_ENTRY_SCHEMA,
    RunFiles,
    files_of,
)
from mansard.analytics.data.limits import (
    ROW_TABLES,
    RUN_ID,
    check_accuracy,
    check_contention,
    check_generation,
    check_manifest,
    check_measurement,
    check_multi,
    check_offload,
    check_program,
    check_score,
)
from mansard.analytics.data.names import display_name, first_names
from mansard.analytics.data.run_frames import RUN_SCHEMA, run_frame
from mansard.analytics.data.scores import score_id
from mansard.analytics.data.store import Store
from mansard.core.errors import InputError, SchemaError, StorageError
from mansard.core.processes.line_channel import DECODE_ERRORS
from mansard.core.records import (
    Accuracy,
    ContentionPoint,
    GenerationRun,
    Manifest,
    Measurement,
    ModelScore,
    MultiRun,
    OffloadRun,
    ProgramRun,
)

Decoded = TypeVar("Decoded")


@dataclass(frozen=True, eq=False)
class DatasetPart:
    """Which runs and scores are in one location, and where their rows lie."""

    location: str  # as the user named it
    store: Store
    runs: pl.DataFrame  # RUN_ENTRY_SCHEMA
    scores: pl.DataFrame  # SCORE_ENTRY_SCHEMA
    notes: tuple[str, ...] = ()  # beside those of the runs
    is_made_here: bool = False  # just now, or before, of runs that are still the same
    score_records: Mapping[str, ModelScore] = field(default_factory=dict)  # that are decoded, by id


def read_part(location: str) -> DatasetPart:
    """The runs and scores of the dataset in a folder or at a URL; empty frames for no dataset.

    Raises SchemaError and StorageError where it cannot be read.
    """
    store = Store(location)
    part = DatasetPart(
        location=location,
        store=store,
        runs=store.read_each("runs", ENTRY_FILE, RUN_ENTRY_SCHEMA),
        scores=store.read_each("scores", ENTRY_FILE, SCORE_ENTRY_SCHEMA),
    )
    # They become names of files where this is merged into another dataset.
    ids = pl.concat([part.runs["run_id"], part.scores["score_id"]])
    odd = ids.filter(~ids.str.contains(f"^(?:{RUN_ID.pattern})$").fill_null(value=False))
    if len(odd):
        raise _refusal(f"the id {odd[0]!r} cannot name a file", location)
    for keys in (part.runs["run_id"], part.scores["score_id"]):
        if keys.is_duplicated().any():
            twice = keys.filter(keys.is_duplicated())[0]
            raise _refusal(f"{twice} has two rows", location)
    return part


def _refusal(what: str, where: str) -> SchemaError:
    return SchemaError(what, where=where, fix=MAKE_AGAIN)


def read_filled_part(location: str) -> DatasetPart:
    """As ``read_part``; raises InputError where there is no dataset."""
    part = read_part(location)
    if part.runs.is_empty():
        raise InputError(
            "no dataset of this version of Mansard is here",
            where=location,
            fix="make one: 'mansard data merge RUNS --into FOLDER'",
        )
    return part


def dataset_of(part: DatasetPart) -> Dataset:
    """The frames of all that is in ``part``; SchemaError, InputError or StorageError. The zoo's
    operators are among the networks.

    A run's rows are read from the files that its entry names, as they were written; a dataset
    that was not made here is checked as ``check_part`` does.
    """
    contents = check_part(part)
    by_folder = part.runs.sort("folder", "run_id")
    runs = part.runs.sort("run_id").filter(pl.col("run_kind") == _KERNELS)
    files = [run_files(entry, part.location) for entry in runs.iter_rows(named=True)]
    names = {
        table: [name for file in files for name in files_of(table, file)] for table in RUN_TABLES
    }
    read, scan = part.store.read, part.store.scan
    return Dataset(
        locations=(part.location,),
        runs=runs.select(list(RUN_SCHEMA)),
        trials=read(names["trials"], RUN_TABLES["trials"]).sort("run_id", "trial_id"),
        repetitions=scan(names["repetitions"], RUN_TABLES["repetitions"]),
        energy=read(names["energy"], RUN_TABLES["energy"]).sort(
            "run_id", "trial_id", "window", maintain_order=True
        ),
        samples=scan(names["samples"], RUN_TABLES["samples"]),
        layers=layer_frame(contents.scores),
        manifests=tuple(manifest for manifest in contents.manifests if manifest.kind == _KERNELS),
        scores=contents.scores,
        workload_manifests=tuple(
            manifest
            for manifest in contents.manifests
            if manifest.kind not in {_KERNELS, _ACCURACIES}
        ),
        accuracy_manifests=tuple(
            manifest for manifest in contents.manifests if manifest.kind == _ACCURACIES
        ),
        measurements=contents.measurements,
        programs=contents.programs,
        generations=contents.generations,
        accuracies=contents.accuracies,
        multi=contents.multi,
        contention=contents.contention,
        offloads=contents.offloads,
        notes=(*part.notes, *(note for texts in by_folder["notes"] for note in texts)),
    )


_KERNELS = "kernels"  # the kind of run that has roofs
_ACCURACIES = "accuracies"  # the kind that is in no power mode


def decode(text: str, row_type: type[Decoded], where: str) -> Decoded:
    """A record that a dataset holds as JSON; raises SchemaError."""
    try:
        return msgspec.json.decode(text, type=row_type)
    except DECODE_ERRORS as error:
        raise _refusal(f"holds a {row_type.__name__} of another version: {error}", where) from error


Entry = Mapping[str, object]  # a row of RUN_ENTRY_SCHEMA
_PART = re.compile(r"(?P<table>\w+)/run_id=(?P<run_id>[^/]+)/[0-9a-f]{32}-[0-9]{5,}\.parquet")


def run_files(entry: Entry, where: str) -> RunFiles:
    """The files that an entry names; raises SchemaError for one that is not the run's own."""
    files = decode(str(entry["files_json"]), RunFiles, where)
    for name in files:
        part = _PART.fullmatch(name)
        if part is None or part["table"] not in RUN_TABLES or part["run_id"] != entry["run_id"]:
            what = f"run {entry['run_id']} names the file {name!r}, which is not its own"
            raise _refusal(what, where)
    return files


def files_of_runs(part: DatasetPart) -> RunFiles:
    """The files of all runs of ``part``; raises SchemaError as ``run_files``."""
    files: RunFiles = {}
    for entry in part.runs.iter_rows(named=True):
        files |= run_files(entry, part.location)
    return files


class RunContents(NamedTuple):
    """The records of a part: by the ids of runs, and in the order of their files."""

    manifests: tuple[Manifest, ...]
    scores: tuple[ModelScore, ...]
    measurements: tuple[Measurement, ...]
    programs: tuple[ProgramRun, ...]
    generations: tuple[GenerationRun, ...]
    accuracies: tuple[Accuracy, ...]
    multi: tuple[MultiRun, ...]
    contention: tuple[ContentionPoint, ...]
    offloads: tuple[OffloadRun, ...]


def check_part(part: DatasetPart) -> RunContents:
    """The records of ``part``.

    Of a dataset that was not made here everything is checked to belong to its own run: files are
    those that were written, rows and manifests name the run that they are filed under, and a row
    says the same as the manifest or the record in it. Raises SchemaError where it does not,
    InputError for impossible values.
    """
    where, runs = part.location, part.runs.sort("run_id")
    manifests = tuple(decode(text, Manifest, where) for text in runs["manifest_json"])
    for manifest in manifests:
        check_manifest(manifest, where)
    scored = part.scores.sort("position", "score_id")
    scores = tuple(
        part.score_records.get(identity) or decode(text, ModelScore, where)
        for identity, text in scored.select("score_id", "score_json").iter_rows()
    )
    for score in () if part.is_made_here else scores:
        check_score(score, where)
    files = files_of_runs(part)
    if not part.is_made_here:
        _check_files(part, files)
    contents = RunContents(
        manifests,
        scores,
        _records(part, files, "measurements", Measurement, measurement_frame, check_measurement),
        _records(part, files, "programs", ProgramRun, program_frame, check_program),
        _records(part, files, "generations", GenerationRun, generation_frame, check_generation),
        _records(part, files, "accuracies", Accuracy, accuracy_frame, check_accuracy),
        _records(part, files, "multi", MultiRun, concurrent_frame, check_multi),
        _records(part, files, "contention", ContentionPoint, concurrent_frame, check_contention),
        _records(part, files, "offloads", OffloadRun, offload_frame, check_offload),
    )
    if part.is_made_here:
        return contents
    _check_own(
        where,
        [
            *zip(runs["run_id"], (run.run_id for run in manifests), strict=True),
            *zip(scored["score_id"], map(score_id, scores), strict=True),
        ],
    )
    _check_rows(part, runs, contents, files)
    return contents


def _records(
    part: DatasetPart,
    files: RunFiles,
    table: str,
    row_type: type[Decoded],
    frame_of: Callable[[Sequence[Decoded]], pl.DataFrame],
    check: Callable[[Decoded, str], None],
) -> tuple[Decoded, ...]:
    """The rows of ``table`` as records; raises SchemaError where a row differs from its record.

    Raises InputError, as ``check`` does, for impossible values of a dataset not made here.
    """
    rows = part.store.read(files_of(table, files), RUN_TABLES[table])
    rows = rows.sort("run_id", maintain_order=True)
    records = tuple(decode(text, row_type, part.location) for text in rows["row_json"])
    if not part.is_made_here and not frame_of(records).equals(rows):
        raise _refusal(f"a row of {table} differs from its record", part.location)
    for row in () if part.is_made_here else records:
        check(row, part.location)
    return records


def _check_own(where: str, ids: Iterable[tuple[str, str]]) -> None:
    for filed, named in ids:
        if filed != named:
            raise _refusal(f"the file of {filed} holds another one, {named!r}", where)


def _check_files(part: DatasetPart, files: RunFiles) -> None:
    """Raises SchemaError or StorageError where a file was changed or holds rows of another run."""
    for name, mark in files.items():
        if not part.store.holds(name, mark):
            what = f"{name} is missing or was changed"
            raise StorageError(what, where=part.location, fix=MAKE_AGAIN)
    for table, schema in RUN_TABLES.items():
        part.store.check_owners(files_of(table, files), schema)


def _check_rows(
    part: DatasetPart, runs: pl.DataFrame, contents: RunContents, files: RunFiles
) -> None:
    """Raises SchemaError where a row is not its run's own."""
    where = part.location
    for manifest, entry in zip(contents.manifests, runs.iter_rows(named=True), strict=True):
        repeated = run_frame([manifest], {manifest.run_id: entry["n_power_samples"]})
        if any(entry[name] != value for name, value in repeated.row(0, named=True).items()):
            raise _refusal(f"the row of run {manifest.run_id} differs from its manifest", where)
        of_others = set(ROW_TABLES.values()) - {ROW_TABLES[manifest.kind]}
        if any(files_of(table, run_files(entry, where)) for table in of_others):
            raise _refusal(f"run {manifest.run_id} has rows of another kind of run", where)
    times = part.store.read(files_of("layer_times", files), RUN_TABLES["layer_times"])
    if not layer_time_frame(contents.measurements).equals(
        times.sort("run_id", maintain_order=True)
    ):
        raise _refusal("times of layers differ from those of their networks", where)
    repeats = ["run_id", "machine_id", "mode"]
    trials = part.store.read(files_of("trials", files), RUN_TABLES["trials"]).select(repeats)
    for run_id, *_ in trials.unique().join(runs, on=repeats, how="anti").iter_rows():
        raise _refusal(f"a trial of run {run_id} is of another machine or mode", where)


def join(parts: Sequence[DatasetPart]) -> Dataset:
    """One dataset of several locations, at least one; raises InputError as ``without_repeats``."""
    locations = tuple(part.location for part in parts)
    datasets = [dataset_of(part) for part in without_repeats(parts)]
    if len(datasets) == 1:
        return replace(datasets[0], locations=locations).without_operators()
    scores = tuple(score for dataset in datasets for score in dataset.scores)
    trials = pl.concat([dataset.trials for dataset in datasets])
    energy = pl.concat([dataset.energy for dataset in datasets])
    joined = Dataset(
        locations=locations,
        runs=pl.concat([dataset.runs for dataset in datasets]).sort("run_id"),
        trials=trials.sort("run_id", "trial_id"),
        repetitions=pl.concat([dataset.repetitions for dataset in datasets]),
        energy=energy.sort("run_id", "trial_id", "window", maintain_order=True),
        samples=pl.concat([dataset.samples for dataset in datasets]),
        layers=layer_frame(scores),
        manifests=_by_run(dataset.manifests for dataset in datasets),
        scores=scores,
        workload_manifests=_by_run(dataset.workload_manifests for dataset in datasets),
        accuracy_manifests=_by_run(dataset.accuracy_manifests for dataset in datasets),
        measurements=_by_run(dataset.measurements for dataset in datasets),
        programs=_by_run(dataset.programs for dataset in datasets),
        generations=_by_run(dataset.generations for dataset in datasets),
        accuracies=_by_run(dataset.accuracies for dataset in datasets),
        multi=_by_run(dataset.multi for dataset in datasets),
        contention=_by_run(dataset.contention for dataset in datasets),
        offloads=_by_run(dataset.offloads for dataset in datasets),
        notes=tuple(dict.fromkeys(note for dataset in datasets for note in dataset.notes)),
    )
    return joined.without_operators()


_OfRun = TypeVar(
    "_OfRun",
    Manifest,
    Measurement,
    ProgramRun,
    GenerationRun,
    Accuracy,
    MultiRun,
    ContentionPoint,
    OffloadRun,
)


def _by_run(several: Iterable[Sequence[_OfRun]]) -> tuple[_OfRun, ...]:
    return tuple(sorted((row for rows in several for row in rows), key=lambda row: row.run_id))


def without_repeats(parts: Sequence[DatasetPart]) -> list[DatasetPart]:
    """The locations without duplicates.

    Of a run that is in several locations the most complete copy is kept, of a score the copy in the
    last location. Raises InputError where two copies of a run hold different trials.
    """
    runs = _chosen_runs(parts)
    copies = [
        [key for key in part.runs["run_id"] if runs[key] != at] for at, part in enumerate(parts)
    ]
    scores = {score_id: at for at, part in enumerate(parts) for score_id in part.scores["score_id"]}
    return [
        replace(
            part,
            runs=_filter(part.runs, [runs[key] == at for key in part.runs["run_id"]]),
            scores=_filter(part.scores, [scores[key] == at for key in part.scores["score_id"]]),
            notes=(*part.notes, *_copy_notes(part.location, copies[at])),
        )
        for at, part in enumerate(parts)
    ]


def _copy_notes(location: str, run_ids: Sequence[str]) -> Iterator[str]:
    if run_ids:
        runs = "1 run is" if len(run_ids) == 1 else f"{len(run_ids)} runs are"
        yield (
            f"{display_name(location)}: {runs} in another folder too, and counted once: "
            f"{first_names(run_ids)}"
        )


def _filter(frame: pl.DataFrame, mask: Sequence[bool]) -> pl.DataFrame:
    return frame.filter(pl.Series(mask, dtype=pl.Boolean))


def _chosen_runs(parts: Sequence[DatasetPart]) -> dict[str, int]:
    """Which of ``parts`` each run is taken from."""
    chosen: dict[str, tuple[int, Entry]] = {}
    for at, part in enumerate(parts):
        for entry in part.runs.iter_rows(named=True):
            run_id = entry["run_id"]
            other = chosen.get(run_id)
            if other is None or is_fuller(part, entry, parts[other[0]], other[1]):
                chosen[run_id] = (at, entry)
    return {run_id: at for run_id, (at, _) in chosen.items()}


def is_fuller(part: DatasetPart, entry: Entry, other_part: DatasetPart, other: Entry) -> bool:
    """Whether ``entry`` holds more of a run than ``other``, another copy of the same.

    Raises InputError if neither holds all trials of the other, or if a trial, the machine or the
    mode differs: then one id stands for two measurements.
    """
    if entry["content"] == other["content"] and _are_same(entry, other):
        return False
    copies = ((part, entry), (other_part, other))
    here, there = (set(_trial_ids(*copy)) for copy in copies)
    common = sorted(here & there)
    if (
        not (here <= there or there <= here)
        or _fixed(part, entry) != _fixed(other_part, other)
        or not all(_have_same(copies, table, common) for table in _MEASURED)
    ):
        raise InputError(
            f"run {entry['run_id']} is also in {other_part.location}, with other trials",
            where=part.location,
            fix="it was measured twice under one id; leave one of the two out",
        )
    return _fullness(entry, len(here)) > _fullness(other, len(there))


def _are_same(entry: Entry, other: Entry) -> bool:
    """Whether two entries name the same files; an object store has no digests to compare."""
    one, two = (run_files(copy, "") for copy in (entry, other))
    marks = [(one[name], two[name]) for name in one.keys() & two.keys()]
    return entry["manifest_json"] == other["manifest_json"] and all(
        a == b or not a.digest or not b.digest for a, b in marks
    )


def _fullness(entry: Entry, n_trials: int) -> tuple[int, bool, int]:
    n_samples = entry["n_power_samples"]
    assert isinstance(n_samples, int)  # noqa: S101 - by its schema
    return n_trials, entry["finished_utc"] is not None, n_samples


_CHANGING = {"idle", "image_digest", "finished_utc", "finished_monotonic_s", "unknown"}


def _fixed(part: DatasetPart, entry: Entry) -> dict[str, object]:
    """A run's manifest without what changes while it is measured."""
    manifest = decode(str(entry["manifest_json"]), Manifest, part.location)
    return {
        name: getattr(manifest, name)
        for name in manifest.__struct_fields__
        if name not in _CHANGING
    }


_MEASURED = (
    *("trials", "repetitions", "energy", "measurements", "layer_times", "programs"),
    *("generations", "accuracies", "multi", "contention", "offloads"),
)
_DERIVED = ("machine_id", "mode", "disturbances", "clock_hz")  # of trials: by this version


def _have_same(
    copies: Sequence[tuple[DatasetPart, Entry]], table: str, trials: Sequence[str]
) -> bool:
    """Whether two copies of a run say the same of ``trials``."""
    derived = _DERIVED if table == "trials" else ()
    one, two = (
        _rows(*copy, table)
        .filter(pl.col("trial_id").is_in(trials))
        .sort("trial_id", maintain_order=True)
        .drop(derived)
        for copy in copies
    )
    return one.equals(two)


def _trial_ids(part: DatasetPart, entry: Entry) -> pl.Series:
    """The trials that have a result; one that failed may have been measured later."""
    table = ROW_TABLES.get(str(entry["run_kind"]), "trials")  # another kind is refused later
    rows = _rows(part, entry, table)
    if "failure" in rows.columns:
        rows = rows.filter(pl.col("failure").is_null())
    return rows["trial_id"]


def _rows(part: DatasetPart, entry: Entry, table: str) -> pl.DataFrame:
    return part.store.read(files_of(table, run_files(entry, part.location)), RUN_TABLES[table])
