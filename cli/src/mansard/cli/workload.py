"""The networks of a ``mansard bench``: scored once for every batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mansard.cli.console import note, show_progress
from mansard.cli.scoring import score_file, score_zoo
from mansard.core.errors import ModelError, UsageError
from mansard.core.jsonl import write_rows
from mansard.core.records import ModelScore

PRECISION = "fp32"  # what the kernels of a plain machine are measured in


def score_workload(
    models: Sequence[Path], batches: Sequence[int], dims: Mapping[str, int]
) -> list[ModelScore]:
    """Scores of the given files, or of the whole zoo where none is given.

    A file whose batch is baked in is scored as it is; any other fault of a file
    raises ModelError, because a bench of a broken model has no use. A dimension
    that no network of the zoo has raises UsageError.
    """
    if models:
        return [score for path in models for score in _score_model(path, batches, dims)]
    from mansard.estimator import zoo

    names = zoo.names()
    _check_dimensions(dims, {dim for name in names for dim in dict(zoo.entry(name).dims)})
    scores = []
    with show_progress("Scoring the zoo") as progress:
        for number, name in enumerate(names, start=1):
            scores += [
                score_zoo(name, batch=batch, dims=dims, precision=PRECISION, phase="inference")
                for batch in batches
            ]
            progress.update(number, len(names), None, name)
    return scores


def _check_dimensions(dims: Mapping[str, int], known: set[str]) -> None:
    """A dimension that no network of the zoo has would be ignored without a word."""
    for name in dims:
        if name == "batch" or name not in known:
            others = ", ".join(sorted(known - {"batch"}))
            raise UsageError(
                f"no network of the zoo has a dimension {name!r} to set",
                fix=f"use --batch for the batch; the others are {others}",
            )


def _score_model(path: Path, batches: Sequence[int], dims: Mapping[str, int]) -> list[ModelScore]:
    scores: list[ModelScore] = []
    errors: list[ModelError] = []
    for batch in batches:
        try:
            scores.append(_score_as(path, batch, dims))
        except ModelError as error:
            errors.append(error)
    if not scores:
        # The file's own batch; if it is not the batch that fails, this says what it is.
        scores.append(_score_as(path, None, dims))
    for fault in errors:
        note(f"note: a batch size was left out: {fault}")
    return scores


def _score_as(path: Path, batch: int | None, dims: Mapping[str, int]) -> ModelScore:
    return score_file(path, batch=batch, dims=dims, precision=PRECISION, phase="inference")


def write_scores(runs: Path, scores: Sequence[ModelScore]) -> None:
    """Replace the scores in the folder of runs; raises StorageError."""
    write_rows(runs / "scores.jsonl", ModelScore, scores)
