"""Work and traffic of networks: many files at a time, those of a bench, and the zoo."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.api.inputs import Networks, as_list
from mansard.api.result import Result
from mansard.core.brief import cells
from mansard.core.errors import MansardError, StorageError, UsageError
from mansard.core.formats.onnx import model_files, named
from mansard.core.precision import Precision, parse_precision
from mansard.core.records import ModelScore, named_notes
from mansard.core.storage.files import make_folder, storage_errors
from mansard.estimator import zoo
from mansard.estimator.decoding import USUAL_STAGES, Stage, stage_name, with_stage
from mansard.estimator.model import Given
from mansard.estimator.score_context import Settings
from mansard.estimator.scoring import (
    IMAGES,
    Loaded,
    Skeleton,
    is_language_model,
    known_language_models,
    known_network,
    load,
    load_network,
    read_network,
    score_loaded,
    with_defaults,
)
from mansard.estimator.shape_inference.binding import keep_known_names
from mansard.estimator.summary import Totals, totals
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.estimator.zoo import Entry


CPU_PRECISION = "fp32"  # kernels of a CPU unpack the weights of a language model to it


# Of a language model: what a report shows over the context.
BENCH_STAGES = (*USUAL_STAGES, Stage(1, 4096), Stage(1, 16384), Stage(1, 65536))


_SCORED = ("model", "batch", "precision")
_MAIN = ("work_flop", "parameters", "traffic_bytes", "fused_traffic_bytes", "fused_intensity")


class Scores(Result, frozen=True):
    """The scores of networks, and the errors of those that cannot be scored."""

    scores: tuple[ModelScore, ...]
    errors: tuple[MansardError, ...]

    def as_rows(self) -> list[dict[str, object]]:
        """A row for each score: which network, and its totals."""
        return [
            {name: getattr(one, name) for name in _SCORED}
            | dict.fromkeys(_MAIN)
            | cells(totals(one))
            for one in self.scores
        ]


def score(  # noqa: PLR0913 - one keyword for each thing a user can state
    models: Networks,
    settings: Settings | None = None,
    *,
    batches: Sequence[int] = (),
    precisions: Sequence[str] = (),
    prefill: int | None = None,
    decode: int | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    outputs: Sequence[Path] = (),
    reporter: Reporter = SILENT,
) -> Scores:
    """Count the FLOPs, parameters and bytes of every layer of networks, without executing them.

    ``models``: ONNX or GGUF files, folders of them or of Hugging Face, names of ``list_networks``,
    or ``onnx.ModelProto``. ``settings``: phase, precision and dimensions. ``batches``: batch sizes;
    by default that of the file, or 1 where it is open. ``precisions``: names such as "fp16"; by
    default that of ``settings``. ``prefill`` and ``decode``: tokens of a decoder's stages; prefill
    reads tokens with an empty cache, decode makes one token with ``decode`` cached. Caches grow in
    place unless ``settings.kv_cache`` says otherwise. ``jobs``: processes; by default one for each
    CPU. ``dask``: address of a Dask scheduler, whose workers score instead. ``outputs``: files that
    the caller writes afterwards.

    Returns a score for each network, precision, batch and stage. The error of a single file is
    raised; with several files, ``errors`` has those of files that cannot be scored. Raises
    InputError for a folder without ONNX files, UsageError for an unknown name or precision, for an
    output that is one of the models, and for a dimension that none of several models has.

    >>> import mansard as m
    >>> scores = m.score("resnet18", batches=[1, 8])
    >>> scores.to_frame().select("batch", "parameters", "macs").rows()
    [(1, 11689512, 1814073344), (8, 11689512, 14512586752)]
    """
    stages = [Stage(prefill, 0)] if prefill else []
    stages += [Stage(1, decode)] if decode else []
    paths = _find_models(as_list(models))
    _check_outputs(paths, outputs)
    settings = settings or Settings()
    request = _Request(
        settings,
        tuple(map(parse_precision, precisions)) or (settings.precision,),
        tuple(batches) or (None,),
        tuple(stages) or (None,),
        len(paths) > 1,
    )
    if len(paths) == 1 and dask is None:  # other processes could not help with a single file
        outcomes = [_score_file(_read_file(paths[0]), request)]
    else:
        outcomes = _score_files(paths, request, jobs, dask, reporter)
    _check_understood(outcomes, request)
    if len(outcomes) == 1 and outcomes[0].errors and not outcomes[0].scores:
        raise outcomes[0].errors[0]
    return Scores(
        tuple(score for outcome in outcomes for score in outcome.scores),
        tuple(error for outcome in outcomes for error in outcome.errors),
    )


def _score_files(
    paths: Sequence[Path], request: _Request, jobs: int | None, dask: str | None, reporter: Reporter
) -> list[_Outcome]:
    from mansard.api.parallel import Work, do_work

    work = Work(
        function=_score_file,
        title="Scoring",
        name=lambda path: path.name,
        lost=_lost,
        shared=request,
        prepare=_read_file,
    )
    return do_work(work, paths, jobs=jobs, dask=dask, reporter=reporter)


class _Request(msgspec.Struct, frozen=True):
    """Every file is scored for each precision, batch and stage of a decoder."""

    settings: Settings
    precisions: tuple[Precision | None, ...]
    batches: tuple[int | None, ...]
    stages: tuple[Stage | None, ...]
    is_one_of_many: bool  # a name may then be another file's


class _Outcome(msgspec.Struct, frozen=True):
    """The scores of one file, and why there are not more of them."""

    path: Path
    scores: tuple[ModelScore, ...]
    errors: tuple[MansardError, ...]
    known_names: frozenset[str] = frozenset()  # given names that mean something in it


def _find_models(models: Sequence[Path | str]) -> list[Path]:
    """Files, those in folders, and names of the zoo: the paths that are no files."""
    paths: dict[Path, None] = {}
    for model in models:
        files = model_files(str(model))
        if files is None and is_language_model(str(model)):
            files = [Path(model)]
        elif files is None:
            names = zoo.family(str(model)) or (known_network(str(model)).name,)
            files = [*map(Path, names)]
        paths.update(dict.fromkeys(files))
    return list(paths)


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


class _Read(msgspec.Struct, frozen=True):
    """A file, or a network of the zoo, without weights: another machine can score it.

    Or why it cannot be read.
    """

    path: Path
    skeleton: Skeleton | MansardError


def _read_file(path: Path) -> _Read:
    try:
        return _Read(path, read_network(named(path)))
    except MansardError as error:
        return _Read(path, error)


def _score_file(read: _Read, request: _Request) -> _Outcome:
    """Score a file in every case; no error of the file is raised."""
    path = read.path
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
    stages = request.stages
    if loaded.drawn and stages == (None,):
        stages = USUAL_STAGES
    for precision, batch, stage in product(request.precisions, request.batches, stages):
        case = msgspec.structs.replace(settings, precision=precision)
        try:
            scores.append(_score_case(loaded, case, batch, stage))
        except MansardError as error:
            errors[str(error)] = error
    return _Outcome(path, tuple(scores), tuple(errors.values()), _names_of(settings.given))


def _score_case(
    loaded: Loaded,
    settings: Settings,
    batch: int | None,
    stage: Stage | None,
) -> ModelScore:
    """One score. What is given wins over the stage, and both over the usual dimensions."""
    given, asked = msgspec.structs.replace(settings.given, batch=batch), settings.kv_cache
    kv_cache = asked
    notes: tuple[str, ...] = ()
    if stage is not None:
        kv_cache = kv_cache or "in-place"
        if loaded.drawn and stage.n_cached:  # images are read with the prompt
            dims = {name: size for name, size in given.dims.items() if name != IMAGES}
            given = msgspec.structs.replace(given, dims=dims)
        given, notes = with_stage(loaded, given, stage)
    given = with_defaults(loaded, given, is_guessed_too=False)
    settings = msgspec.structs.replace(settings, given=given, kv_cache=kv_cache)
    scored = score_loaded(loaded, settings)
    if asked is not None and scored.kv_cache_update == "none":
        notes = (*notes, f"--kv-cache {asked} has no effect: the network has no cache")
    name = scored.model if stage is None else stage_name(scored.model, stage)
    return msgspec.structs.replace(scored, model=name, notes=(*notes, *scored.notes))


def _names_of(given: Given) -> frozenset[str]:
    """Every name that a person gave."""
    return frozenset((*given.dims, *given.trips, *given.values, *given.shapes))


def _check_understood(outcomes: Sequence[_Outcome], request: _Request) -> None:
    """Raise UsageError for a name that means nothing in any of the files."""
    known_names = frozenset[str]().union(*(outcome.known_names for outcome in outcomes))
    unknown_names = sorted(_names_of(request.settings.given) - known_names)
    if unknown_names and request.is_one_of_many:
        raise UsageError(
            f"none of the models knows {', '.join(map(repr, unknown_names))}",
            fix="'mansard score' of one file says which names it has",
        )


def _lost(path: Path) -> _Outcome:
    error = StorageError(
        "the process that scored it was killed, possibly for lack of memory",
        where=str(path),
        fix="score it alone, or with fewer --jobs",
    )
    return _Outcome(path, (), (error,))


def score_zoo(name: str, *, batch: int = 1, precision: str | None = None) -> ModelScore:
    """Inference of a network of the zoo at its usual dimensions, by default in its own precision.

    Raises UsageError for another name.
    """
    (score,) = score_batches(name, (batch,), _bench_settings({}, precision), SILENT)
    return score


def _bench_settings(dims: Mapping[str, int], precision: str | None) -> Settings:
    counted = None if precision is None else parse_precision(precision)
    return Settings(Given(dims=dims), counted, allow_unknown=True)


def score_networks(
    models: Sequence[Path | str],
    batches: Sequence[int],
    dims: Mapping[str, int],
    reporter: Reporter = SILENT,
    *,
    on_cpu: bool = False,
    precision: str | None = None,
) -> list[ModelScore]:
    """Scores of a bench: of ``models``, or of the whole zoo, once for every batch size.

    ``precision``: by default that of each file; language models are scored as they are stored, or
    in fp32 for a CPU, whose kernels unpack.
    A file whose batch is baked in is scored as it is, and one with operators that are not known
    without them; any other fault of a file raises MansardError, because a bench of a broken model
    has no use. A dimension that no network of the zoo has raises UsageError.
    """
    settings, scores = _bench_settings(dims, precision), []
    for path in _find_models(models) if models else ():
        source = named(path)
        of_model = _score_bench(source, batches, settings, reporter, on_cpu=on_cpu)
        _note_unknown(path, totals(of_model[0]), reporter)
        scores += of_model
    if models:
        return scores
    names = zoo.names()
    _check_dimensions(dims, {dim for name in names for dim in dict(zoo.entry(name).dims)})
    with reporter.progress("Scoring the zoo") as progress:
        for number, name in enumerate(names, start=1):
            scores += score_batches(name, batches, settings, reporter)
            progress.update(number, len(names), None, name)
    return scores


def _score_bench(
    source: Path | str,
    batches: Sequence[int],
    settings: Settings,
    reporter: Reporter,
    *,
    on_cpu: bool,
) -> list[ModelScore]:
    """The scores of one network; of a language model those of each stage."""
    if not is_language_model(source):
        return score_batches(source, batches, settings, reporter)
    if on_cpu and settings.precision is None:
        settings = msgspec.structs.replace(settings, precision=parse_precision(CPU_PRECISION))
    return [
        score
        for stage in BENCH_STAGES
        for score in score_batches(source, batches, settings, reporter, stage)
    ]


def _note_unknown(path: Path, sums: Totals, reporter: Reporter) -> None:
    if sums.n_unknown_layers:
        reporter.note(
            f"note: {path}: {sums.n_unknown_layers} of {sums.n_layers} nodes are unknown, so no "
            f"times are predicted; 'mansard score {path} --allow-unknown' says why"
        )


def _check_dimensions(dims: Mapping[str, int], known: set[str]) -> None:
    """A dimension that no network of the zoo has would be ignored without a word."""
    for name in dims:
        if name == "batch" or name not in known:
            others = ", ".join(sorted(known - {"batch"}))
            raise UsageError(
                f"no network of the zoo has a dimension {name!r} to set",
                fix=f"use --batch for the batch; the others are {others}",
            )


def score_batches(
    source: Path | str,
    batches: Sequence[int | None],
    settings: Settings,
    reporter: Reporter,
    stage: Stage | None = None,
) -> list[ModelScore]:
    """Scores of a file or of a network by its name, one for each of ``batches``.

    None is the file's own batch, 1 where that is open. A batch that the file cannot have is left
    out with a note; a file that can have none of them is scored as it is. ``stage``: of a decoder.
    What every command can print of their notes is told. Raises MansardError where the file cannot
    be scored, UsageError for an unknown name.
    """
    loaded, stated = load_network(source), settings.given
    if isinstance(source, str):  # of the zoo: a dimension may be another network's
        stated = keep_known_names(loaded.model, stated)

    def score_as(batch: int | None, *, as_it_is: bool = False) -> ModelScore:
        given = msgspec.structs.replace(stated, batch=batch)
        if stage is not None:
            case = msgspec.structs.replace(settings, given=given)
            return _score_case(loaded, case, batch or 1, stage)
        if not as_it_is:
            given = with_defaults(loaded, given)
        return score_loaded(loaded, msgspec.structs.replace(settings, given=given))

    scores: list[ModelScore] = []
    faults: list[MansardError] = []
    for batch in batches:
        try:
            scores.append(score_as(batch))
        except MansardError as error:
            faults.append(error)
    if not scores:
        try:
            scores = [score_as(None, as_it_is=True)]
        except MansardError as error:
            raise faults[0] from error  # nothing was wrong with the file but what was asked of it
        faults = faults[:1]
    note_scores(scores, reporter)
    for fault in faults:
        reporter.note(f"note: a batch size was left out: {fault}")
    return scores


def note_scores(scores: Iterable[ModelScore], reporter: Reporter) -> None:
    """Tell once what the scores of networks note, such as what their batch is taken to be."""
    for text in named_notes(scores):
        reporter.note(f"note: {text}")


def encode_scores(scores: Sequence[ModelScore], form: Literal["csv", "parquet"]) -> bytes:
    """The layers of ``scores`` as rows of a table."""
    from mansard.analytics.data.frames import encode_layers

    return encode_layers(scores, form)


class ZooNetwork(Result, frozen=True):
    """A network of the zoo, and its score at batch 1 in FP32."""

    entry: Entry
    score: ModelScore


def list_networks() -> tuple[Entry, ...]:
    """List the networks that have a name: inputs, and published parameters and MACs.

    Networks come first, then public language models, then families of shapes and operators.

    >>> import mansard as m
    >>> networks = m.list_networks()
    >>> networks[0].name, networks[0].published_parameters
    ('alexnet', 61100840)
    """
    return (*zoo.CATALOG, *known_language_models(), *zoo.CONVOLUTIONS, *zoo.OPERATORS)


def show_network(name: str) -> ZooNetwork:
    """What one network is, where its figures come from, and its work; raises UsageError."""
    if is_language_model(name):
        raise UsageError(
            f"{name!r} is a language model: its work depends on the tokens",
            fix=f"use mansard score {name}",
        )
    return ZooNetwork(zoo.entry(name), score_zoo(name))


def write_networks(
    folder: Path, names: Sequence[str] = (), *, replaces: bool = False
) -> tuple[Path, ...]:
    """Write networks of the zoo as ONNX files, all by default; raises UsageError, StorageError.

    ``convolutions`` and ``operators`` stand for all of theirs. ``replaces``: also files with other
    content.
    """
    wanted = [network for name in names or zoo.names() for network in zoo.family(name) or (name,)]
    entries = [zoo.entry(name) for name in wanted]  # known before one is written
    if not names and str(folder) in zoo.names() and not folder.exists():
        raise UsageError(
            f"{str(folder)!r} is a network, and the folder comes first",
            fix=f"write mansard models write . {folder}",
        )
    for entry in () if replaces else entries:
        path = folder / f"{entry.name}.onnx"
        if path.is_file() and not _holds(path, zoo.read(entry.name)):
            raise UsageError(
                "already exists and is not the shipped network",
                where=str(path),
                fix="give another folder, or --force to replace it",
            )
    make_folder(folder)
    return tuple(zoo.write(entry.name, folder) for entry in entries)


def _holds(path: Path, content: bytes) -> bool:
    with storage_errors(path), path.open("rb") as stream:
        return stream.read(len(content) + 1) in {content, b""}
