"""The scores of a folder of runs: one file beside the runs, which each command adds to."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mansard.core.errors import MansardError
from mansard.core.hashing import content_hash
from mansard.core.records import GenerationRun, Measurement, ModelScore
from mansard.core.storage.files import find_status, make_folder
from mansard.core.storage.jsonl import read_rows, write_rows


def score_id(score: ModelScore) -> str:
    """A short name for one score: the same model in the same circumstances."""
    given: list[object] = [score.phase, score.batch, score.dimensions, score.trips, score.optimizer]
    # A quantised network's main precision is the same whatever its floats are counted at.
    precisions = Counter(layer.precision for layer in score.layers)
    given += [score.recompute, score.cache_bytes, score.precision, dict(sorted(precisions.items()))]
    if score.bounds:
        given.append(score.bounds)
    if score.kv_cache_update == "in-place":
        given.append(score.kv_cache_update)
    return content_hash([score.model, score.model_hash, *given])


def keep_scores(runs: Path, scores: Sequence[ModelScore]) -> None:
    """Add ``scores`` to those in a folder of runs; one that is there already stays as it is."""
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
    path = runs / "scores.jsonl"
    there: Sequence[ModelScore] = ()
    measured: set[str] = set()
    with contextlib.suppress(MansardError):  # of another version: as if they were not there
        if find_status(path, runs) is not None:
            there = read_rows(path, ModelScore, runs).rows
    for rows in runs.glob("*/measurements.jsonl"):
        with contextlib.suppress(MansardError):
            measured |= {row.model_hash for row in read_rows(rows, Measurement, runs).rows}
    served: set[str] = set()
    for rows in runs.glob("*/generations.jsonl"):
        with contextlib.suppress(MansardError):
            served |= {row.workload for row in read_rows(rows, GenerationRun, runs).rows}
    new = {score_id(score) for score in scores}
    older = [s for s in there if score_id(s) not in new and _was_run(s, measured, served)]
    make_folder(runs)
    write_rows(path, ModelScore, [*scores, *older], runs)


def _was_run(score: ModelScore, measured: set[str], served: set[str]) -> bool:
    """Whether its network was run, or is a stage of a language model that was."""
    return score.model_hash in measured or score.model.rpartition(" [")[0] in served
