"""What ``mansard score`` was asked for: the files, and every case to score each in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from mansard.core.errors import InputError, MansardError, UsageError
from mansard.core.records import ModelScore
from mansard.estimator import Given, Loaded, Settings, load, score_loaded
from mansard.estimator.shape_inference.binding import understood

Stage = tuple[int, int]  # new tokens, cached tokens


class Request(msgspec.Struct, frozen=True):
    """Every file is scored for each batch and each stage of a decoder."""

    settings: Settings
    batches: tuple[int | None, ...]
    stages: tuple[Stage | None, ...]
    is_one_of_many: bool  # a name may then be another file's


class Outcome(msgspec.Struct, frozen=True):
    """The scores of one file, and why there are not more of them."""

    path: Path
    scores: tuple[ModelScore, ...]
    errors: tuple[MansardError, ...]
    understood: frozenset[str] = frozenset()  # given names that mean something in it


def find_models(sources: Sequence[Path]) -> list[Path]:
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


def check_targets(models: Sequence[Path], targets: Sequence[Path]) -> None:
    """Raise UsageError where a file to write is a model, or two of them are the same."""
    taken = {os.path.realpath(model) for model in models}
    for target in targets:
        place = os.path.realpath(target)
        if place in taken:
            raise UsageError(
                f"{str(target)!r} would be written over a model or another result",
                fix="choose another name",
            )
        taken.add(place)


def _walk(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        where = str(error.filename or folder)
        raise InputError(error.strerror or str(error), where=where, fix="check its permissions")

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        yield from (Path(place, name) for name in names if name.lower().endswith(".onnx"))


def score_model(path: Path, request: Request) -> Outcome:
    """Read a file once and score it in every case; no error of the file is raised."""
    try:
        loaded = load(path)
    except MansardError as error:
        return Outcome(path, (), (error,))
    settings = request.settings
    if request.is_one_of_many:
        given = understood(loaded.model, settings.given)
        settings = msgspec.structs.replace(settings, given=given)
    scores: list[ModelScore] = []
    errors: dict[str, MansardError] = {}
    for batch in request.batches:
        for stage in request.stages:
            try:
                scores.append(_score_case(loaded, settings, batch, stage))
            except MansardError as error:
                errors[str(error)] = error
    return Outcome(path, tuple(scores), tuple(errors.values()), names_of(settings.given))


def _score_case(
    loaded: Loaded, settings: Settings, batch: int | None, stage: Stage | None
) -> ModelScore:
    from mansard.estimator.decoding import stage_dims
    from mansard.estimator.loading import within

    dims = settings.given.dims
    if stage is not None:
        try:
            dims = stage_dims(loaded.model, *stage) | dict(dims)
        except UsageError as error:
            raise within(loaded.place, error) from error
    given = msgspec.structs.replace(settings.given, batch=batch, dims=dims)
    return score_loaded(loaded, msgspec.structs.replace(settings, given=given))


def names_of(given: Given) -> frozenset[str]:
    """Every name that a person gave."""
    return frozenset((*given.dims, *given.trips, *given.values, *given.shapes))


def check_understood(outcomes: Sequence[Outcome], request: Request) -> None:
    """Raise UsageError for a name that means nothing in any of the files."""
    understood = frozenset[str]().union(*(outcome.understood for outcome in outcomes))
    strangers = sorted(names_of(request.settings.given) - understood)
    if strangers and request.is_one_of_many:
        raise UsageError(
            f"none of the models knows {', '.join(map(repr, strangers))}",
            fix="'mansard score' of one file says which names it has",
        )
