"""Assignment and order as a mixed-integer programme that HiGHS solves, without contention."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from mansard.core.records.schedule import Problem
from reproductions.solvers.blind import Answer, Blind, Place, blind

_PER_S = 1e3  # milliseconds: numbers near 1


def solve_by_highs(problem: Problem, *, time_limit_s: float = 60.0) -> Answer | None:
    """The smallest makespan; None where nothing was found in time. Needs highspy.

    Two groups of different networks on one accelerator have a binary for their order, and a
    constraint for each order that a large constant lifts.
    """
    import highspy

    data = blind(problem)
    begun = time.perf_counter()
    with _silenced():
        model = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("time_limit", time_limit_s),
        ("mip_rel_gap", 0.0),
    ):
        model.setOptionValue(option, value)
    on = {place: model.addBinary() for place in data.places()}
    long = _lengths(model, data, on)
    longest = data.longest() * _PER_S
    makespan = model.addVariable(0, longest)
    start: dict[tuple[int, int], Any] = {at: model.addVariable(0, longest) for at in long}
    end = {at: start[at] + length for at, length in long.items()}
    for n, g in long:
        model.addConstr(start.get((n, g + 1), makespan) >= end[n, g])
    first: dict[Any, Any] = {}
    for one, two, a in data.rivals():
        if (one, two) not in first:
            first[one, two] = model.addBinary()
        apart = sum(1 - on[n, g, a] for n, g in (one, two))
        model.addConstr(start[two] >= end[one] - longest * (apart + 1 - first[one, two]))
        model.addConstr(start[one] >= end[two] - longest * (apart + first[one, two]))
    model.minimize(makespan)
    if not model.getSolution().value_valid:
        return None
    taken = {(n, g): data.names[a] for (n, g, a), is_on in on.items() if model.val(is_on) > 0.5}
    return Answer(
        assignment=tuple(
            tuple(taken[n, g] for g in range(len(groups))) for n, groups in enumerate(data.time)
        ),
        start_s=tuple(
            tuple(model.val(start[n, g]) / _PER_S for g in range(len(groups)))
            for n, groups in enumerate(data.time)
        ),
        makespan_s=model.val(makespan) / _PER_S,
        is_proved=model.getModelStatus() == highspy.HighsModelStatus.kOptimal,
        solve_s=time.perf_counter() - begun,
    )


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Nothing on stdout: HiGHS greets there before it can be told not to, amid a command's JSON."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def _lengths(model: Any, data: Blind, on: dict[Place, Any]) -> dict[tuple[int, int], Any]:
    """How long each group is, with its changes, in milliseconds; and the limits of assignments."""
    takes: dict[tuple[int, int], list[Any]] = {}
    long: dict[tuple[int, int], Any] = {}
    moves: dict[int, list[Any]] = {}
    for (n, g, a), is_on in on.items():
        takes.setdefault((n, g), []).append(is_on)
        long[n, g] = long.get((n, g), 0) + (data.time[n][g][a] or 0.0) * _PER_S * is_on
    for each in takes.values():
        model.addConstr(sum(each) == 1)
    for here, there, cost in data.changes():
        if cost is None:
            model.addConstr(on[here] + on[there] <= 1)
            continue
        move = model.addVariable(0, 1)
        model.addConstr(move >= on[here] + on[there] - 1)
        moves.setdefault(here[0], []).append(move)
        for (n, g, a), table in ((here, data.leave), (there, data.enter)):
            long[n, g] += (table[n][g][a] or 0.0) * _PER_S * move
    for each in moves.values():
        model.addConstr(sum(each) <= data.max_transitions)
    return long
