"""Assignment and order by OR-Tools' CP-SAT, without contention."""

from __future__ import annotations

import time
from typing import Any

from mansard.core.records.schedule import Problem
from reproductions.solvers.blind import Answer, blind

_TICKS_PER_S = 1e9  # CP-SAT has whole numbers


def solve_by_cp_sat(problem: Problem, *, time_limit_s: float = 60.0) -> Answer | None:
    """The smallest makespan; None where nothing was found in time. Needs ortools.

    A group is an optional interval on each accelerator that takes it, as long as entering, running
    and leaving take; intervals of one accelerator do not overlap.
    """
    from ortools.sat.python import cp_model

    data = blind(problem)
    begun = time.perf_counter()
    model = cp_model.CpModel()

    def ticks(seconds: float | None) -> int:
        return round((seconds or 0.0) * _TICKS_PER_S)

    horizon = ticks(data.longest()) + 1
    on = {place: model.new_bool_var("") for place in data.places()}
    start: list[list[Any]] = []
    intervals: list[list[Any]] = [[] for _ in data.names]
    ends = []
    for n, groups in enumerate(data.time):
        stays = _stays(model, on, n, len(groups), len(data.names))
        model.add(len(groups) - 1 - sum(stays.values()) <= data.max_transitions)
        start.append([model.new_int_var(0, horizon, "") for _ in groups])
        end = [model.new_int_var(0, horizon, "") for _ in groups]
        ends.append(end[-1])
        for g, times in enumerate(groups):
            takes = [a for a, alone in enumerate(times) if alone is not None]
            model.add_exactly_one(on[n, g, a] for a in takes)
            if g > 0:
                model.add(start[n][g] >= end[g - 1])
            for a in takes:
                is_on = on[n, g, a]
                entered = is_on - stays.get((g - 1, a), 0) if g > 0 else 0
                left = is_on - stays.get((g, a), 0) if g + 1 < len(groups) else 0
                size = model.new_int_var(0, horizon, "")
                model.add(
                    size
                    == ticks(times[a]) * is_on
                    + ticks(data.enter[n][g][a]) * entered
                    + ticks(data.leave[n][g][a]) * left
                )
                intervals[a].append(
                    model.new_optional_interval_var(start[n][g], size, end[g], is_on, "")
                )
    for here, there in data.impossible():
        model.add_bool_or(~on[here], ~on[there])
    for on_one in intervals:
        model.add_no_overlap(on_one)
    makespan = model.new_int_var(0, horizon, "")
    model.add_max_equality(makespan, ends)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit_s
    status = solver.solve(model)
    if status not in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
        return None
    taken = {(n, g): data.names[a] for (n, g, a), is_on in on.items() if solver.value(is_on)}
    return Answer(
        assignment=tuple(
            tuple(taken[n, g] for g in range(len(groups))) for n, groups in enumerate(data.time)
        ),
        start_s=tuple(tuple(solver.value(at) / _TICKS_PER_S for at in row) for row in start),
        makespan_s=solver.objective_value / _TICKS_PER_S,
        is_proved=status == cp_model.OPTIMAL,
        solve_s=time.perf_counter() - begun,
    )


def _stays(
    model: Any, on: dict[tuple[int, int, int], Any], n: int, n_groups: int, n_accelerators: int
) -> dict[tuple[int, int], Any]:
    """[group, accelerator]: whether that group and the next both run there."""
    found = {}
    for g in range(n_groups - 1):
        for a in range(n_accelerators):
            if (n, g, a) in on and (n, g + 1, a) in on:
                both = on[n, g, a], on[n, g + 1, a]
                found[g, a] = stay = model.new_bool_var("")
                model.add_bool_and(both).only_enforce_if(stay)
                model.add_bool_or(stay, ~both[0], ~both[1])
    return found
