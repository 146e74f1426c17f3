"""Figures for papers and slides, from folders of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import display_name, network_key, network_names
from mansard.analytics.data.opening import add_scores, open_runs
from mansard.analytics.pages.paper.figure import (
    DrawnFigure,
    FigureRequest,
    check_request,
    figure_of_runs,
    figure_of_schedule,
)
from mansard.analytics.pages.results import compute
from mansard.api.counters import group_bytes_in
from mansard.api.deciding.schedules import ScheduleRequest, schedule
from mansard.api.reports import score_for_runs
from mansard.core.records import ModelScore
from mansard.estimator import zoo
from mansard.estimator.scoring import is_language_model
from mansard.sweeps.reporter import SILENT, Reporter

_PROBLEMS = frozenset({".toml", ".json"})


def figure(
    request: FigureRequest,
    reporter: Reporter = SILENT,
    *,
    check: Callable[[Sequence[Path]], object] = lambda _: None,
) -> DrawnFigure:
    """Draw a figure for a paper, and write it with its values (.csv) and its caption (.txt).

    ``check`` is called with the files before any is written, and may raise. Measures nothing.
    Raises InputError, UsageError, StorageError.
    """
    check_request(request)
    if request.kind == "gantt":
        return _gantt(request, reporter, check)
    dataset = open_runs(request.runs)
    for line in dataset.notes:
        reporter.note(f"note: {line}")
    dataset, request = _with_scores(dataset, request, reporter)
    results = compute(dataset, (), group_bytes_in(request.runs, dataset.scores))
    return figure_of_runs(results, request, check)


def _with_scores(
    dataset: Dataset, request: FigureRequest, reporter: Reporter
) -> tuple[Dataset, FigureRequest]:
    """``dataset`` with scores of the named files and networks of the zoo; ``request`` with the
    names that these have in it.

    The scores are not written: ``report`` adds scores to a folder of runs.
    """
    batches = () if request.batch is None else (request.batch,)
    scores: dict[str, list[ModelScore]] = {}
    for model in request.models:
        is_file = Path(model).is_file() and not is_language_model(model)
        if is_file or (model in zoo.names() and not _has_score(dataset, model, request)):
            scores[model] = score_for_runs(dataset, [model], request.precisions, batches, reporter)
    dataset = add_scores(dataset, [score for some in scores.values() for score in some])
    names = network_names(dataset)
    shown = {}
    for model, (first, *_) in scores.items():
        name = names[network_key(first.model, first.model_hash)]
        if name != display_name(first.model):  # of two files of one name
            shown[model] = name
    models = tuple(shown.get(model, model) for model in request.models)
    return dataset, replace(request, models=models)


def _has_score(dataset: Dataset, model: str, request: FigureRequest) -> bool:
    return any(
        score.model == model
        and request.batch in {None, score.batch}
        and (not request.precisions or score.precision in request.precisions)
        for score in dataset.scores
    )


def _gantt(
    request: FigureRequest, reporter: Reporter, check: Callable[[Sequence[Path]], object]
) -> DrawnFigure:
    """The best schedule of the networks of runs, of a problem's file or of one that ships."""
    files = [Path(name) for name in request.models if Path(name).suffix.lower() in _PROBLEMS]
    others = tuple(name for name in request.models if Path(name) not in files)
    answer = schedule(
        ScheduleRequest(
            problem=files[0] if files else None,
            models=others,
            runs=() if files else request.runs,
            mode=request.mode,
        ),
        reporter,
    )
    for line in answer.notes:
        reporter.note(f"note: {line}")
    return figure_of_schedule(answer.problem, answer.best, request, check)
