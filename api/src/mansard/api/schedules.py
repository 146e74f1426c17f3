"""Several networks on several accelerators: the best schedule, and what it gains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from mansard.api.multi import MultiRequest
from mansard.api.problem_files import read_problem, write_problem
from mansard.api.reporter import SILENT, Reporter
from mansard.api.schedule_runs import RanSchedule, run_schedules
from mansard.core.errors import UsageError
from mansard.core.records import Problem, Schedule
from mansard.core.records.schedule import Goal


@dataclass(frozen=True, kw_only=True)
class ScheduleRequest:
    """What is to be scheduled, and what is wanted. None: as the problem has it.

    ``problem``: a file, see ``problem_files``. ``chart``: HTML file to write; ``save``: the problem
    as it was solved, TOML or JSON. ``uses_peers``: other solvers as well, where they are installed.
    ``run``: execute the best schedule and the baselines so.
    """

    problem: Path
    goal: Goal | None = None
    is_steady: bool | None = None
    max_transitions: int | None = None
    max_latency_s: float | None = None
    max_energy_j: float | None = None
    max_power_w: float | None = None
    method: Literal["auto", "exact", "local"] = "auto"
    time_limit_s: float = 60.0
    uses_peers: bool = False
    chart: Path | None = None
    save: Path | None = None
    run: MultiRequest | None = None


class ScheduleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The best schedule, and others of the same problem by the same simulator."""

    sentence: str
    problem: Problem
    best: Schedule
    baselines: tuple[Schedule, ...]
    peers: tuple[Schedule, ...]
    gain: float | None  # over the best baseline, see ``scheduler.baselines.gain``
    ran: tuple[RanSchedule, ...]  # the best and the baselines, where they were executed
    notes: tuple[str, ...]


def schedule(request: ScheduleRequest, reporter: Reporter = SILENT) -> ScheduleAnswer:
    """The best schedule of a problem; where none keeps the limits, the nearest one.

    Measures and runs nothing, unless it is to ``run``. Raises InputError for a problem that cannot
    be scheduled, UsageError for what cannot be asked for, and StorageError.
    """
    from mansard.analytics.scheduling.wording import best_of, schedule_sentence
    from mansard.scheduler import solve

    problem = _wanted(read_problem(request.problem), request)
    with reporter.progress("Searching schedules") as progress:
        best = solve(
            problem,
            method=request.method,
            time_limit_s=request.time_limit_s,
            progress=lambda share, line: progress.update(round(100 * share), 100, None, line),
        )
    others: tuple[Schedule, ...] = ()
    gained = None
    sentence = schedule_sentence(problem, best, best_of(others), gained)
    notes = tuple(dict.fromkeys((*problem.notes, *best.notes, *_sources(problem))))
    if request.save is not None:
        write_problem(request.save, problem)
    if request.chart is not None:
        from mansard.analytics.report.schedule_page import write_schedule_page

        write_schedule_page(request.chart, problem, best, sentence, notes)
    ran: tuple[RanSchedule, ...] = ()
    if request.run is not None:
        ran = run_schedules(request.run, problem, (best, *others), reporter)
    return ScheduleAnswer(
        sentence=sentence,
        problem=problem,
        best=best,
        baselines=tuple(others),
        peers=(),
        gain=gained,
        ran=ran,
        notes=notes,
    )


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


def _sources(problem: Problem) -> tuple[str, ...]:
    """What the times are, where not all of them were measured."""
    counts: dict[str, int] = {}
    for network in problem.networks:
        for group in network.groups:
            counts[group.source] = counts.get(group.source, 0) + 1
    if set(counts) <= {"measured"}:
        return ()
    shares = ", ".join(f"{n} {source}" for source, n in counts.items())
    return (f"groups by what their times are: {shares}",)
