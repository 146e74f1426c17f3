"""Which networks a command is about: files, the zoo, or what the runs know already."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.core.errors import MansardError, UsageError

if TYPE_CHECKING:
    from mansard.analytics.predict.prediction import NetworkSelection
    from mansard.cli.predicting import Asked, Network
    from mansard.core.records import ModelScore
    from mansard.estimator import Loaded


def find_networks(asked: Asked, known: Collection[str]) -> list[NetworkSelection]:
    """The networks that were asked for, with their scores.

    Files and networks of the zoo are scored; a name that is neither has to be ``known`` from
    its times. Where no network was named, all that the runs have scores or times of. Raises
    ModelError for a file that cannot be scored at all, UsageError for an unknown name.
    """
    from mansard.analytics.predict.prediction import NetworkSelection

    if not asked.networks:
        return [
            NetworkSelection(batches=asked.batches, precisions=asked.precisions, phase=asked.phase)
        ]
    _check_dims(asked)
    found = []
    for network in asked.networks:
        paths = _files(network.name)
        models: Sequence[Path | str] = paths or [network.name]
        if paths is None and _is_only_known(network.name, known):
            models = ()
        found.append(
            NetworkSelection(
                name=network_name(network),
                scores=[score for model in models for score in _scores(model, network, asked)],
                batches=network.batches,
                precisions=network.precisions,
                phase=asked.phase,
            )
        )
    return found


def _check_dims(asked: Asked) -> None:
    """Raises UsageError for a dimension that no network has, where all are of the zoo.

    Files say themselves what they do not know.
    """
    from mansard.estimator import zoo

    names = [one.name for one in asked.networks if one.name in zoo.names()]
    if len(names) < len(asked.networks):
        return
    known = {dim for name in names for dim, _ in zoo.entry(name).dims} - {"batch"}
    strangers = sorted(asked.dims.keys() - known)
    if strangers:
        there = ", ".join(sorted(known)) or "none"
        raise UsageError(
            f"--dim {strangers[0]!r} is of no network here",
            fix=f"there is {there}; the batch is given with --batch",
        )


def _is_only_known(name: str, known: Collection[str]) -> bool:
    from mansard.estimator import zoo

    return name in known and name not in zoo.names()


def network_name(network: Network) -> str:
    """How the predictions call it: a file by its stem."""
    return network.name if _files(network.name) is None else Path(network.name).stem


def _files(name: str) -> Sequence[Path] | None:
    """The ONNX files that a name stands for; None where it is no path."""
    from mansard.cli.score_request import find_models

    path = Path(name)
    looks_like_path = path.exists() or path.suffix.lower() == ".onnx" or len(path.parts) > 1
    return find_models([path]) if looks_like_path else None


def _scores(model: Path | str, network: Network, asked: Asked) -> list[ModelScore]:
    precisions = network.precisions or (None,)
    batches = network.batches or (1,)
    return [score for each in precisions for score in score_batches(model, batches, each, asked)]


def score_batches(
    model: Path | str, batches: Sequence[int], precision: str | None, asked: Asked
) -> list[ModelScore]:
    """Scores of a file or of a network of the zoo, one for each of ``batches``.

    A batch that the file cannot have is left out with a note; a file that can have none of
    them is scored as it is. Operators that nobody knows count as unknown: the prediction says
    so. Raises ModelError where the file cannot be scored, UsageError for an unknown name.
    """
    from mansard.cli.console import note
    from mansard.core.precision import parse_precision
    from mansard.estimator import Settings, score_loaded

    loaded, dims = _load(model, asked.dims)
    settings = Settings(
        precision=None if precision is None else parse_precision(precision),
        phase=asked.phase,
        allow_unknown=True,
    )

    def score_as(batch: int | None) -> ModelScore:
        given = msgspec.structs.replace(settings.given, batch=batch, dims=dims)
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
            scores = [score_as(None)]  # the file's own batch
        except MansardError as error:
            raise faults[0] from error  # nothing was wrong with the file but what was asked of it
        faults = faults[:1]
    for fault in faults:
        note(f"note: a batch size was left out: {fault}")
    return scores


def _load(model: Path | str, dims: Mapping[str, int]) -> tuple[Loaded, dict[str, int]]:
    """A file, or a network of the zoo with its usual dimensions; and what its dimensions are."""
    from mansard.estimator import load, zoo

    if isinstance(model, Path):
        return load(model), dict(dims)
    usual = {name: size for name, size in zoo.entry(model).dims if name != "batch"}
    given = {name: size for name, size in dims.items() if name in usual}
    return load(zoo.read(model), model), usual | given
