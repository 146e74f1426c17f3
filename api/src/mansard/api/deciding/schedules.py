"""Several networks on several accelerators: the best schedule, and what it gains."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, Literal, TypeVar

import msgspec

from mansard.analytics.data.opening import open_runs
from mansard.analytics.decisions.schedule_problems import problem_of_runs, with_modelled
from mansard.analytics.models.predict.group_times import group_times
from mansard.analytics.pages.words.schedules import schedule_sentence
from mansard.api.counters import group_bytes_in
from mansard.api.data import measured_contention
from mansard.api.deciding.executions import RanSchedule, check_runnable, run_schedules
from mansard.api.deciding.haxconn_files import HaxconnFiles, read_haxconn
from mansard.api.deciding.haxconn_logs import PublishedRound, SourceFile
from mansard.api.deciding.predictions import NetworkRequest, PredictionRequest, check, predict
from mansard.api.deciding.problem_files import SHIPPED_PROBLEMS, read_problem, write_problem
from mansard.api.parallel.cluster import Cluster, connected
from mansard.api.result import Result
from mansard.core.errors import UsageError
from mansard.core.records import NetworkChain, Problem, Schedule
from mansard.core.records.schedule import ContentionRule, Goal
from mansard.core.storage.files import make_folder
from mansard.scheduler import check as check_problem
from mansard.scheduler import prepare, solve
from mansard.scheduler.baselines import baselines, best_of, gain
from mansard.scheduler.front import FrontPoint, front
from mansard.scheduler.sensitivity import Sensitivity, sensitivity
from mansard.sweeps.mappings import MultiRequest
from mansard.sweeps.reporter import SILENT, Reporter

Answer = TypeVar("Answer")
_N_DRAWS = 20  # of inputs within their errors
_OF_BASELINES = 0.2  # of the time limit, at most
_LOOK_S = 0.1  # between two looks at whether the search has ended
_QUIET_S = 2.0  # a shorter search shows no progress


@dataclass(frozen=True, kw_only=True)
class ScheduleRequest:
    """What is to be scheduled, and what is wanted. None: as the problem has it.

    ``problem``: a file, see ``problem_files``; networks of it without groups, and the networks
    ``models`` in its place, take theirs from ``runs``, of ``mode``. ``models`` may also be the name
    of one problem that ships. ``sources``: files of HaX-CoNN in its place, see ``haxconn_files``.
    ``contention``: how it counts. ``is_modelled``: predicted
    times where networks were not measured. ``chart``: HTML file to write; ``save``: the problem as
    it was solved, TOML or JSON. ``front``: the network of which the front of time and energy is
    found. ``run``: execute the best schedule and the baselines so. ``dask``: address of a scheduler
    of Dask, whose workers search as well.
    """

    problem: Path | None = None
    models: tuple[str, ...] = ()
    sources: tuple[Path, ...] = ()
    runs: tuple[str, ...] = ()
    mode: str | None = None
    is_modelled: bool = False
    goal: Goal | None = None
    contention: ContentionRule | None = None
    is_steady: bool | None = None
    max_transitions: int | None = None
    max_latency_s: float | None = None
    max_energy_j: float | None = None
    max_power_w: float | None = None
    method: Literal["auto", "exact", "first_come", "local"] = "auto"
    time_limit_s: float = 10.0
    front: str | None = None
    chart: Path | None = None
    save: Path | None = None
    run: MultiRequest | None = None
    dask: str | None = None


class ScheduleAnswer(Result, frozen=True, kw_only=True):
    """The best schedule, and others of the same problem by the same simulator."""

    sentence: str
    problem: Problem
    best: Schedule
    baselines: tuple[Schedule, ...]
    gain: float | None  # over the best baseline, see ``scheduler.baselines.gain``
    # To errors of times and costs; None if no error is known or the search took too long.
    sensitivity: Sensitivity | None
    front: tuple[FrontPoint, ...]  # of the network that was named, alone
    ran: tuple[RanSchedule, ...]  # the best and the baselines, where they were executed
    files: tuple[SourceFile, ...]  # of HaX-CoNN that were read
    published: tuple[PublishedRound, ...]  # what these print of pairs of networks
    notes: tuple[str, ...]

    def records(self) -> Sequence[Any]:
        """The best schedule and the baselines."""
        return (self.best, *self.baselines)

    def drawn(self) -> Sequence[Any]:
        """The best schedule, as a Gantt chart."""
        return ((self.problem, self.best),)


def schedule(request: ScheduleRequest, reporter: Reporter = SILENT) -> ScheduleAnswer:
    """The best schedule of a problem; where none keeps the limits, the nearest one.

    Measures and runs nothing, unless it is to ``run``. Raises InputError for a problem that cannot
    be scheduled, UsageError for what cannot be asked for, and StorageError.
    """
    if request.sources and (request.problem or request.models):
        raise UsageError(
            "files of HaX-CoNN cannot be combined with other problems", fix="name nothing else"
        )
    imported = read_haxconn(request.sources) if request.sources else None
    problem = _wanted(_problem(request, imported, reporter), request)
    # What cannot be run or written is an error before the search.
    check_problem(problem)
    if request.run is not None:
        check_runnable(problem)
    if request.save is not None:
        write_problem(request.save, problem)
    if request.chart is not None:
        make_folder(request.chart.parent)
        if request.chart.is_dir():
            raise UsageError("a folder has the name of the chart", where=str(request.chart))
    points = () if request.front is None else front(problem, request.front)
    best, others = _searched(problem, request, reporter)
    gained = gain(best, others)
    sentence = schedule_sentence(problem, best, best_of(others), gained)
    notes = tuple(dict.fromkeys((*problem.notes, *best.notes, *_doubts(problem, best))))
    if request.chart is not None:
        from mansard.analytics.pages.report.answer_pages import write_schedule_page

        schedules = (best, *others)
        write_schedule_page(request.chart, problem, schedules, best_of(others), sentence, notes)
    ran: tuple[RanSchedule, ...] = ()
    if request.run is not None:
        ran = run_schedules(request.run, problem, (best, *others), reporter)
    return ScheduleAnswer(
        sentence=sentence,
        problem=problem,
        best=best,
        baselines=tuple(others),
        gain=gained,
        sensitivity=_sensitivity(problem, best),
        front=points,
        ran=ran,
        files=imported.files if imported else (),
        published=imported.rounds if imported else (),
        notes=notes,
    )


def _searched(
    problem: Problem, request: ScheduleRequest, reporter: Reporter
) -> tuple[Schedule, tuple[Schedule, ...]]:
    """What the search finds, and the baselines; the best of these where its time was too short."""
    begun_s, stopped = time.monotonic(), Event()

    def report_progress(share: float, line: str) -> None:
        if time.monotonic() - begun_s > _QUIET_S:
            progress.update(round(100 * min(share, 1.0)), 100, None, line)

    title = "Searching schedules, percent"
    with _workers(problem, request, reporter) as workers, reporter.progress(title) as progress:

        def work() -> tuple[Schedule, tuple[Schedule, ...]]:
            prepare(problem, report_progress)  # no limit counts compiling
            searching_s = time.monotonic()
            others = baselines(problem, _OF_BASELINES * request.time_limit_s)
            left_s = request.time_limit_s - (time.monotonic() - searching_s)
            solved = solve(
                problem,
                method=request.method,
                time_limit_s=max(left_s, 0.0),
                progress=report_progress,
                workers=workers,
                stopped=stopped,
            )
            return solved, others

        solved, others = interruptible(work, stopped)
    best = best_of((solved, *others))
    if solved.is_optimal or best is None or best is solved or best.broken:
        return solved, others  # of those that break limits the search takes the nearest
    searched = ("bound", "space", "n_assignments", "n_simulated", "solve_s", "notes")
    best = msgspec.structs.replace(
        best,
        method=f"{solved.method}, {best.method}",
        **{name: getattr(solved, name) for name in searched},
        unknown={quantity: why for quantity, why in best.unknown.items() if quantity != "bound"},
    )
    return best, others


def interruptible(work: Callable[[], Answer], stopped: Event) -> Answer:
    """What ``work`` returns or raises. Compiled code hears no signal, so it has another thread.

    A KeyboardInterrupt sets ``stopped`` and is raised at once.
    """
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_LOOK_S)
    except BaseException:
        stopped.set()
        raise
    for error in errors:
        raise error
    return answers[0]


@contextmanager
def _workers(
    problem: Problem, request: ScheduleRequest, reporter: Reporter
) -> Iterator[Cluster | None]:
    """Where parts of the search are done; None: here."""
    if request.dask is None:
        yield None
        return

    with connected(request.dask) as cluster:
        if problem.is_steady or request.method == "local":
            what = "networks that repeat are" if problem.is_steady else "a local search is"
            reporter.note(f"note: {what} searched on this machine alone: --dask changes nothing")
        yield cluster


def _problem(
    request: ScheduleRequest, imported: HaxconnFiles | None, reporter: Reporter
) -> Problem:
    """That of the file, filled with what runs know of it; or a whole one."""
    if imported is not None:
        return imported.problem
    if request.problem is not None and request.models:
        raise UsageError("networks and a problem exclude each other", fix="name them in the file")
    shipped = [SHIPPED_PROBLEMS[name] for name in request.models if name in SHIPPED_PROBLEMS]
    if shipped and len(request.models) > 1:
        raise UsageError(
            "a shipped problem cannot be combined with others", fix=f"name {shipped[0].stem} only"
        )
    if shipped:
        return read_problem(shipped[0])
    if request.problem is not None:
        problem = read_problem(request.problem)
    else:
        names = request.models
        models = [
            NetworkChain(name=network, groups=(), model=network, batch=0) for network in names
        ]
        unknown = {"idle_w": "no meter was read while nothing ran"}
        problem = Problem(accelerators=(), networks=tuple(models), idle_w=None, unknown=unknown)
    is_whole = bool(problem.networks) and all(network.groups for network in problem.networks)
    is_new = request.run is not None and is_whole and not request.run.runs.exists()
    if not request.runs or is_new:  # the folder is to keep what is executed
        for network in problem.networks:
            if not network.groups:
                fix = "write its groups, or take them from --runs"
                raise UsageError(f"{network.name} has no groups in this file", fix=fix)
        return problem

    dataset = open_runs(request.runs, newest_only=True)
    contention = measured_contention(request.runs, newest_only=True)
    measured = group_times(dataset, counted=group_bytes_in(request.runs, dataset.scores))
    problem = problem_of_runs(
        problem, measured, contention, dataset, request.mode, is_lenient=request.is_modelled
    )
    return _modelled(problem, request, reporter) if request.is_modelled else problem


def _modelled(problem: Problem, request: ScheduleRequest, reporter: Reporter) -> Problem:
    """With predicted times where networks were not measured."""
    requests = {
        network.name: NetworkRequest(
            name=network.model or network.name,
            batches=(network.batch,),
            precisions=(network.precision,) if network.precision else (),
        )
        for network in problem.networks
    }
    wanted = PredictionRequest(
        runs=request.runs,
        networks=tuple(requests.values()),
        modes=problem.mode or request.mode,
    )
    predicted = predict(wanted, reporter)
    check(predicted, reporter)
    names = {name: request.display_name() for name, request in requests.items()}
    return with_modelled(problem, predicted, names)


def _wanted(problem: Problem, request: ScheduleRequest) -> Problem:
    """``problem`` with what the request asks for in the place of what it has."""
    for option, limit in (
        ("--max-latency", request.max_latency_s),
        ("--max-energy", request.max_energy_j),
        ("--max-power", request.max_power_w),
    ):
        if limit is not None and limit <= 0:
            raise UsageError(f"{option} bounds nothing", fix="write a quantity above 0")
    changes: dict[str, Any] = {
        "goal": request.goal,
        "contention": request.contention,
        "is_steady": request.is_steady,
        "max_transitions": request.max_transitions,
        "max_makespan_s": request.max_latency_s,
        "max_energy_j": request.max_energy_j,
        "max_power_w": request.max_power_w,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    return msgspec.structs.replace(problem, **given)


def _sensitivity(problem: Problem, best: Schedule) -> Sensitivity | None:
    """Of a schedule that was found quickly, of inputs with known errors."""
    if not _has_errors(problem) or best.broken or best.solve_s > _QUIET_S:
        return None
    return sensitivity(problem, best, n_draws=_N_DRAWS, time_limit_s=0.5)


def _has_errors(problem: Problem) -> bool:
    groups = (group for network in problem.networks for group in network.groups)
    return any(group.time_error or group.leave_error_s for group in groups)


def _doubts(problem: Problem, best: Schedule) -> Iterator[str]:
    """What the times are, where not all of them were measured; what does not count."""
    groups = [group for network in problem.networks for group in network.groups]
    counts = Counter(group.source for group in groups)
    if set(counts) > {"measured"} or "measured" not in counts:
        shares = ", ".join(f"{n} {source}" for source, n in counts.items())
        yield f"groups by what their times are: {shares}"
    if not problem.is_steady and any(network.rate_per_s for network in problem.networks):
        yield "each network runs once, so its rate does not count: --steady"
    if _has_errors(problem) and not best.broken and best.solve_s > _QUIET_S:
        yield f"no errors of its inputs were drawn: the search took longer than {_QUIET_S:g} s"
