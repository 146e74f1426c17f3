"""Several networks on several accelerators: the best schedule, and what it gains.

A schedule that is executed on this machine has what was predicted beside what was measured.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from mansard.analytics.data.names import display_name
from mansard.analytics.data.opening import open_runs
from mansard.analytics.decisions.schedule_problems import problem_of_runs, with_modelled
from mansard.analytics.models.predict.group_times import group_times
from mansard.analytics.pages.words.schedules import schedule_sentence
from mansard.api.counters import group_bytes_in
from mansard.api.data import measured_contention
from mansard.api.deciding.predictions import NetworkRequest, PredictionRequest, check, predict
from mansard.api.deciding.problem_files import read_problem, write_problem
from mansard.api.measurements import MeasuredMulti, run_mappings
from mansard.api.parallel.cluster import connected
from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.precision import parse_precision
from mansard.core.records import Accelerator, MultiRun, NetworkChain, Problem, Schedule
from mansard.core.records.schedule import Goal
from mansard.core.storage.files import make_folder
from mansard.inference.multi.plan import MappedNetwork, Mapping, StagePlace
from mansard.scheduler import check as check_problem
from mansard.scheduler import prepare, solve
from mansard.scheduler.baselines import baselines, best_of, gain
from mansard.scheduler.front import front
from mansard.scheduler.sensitivity import sensitivity
from mansard.sweeps.mappings import MultiRequest
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from mansard.api.parallel.cluster import Cluster
    from mansard.scheduler.front import FrontPoint
    from mansard.scheduler.sensitivity import Sensitivity


class RanNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """One network of a schedule that was executed. Rates are items per second."""

    name: str
    predicted_s: float
    measured_s: float | None  # median latency
    predicted_per_s: float
    measured_per_s: float | None
    beside_solver_per_s: float | None  # of the best schedule alone


class RanSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that was executed, round after round. ``error``: measured / predicted − 1."""

    method: str  # several with commas, where they found the same
    mode: str  # empty: nothing was run
    predicted_s: float | None  # makespan; None: steady, where rounds overlap
    measured_s: float | None  # median of the rounds
    beside_solver_s: float | None  # likewise, while a solver runs on the same CPUs
    error: float | None
    networks: tuple[RanNetwork, ...]  # none: it could not be run
    remark: str  # why it was not measured, or what disturbed it


def check_runnable(problem: Problem) -> None:
    """Raises UsageError where the problem does not say what could be run."""
    for network in problem.networks:
        if not all(group.nodes for group in network.groups[:-1]):
            what = f"{network.name}: nothing says which nodes its groups are"
            raise UsageError(what, fix="give each group its nodes, or make the problem from runs")
        if problem.is_steady and network.rate_per_s:
            what = f"{network.name}: runs that arrive at a rate cannot be executed"
            raise UsageError(what, fix="leave its rate out, or run it with --once")
    devices = [_device(problem, accelerator) for accelerator in problem.accelerators]
    twice = next((device for device in devices if devices.count(device) > 1), None)
    if twice is not None:
        raise UsageError(f"two accelerators are {twice} of this machine", fix="leave one out")
    _settings(problem)


def mapping_of(problem: Problem, schedule: Schedule) -> Mapping:
    """A schedule as stages on devices, which take their turns in its order.

    A stage is groups that follow one another on an accelerator with no other network's between
    them; of a steady schedule, which takes groups first come first served and so has no turns,
    with no other network on that accelerator. The problem has passed ``check_runnable``.
    """
    devices = {each.name: _device(problem, each) for each in problem.accelerators}
    stages: list[list[StagePlace]] = [[] for _ in problem.networks]
    turns, last_on = list[tuple[int, int]](), dict[str, int]()
    shared = {(group.accelerator, group.network) for group in schedule.groups}
    n_users = Counter(name for name, _ in shared)
    for group in schedule.groups:  # by start
        network, name = problem.networks[group.network], group.accelerator
        places, device = stages[group.network], devices[name]
        is_alone = n_users[name] == 1 if problem.is_steady else last_on.get(name) == group.network
        if places and places[-1].device == device and is_alone:
            continue
        if places:
            end = max(network.groups[group.group - 1].nodes)
            places[-1] = msgspec.structs.replace(places[-1], end=end)
        last_on[name] = group.network
        turns.append((group.network, len(places)))
        places.append(StagePlace(device=device))
    networks = zip(problem.networks, stages, strict=True)
    return Mapping(
        networks=tuple(
            MappedNetwork(model=network.model or network.name, stages=tuple(places))
            for network, places in networks
        ),
        turns=() if problem.is_steady else tuple(turns),
    )


