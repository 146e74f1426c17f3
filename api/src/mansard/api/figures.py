"""Figures for papers and slides, from folders of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mansard.analytics.data.opening import open_runs
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
    results = compute(dataset, (), group_bytes_in(request.runs, dataset.scores))
    return figure_of_runs(results, request, check)


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
