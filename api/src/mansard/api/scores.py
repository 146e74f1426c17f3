"""Work and traffic of networks: many files at a time, those of a bench, and the zoo."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.api.parallel import Work, do_work
from mansard.api.reporter import SILENT, Reporter
from mansard.core.errors import InputError, MansardError, ModelError, StorageError, UsageError
from mansard.core.files import find_status, make_folder
from mansard.core.records import Measurement, ModelScore

if TYPE_CHECKING:
    from mansard.estimator import Given, Loaded, Settings, Skeleton
    from mansard.estimator.zoo import Entry


Stage = tuple[int, int]  # new tokens, cached tokens
BENCH_PRECISION = "fp32"  # what the kernels of a plain machine are measured in


class Scores(msgspec.Struct, frozen=True):
    """The scores of some files, and why there are not more of them."""

    scores: tuple[ModelScore, ...]
    errors: tuple[MansardError, ...]


def score(  # noqa: PLR0913 - one keyword for each thing a user can state
    models: Sequence[Path | str],
    settings: Settings | None = None,
    *,
    batches: Sequence[int] = (),
    prefill: int | None = None,
    decode: int | None = None,
    jobs: int | None = None,
    on: str | None = None,
    outputs: Sequence[Path] = (),
    reporter: Reporter = SILENT,
) -> Scores:
    """FLOPs, parameters and bytes of every layer of networks, without executing them.

    ``models``: ONNX files, folders of them, or names of the zoo. Each is scored for every batch
    size of ``batches`` (none: the file's own, 1 where that is open), and of a decoder for every
    stage: ``prefill`` reads so many tokens with nothing cached, ``decode`` makes one token with so
    many cached; its caches grow in place unless ``settings.kv_cache`` says otherwise.
    ``jobs``: files scored at a time, in processes of their own; None: as many as
    CPUs. ``on``: address of a scheduler of Dask whose workers score them instead; files are read
    here. ``outputs``: files that the caller writes afterwards.

    A file that cannot be scored stops no other; of a single one the error is raised. Raises
    InputError for a folder without ONNX files, UsageError for an unknown name, for an output that
    is one of the models, and for a given name that means nothing in any of several models.
    """
    from mansard.estimator import Settings

    stages = [(prefill, 0)] if prefill else []
    stages += [(1, decode)] if decode else []
    found = _find_models(models)
    _check_outputs(found, outputs)
    request = _Request(
        settings or Settings(), tuple(batches) or (None,), tuple(stages) or (None,), len(found) > 1
    )
    work = Work(
        function=_score_file,
        title="Scoring",
        name=lambda path: path.name,
        lost=_lost,
        shared=request,
        prepare=_read_file,
    )
    outcomes = do_work(work, found, jobs=jobs, on=on, reporter=reporter)
    _check_understood(outcomes, request)
    if len(outcomes) == 1 and outcomes[0].errors and not outcomes[0].scores:
        raise outcomes[0].errors[0]
    return Scores(
        tuple(score for outcome in outcomes for score in outcome.scores),
        tuple(error for outcome in outcomes for error in outcome.errors),
    )


class _Request(msgspec.Struct, frozen=True):
    """Every file is scored for each batch and each stage of a decoder."""

    settings: Settings
    batches: tuple[int | None, ...]
    stages: tuple[Stage | None, ...]
    is_one_of_many: bool  # a name may then be another file's


class _Outcome(msgspec.Struct, frozen=True):
    """The scores of one file, and why there are not more of them."""

    path: Path
    scores: tuple[ModelScore, ...]
    errors: tuple[MansardError, ...]
    known_names: frozenset[str] = frozenset()  # given names that mean something in it


def find_onnx_files(sources: Sequence[Path]) -> list[Path]:
    """The ONNX files among ``sources``, those in folders included, each once.

    Raises InputError for a folder without any, or one that cannot be read.
    """
    found: dict[Path, None] = {}
    for source in sources:
        if not source.is_dir():
            found[source] = None
            continue
        inside = sorted(_walk(source))
        if not inside:
            raise InputError(
                "holds no .onnx file", where=str(source), fix="give a folder of ONNX models"
            )
        found.update(dict.fromkeys(inside))
    return list(found)


def onnx_files(name: str) -> Sequence[Path] | None:
    """The ONNX files that a name stands for; None where it is no path."""
    path = Path(name)
    return find_onnx_files([path]) if _is_file(path) else None


def _is_file(path: Path) -> bool:
    """Whether it is a file or a folder, there or not; else it is a name."""
    return path.suffix.lower() == ".onnx" or len(path.parts) != 1 or path.exists()


def _find_models(models: Sequence[Path | str]) -> list[Path]:
    """Files, those in folders, and names of the zoo: the paths that are no files."""
    found: dict[Path, None] = {}
    for model in models:
        files = onnx_files(str(model))
        if files is None:
            from mansard.estimator import zoo

            names = zoo.family(str(model)) or (zoo.entry(str(model)).name,)
            files = [*map(Path, names)]
        found.update(dict.fromkeys(files))
    return list(found)


def _check_outputs(models: Sequence[Path], outputs: Sequence[Path]) -> None:
    """Raise UsageError where a file to write is a model, or two of them are the same."""
    taken = {os.path.realpath(model) for model in models}
    for output in outputs:
        path = os.path.realpath(output)
        if path in taken:
            raise UsageError(
                f"{str(output)!r} would be written over a model or another result",
                fix="choose another name",
            )
        taken.add(path)


def _walk(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        where = str(error.filename or folder)
        raise InputError(error.strerror or str(error), where=where, fix="check its permissions")

    for path, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        yield from (Path(path, name) for name in names if name.lower().endswith(".onnx"))


class _Read(msgspec.Struct, frozen=True):
    """A file, or a network of the zoo with its usual dimensions, without weights.

    Another machine can score it; or why it cannot be read.
    """

    path: Path
    skeleton: Skeleton | MansardError
    usual: dict[str, int]


def _read_file(path: Path) -> _Read:
    from mansard.estimator import read_skeleton

    try:
        if _is_file(path):
            return _Read(path, read_skeleton(path), {})
        from mansard.estimator import zoo

        name = str(path)
        usual = {dim: size for dim, size in zoo.entry(name).dims if dim != "batch"}
        return _Read(path, read_skeleton(zoo.read(name), name), usual)
    except MansardError as error:
        return _Read(path, error, {})


def _score_file(read: _Read, request: _Request) -> _Outcome:
    """Score a file in every case; no error of the file is raised."""
    from mansard.estimator import load
    from mansard.estimator.shape_inference.binding import keep_known_names

    path, usual = read.path, read.usual
    if isinstance(read.skeleton, MansardError):
        return _Outcome(path, (), (read.skeleton,))
    try:
        loaded = load(read.skeleton)
    except MansardError as error:
        return _Outcome(path, (), (error,))
    settings = request.settings
    if request.is_one_of_many:
        given = keep_known_names(loaded.model, settings.given)
        settings = msgspec.structs.replace(settings, given=given)
    scores: list[ModelScore] = []
    errors: dict[str, MansardError] = {}
    for batch in request.batches:
        for stage in request.stages:
            try:
                scores.append(_score_case(loaded, settings, batch, stage, usual))
            except MansardError as error:
                errors[str(error)] = error
    return _Outcome(path, tuple(scores), tuple(errors.values()), _names_of(settings.given))


def _score_case(
    loaded: Loaded,
    settings: Settings,
    batch: int | None,
    stage: Stage | None,
    usual: Mapping[str, int],
) -> ModelScore:
    """One score. What is given wins over the stage, and both over the usual dimensions."""
    from mansard.estimator import score_loaded
    from mansard.estimator.scoring import naming_model
    from mansard.estimator.shape_inference.dimensions import (
        check_batch_given,
        with_open_batch,
        with_usual,
    )

    given, kv_cache = msgspec.structs.replace(settings.given, batch=batch), settings.kv_cache
    notes: tuple[str, ...] = ()
    if stage is not None:
        kv_cache = kv_cache or "in-place"
        from mansard.estimator import decoding

        given, notes = decoding.with_stage(loaded, given, decoding.Stage(*stage))
    with naming_model(loaded.where):
        check_batch_given(loaded.model, given)
    given = with_usual(loaded.model, given, usual)
    given = with_open_batch(loaded.model, given, is_guessed_too=False)
    settings = msgspec.structs.replace(settings, given=given, kv_cache=kv_cache)
    scored = score_loaded(loaded, settings)
    return msgspec.structs.replace(scored, notes=(*notes, *scored.notes)) if notes else scored


def _names_of(given: Given) -> frozenset[str]:
    """Every name that a person gave."""
    return frozenset((*given.dims, *given.trips, *given.values, *given.shapes))


def _check_understood(outcomes: Sequence[_Outcome], request: _Request) -> None:
    """Raise UsageError for a name that means nothing in any of the files."""
    known_names = frozenset[str]().union(*(outcome.known_names for outcome in outcomes))
    strangers = sorted(_names_of(request.settings.given) - known_names)
    if strangers and request.is_one_of_many:
        raise UsageError(
            f"none of the models knows {', '.join(map(repr, strangers))}",
            fix="'mansard score' of one file says which names it has",
        )


def _lost(path: Path) -> _Outcome:
    error = StorageError(
        "the process that scored it was killed, maybe for want of memory",
        where=str(path),
        fix="score it alone, or with fewer --jobs",
    )
    return _Outcome(path, (), (error,))


def score_zoo(
    name: str,
    *,
    batch: int = 1,
    dims: Mapping[str, int] | None = None,
    precision: str | None = BENCH_PRECISION,
) -> ModelScore:
    """Inference of a network of the zoo, with its usual dimensions where none are given.

    Raises UsageError for an unknown name.
    """
    from mansard.estimator import score, zoo

    usual = {dim: size for dim, size in zoo.entry(name).dims if dim != "batch"}
    given = {dim: size for dim, size in (dims or {}).items() if dim in usual}
    return score(zoo.read(name), name=name, batch=batch, dims=usual | given, precision=precision)


def score_networks(
    models: Sequence[Path | str],
    batches: Sequence[int],
    dims: Mapping[str, int],
    reporter: Reporter = SILENT,
) -> list[ModelScore]:
    """Scores of a bench: of ``models``, or of the whole zoo, once for every batch size.

    A file whose batch is baked in is scored as it is, and one with operators that are not known
    without them; any other fault of a file raises ModelError, because a bench of a broken model has
    no use. A dimension that no network of
    the zoo has raises UsageError.
    """
    from mansard.estimator import zoo

    if models:
        return [
            score
            for path in _find_models(models)
            for score in _score_batches(path, batches, dims, reporter)
        ]
    names = zoo.names()
    _check_dimensions(dims, {dim for name in names for dim in dict(zoo.entry(name).dims)})
    scores = []
    with reporter.progress("Scoring the zoo") as progress:
        for number, name in enumerate(names, start=1):
            scores += [score_zoo(name, batch=batch, dims=dims) for batch in batches]
            progress.update(number, len(names), None, name)
    return scores


def keep_scores(runs: Path, scores: Sequence[ModelScore]) -> None:
    """Add ``scores`` to those in a folder of runs; one that is there already stays as it is."""
    from mansard.analytics.data.dataset import score_id
    from mansard.core.jsonl import read_rows, write_rows

    path = runs / "scores.jsonl"
    there = read_rows(path, ModelScore, runs).rows if find_status(path, runs) is not None else ()
    known = {score_id(score) for score in there}
    new = {score_id(score): score for score in scores}
    added = [score for identity, score in new.items() if identity not in known]
    if added:
        make_folder(runs)
        write_rows(path, ModelScore, [*there, *added], runs)


def replace_scores(runs: Path, scores: Sequence[ModelScore]) -> None:
    """Write ``scores`` in the place of those in a folder of runs, and keep those of networks that
    were run there: what was measured of them stands beside what is predicted."""
    from mansard.analytics.data.dataset import score_id
    from mansard.core.jsonl import read_rows, write_rows

    path = runs / "scores.jsonl"
    there: Sequence[ModelScore] = ()
    measured: set[str] = set()
    with contextlib.suppress(MansardError):  # of another version: as if they were not there
        if find_status(path, runs) is not None:
            there = read_rows(path, ModelScore, runs).rows
    for rows in runs.glob("*/measurements.jsonl"):
        with contextlib.suppress(MansardError):
            measured |= {row.model_hash for row in read_rows(rows, Measurement, runs).rows}
    new = {score_id(score) for score in scores}
    kept = [s for s in there if s.model_hash in measured and score_id(s) not in new]
    make_folder(runs)
    write_rows(path, ModelScore, [*scores, *kept], runs)


def _check_dimensions(dims: Mapping[str, int], known: set[str]) -> None:
    """A dimension that no network of the zoo has would be ignored without a word."""
    for name in dims:
        if name == "batch" or name not in known:
            others = ", ".join(sorted(known - {"batch"}))
            raise UsageError(
                f"no network of the zoo has a dimension {name!r} to set",
                fix=f"use --batch for the batch; the others are {others}",
            )


def _score_batches(
    path: Path, batches: Sequence[int], dims: Mapping[str, int], reporter: Reporter
) -> list[ModelScore]:
    from mansard.estimator import score, totals

    if not _is_file(path):
        return [score_zoo(str(path), batch=batch, dims=dims) for batch in batches]

    def score_as(batch: int | None) -> ModelScore:
        return score(path, batch=batch, dims=dims, precision=BENCH_PRECISION, allow_unknown=True)

    scores: list[ModelScore] = []
    errors: list[ModelError] = []
    for batch in batches:
        try:
            scores.append(score_as(batch))
        except ModelError as error:
            errors.append(error)
    if not scores:
        # The file's own batch; if it is not the batch that fails, this says what it is.
        scores.append(score_as(None))
    for fault in errors:
        reporter.note(f"note: a batch size was left out: {fault}")
    sums = totals(scores[0])
    if sums.n_unknown_layers:
        reporter.note(
            f"note: {path}: {sums.n_unknown_layers} of {sums.n_layers} layers are unknown, so no "
            f"times are predicted; 'mansard score {path} --allow-unknown' says why"
        )
    return scores


def encode_scores(scores: Sequence[ModelScore], form: Literal["csv", "parquet"]) -> bytes:
    """The layers of ``scores`` as rows of a table."""
    from mansard.analytics.data.frames import encode_layers

    return encode_layers(scores, form)


class ZooNetwork(msgspec.Struct, frozen=True):
    """A network of the zoo, and its score at batch 1 in FP32."""

    entry: Entry
    score: ModelScore


def list_networks() -> tuple[Entry, ...]:
    """The networks of the zoo with their inputs and what is published; convolutions last."""
    from mansard.estimator import zoo

    return (*zoo.CATALOG, *zoo.CONVOLUTIONS)


def show_network(name: str) -> ZooNetwork:
    """What one network is, where its figures come from, and its work; raises UsageError."""
    from mansard.estimator import zoo

    return ZooNetwork(zoo.entry(name), score_zoo(name))


def write_networks(folder: Path, names: Sequence[str] = ()) -> tuple[Path, ...]:
    """Write networks of the zoo as ONNX files, all by default; raises UsageError, StorageError.

    ``convolutions`` stands for all single ones.
    """
    from mansard.estimator import zoo

    wanted = [each for name in names or zoo.names() for each in zoo.family(name) or (name,)]
    entries = [zoo.entry(name) for name in wanted]  # known before one is written
    make_folder(folder)
    return tuple(zoo.write(entry.name, folder) for entry in entries)