def _device(problem: Problem, accelerator: Accelerator) -> str:
    """What a mapping calls an accelerator."""
    if accelerator.kind == "cpu":
        return f"cpu:{','.join(map(str, accelerator.cpus))}" if accelerator.cpus else "cpu"
    if accelerator.kind == "gpu":
        return "gpu"
    dlas = [other.name for other in problem.accelerators if other.kind == "dla"]
    return (
        accelerator.name
        if accelerator.name in {"dla0", "dla1"}
        else f"dla{dlas.index(accelerator.name)}"
    )


def run_schedules(
    request: MultiRequest,
    problem: Problem,
    schedules: Sequence[Schedule],
    reporter: Reporter = SILENT,
) -> tuple[RanSchedule, ...]:
    """Execute ``schedules``, the best first, and that one again while a solver runs beside it.

    Rows are kept in the runs of ``request``; what keeps a schedule from being run is its remark.
    Raises UsageError for a problem that cannot be run.
    """
    batches, precisions = _settings(problem)
    settings = msgspec.structs.replace(request.settings, batches=batches, precisions=precisions)
    multi = request.multi
    if problem.is_steady:  # devices take stages first come first served
        multi = msgspec.structs.replace(multi, order="in turn", is_exclusive=True)
    request = msgspec.structs.replace(request, settings=settings, multi=multi)
    by_mapping: dict[Mapping, list[Schedule]] = {}
    for schedule in schedules:
        by_mapping.setdefault(mapping_of(problem, schedule), []).append(schedule)
    rows = [_row(request, mapping, reporter) for mapping in by_mapping]
    beside: MeasuredMulti | MansardError | None = None
    if _of(rows[0]) is not None:
        with _solving(problem) as solver:
            again = msgspec.structs.replace(next(iter(by_mapping)), beside="a solver")
            beside = _row(request, again, reporter)
            if not solver.is_alive():
                reporter.note("note: the solver beside the networks died: its column is left out")
                beside = None
    return tuple(
        _ran(problem, alike, row, beside if at == 0 else None)
        for at, (alike, row) in enumerate(zip(by_mapping.values(), rows, strict=True))
    )


def _settings(problem: Problem) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The one batch and precision of all networks."""
    batches = {network.batch for network in problem.networks}
    precisions = {network.precision for network in problem.networks if network.precision}
    if len(batches) > 1 or len(precisions) > 1:
        what = "its networks have several batch sizes or precisions"
        raise UsageError(what, fix="what runs at once has one of each")
    return tuple(batches), tuple(parse_precision(name).name for name in precisions)


def _row(
    request: MultiRequest, mapping: Mapping, reporter: Reporter
) -> MeasuredMulti | MansardError:
    """What was measured, or what kept it from being measured."""
    try:
        result = run_mappings(request, [mapping], reporter)
    except MansardError as error:
        return error
    if len(result.rows) > 1:
        return UsageError("a schedule is of one mode", fix="name one with --mode")
    return result.rows[0] if result.rows else result.failure or MeasurementError("nothing was run")


def _ran(
    problem: Problem,
    alike: Sequence[Schedule],
    measured: MeasuredMulti | MansardError,
    beside: MeasuredMulti | MansardError | None,
) -> RanSchedule:
    """What schedules of one mapping were predicted to take, and what it took."""
    predicted, is_steady = alike[0], problem.is_steady
    row, other = _of(measured), _of(beside)
    networks = []
    for at, network in enumerate(predicted.networks if row is not None else ()):
        latency_s = row.networks[at].latency_s if row is not None else ()
        networks.append(
            RanNetwork(
                name=network.name,
                predicted_s=network.latency_s,
                measured_s=median(latency_s) if latency_s else None,
                predicted_per_s=network.rate_per_s,
                measured_per_s=_rate(row, at),
                beside_solver_per_s=_rate(other, at),
            )
        )
    measured_s = _round_s(row)
    return RanSchedule(
        method=", ".join(schedule.method for schedule in alike),
        mode="" if isinstance(measured, MansardError) else measured.mode,
        predicted_s=None if is_steady else predicted.makespan_s,
        measured_s=measured_s,
        beside_solver_s=_round_s(other),
        error=None if measured_s is None else measured_s / predicted.makespan_s - 1,
        networks=tuple(networks),
        remark=_remark(problem, measured),
    )


def _of(measured: MeasuredMulti | MansardError | None) -> MultiRun | None:
    """The row of what ran."""
    if not isinstance(measured, MeasuredMulti) or measured.row.failure is not None:
        return None
    return measured.row


def _remark(problem: Problem, measured: MeasuredMulti | MansardError) -> str:
    """Why it could not be run; else what disturbed it, and what else its prediction is of."""
    if isinstance(measured, MansardError):
        return str(measured)
    if measured.row.failure is not None:
        return measured.row.failure
    places = ((problem.machine, display_name(measured.machine)), (problem.mode, measured.mode))
    others = [of for of, here in places if of and of != here]
    elsewhere = [f"predicted from times of {', '.join(others)}"] if others else []
    return "; ".join((*measured.row.disturbances, *elsewhere))


def _round_s(row: MultiRun | None) -> float | None:
    return median(row.round_s) if row is not None and row.round_s else None


def _rate(row: MultiRun | None, network: int) -> float | None:
    """Items per second."""
    if row is None or not row.window_s:
        return None
    ran = row.networks[network]
    return ran.n_runs * (ran.batch or 1) / row.window_s


@contextmanager
def _solving(problem: Problem) -> Iterator[BaseProcess]:
    """Another process, which solves ``problem`` again and again."""
    import multiprocessing

    process = multiprocessing.get_context("spawn").Process(
        target=_solve_on, args=(msgspec.json.encode(problem),), daemon=True
    )
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.join()


def _solve_on(encoded: bytes) -> None:
    problem = msgspec.json.decode(encoded, type=Problem)
    while True:
        solve(problem)


Answer = TypeVar("Answer")
_N_DRAWS = 20  # of inputs within their errors
_OF_BASELINES = 0.2  # of the time limit, at most
_LOOK_S = 0.1  # between two looks at whether the search has ended
_QUIET_S = 2.0  # a shorter search shows no progress


@dataclass(frozen=True, kw_only=True)
class ScheduleRequest:
    """What is to be scheduled, and what is wanted. None: as the problem has it.

    ``problem``: a file, see ``problem_files``; networks of it without groups, and the networks
    ``models`` in its place, take theirs from ``runs``, of ``mode``. ``is_modelled``: predicted
    times where networks were not measured. ``chart``: HTML file to write; ``save``: the problem as
    it was solved, TOML or JSON. ``front``: the network of which the front of time and energy is
    found. ``run``: execute the best schedule and the baselines so. ``on``: address of a scheduler
    of Dask, whose workers search as well.
    """

    problem: Path | None = None
    models: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    mode: str | None = None
    is_modelled: bool = False
    goal: Goal | None = None
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
    on: str | None = None


class ScheduleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The best schedule, and others of the same problem by the same simulator."""

    sentence: str
    problem: Problem
    best: Schedule
    baselines: tuple[Schedule, ...]
    gain: float | None  # over the best baseline, see ``scheduler.baselines.gain``
    # To the errors of times and costs; None: none is known, or the search took long.
    sensitivity: Sensitivity | None
    front: tuple[FrontPoint, ...]  # of the network that was named, alone
    ran: tuple[RanSchedule, ...]  # the best and the baselines, where they were executed
    notes: tuple[str, ...]


def schedule(request: ScheduleRequest, reporter: Reporter = SILENT) -> ScheduleAnswer:
    """The best schedule of a problem; where none keeps the limits, the nearest one.

    Measures and runs nothing, unless it is to ``run``. Raises InputError for a problem that cannot
    be scheduled, UsageError for what cannot be asked for, and StorageError.
    """
    problem = _wanted(_problem(request, reporter), request)
    # What cannot be run or written is an error before the search.
    check_problem(problem)
    if request.run is not None:
        check_runnable(problem)
    if request.save is not None:
        write_problem(request.save, problem)
    if request.chart is not None:
        make_folder(request.chart.parent)
        if request.chart.is_dir():
            raise UsageError("a folder stands where the chart is to be", where=str(request.chart))
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
    if request.on is None:
        yield None
        return

    with connected(request.on) as cluster:
        if problem.is_steady or request.method == "local":
            what = "networks that repeat are" if problem.is_steady else "a local search is"
            reporter.note(f"note: {what} searched on this machine alone: --on changes nothing")
        yield cluster


def _problem(request: ScheduleRequest, reporter: Reporter) -> Problem:
    """That of the file, filled with what runs know of it."""
    if request.problem is not None and request.models:
        raise UsageError("networks and a problem exclude each other", fix="name them in the file")
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
