"""What the models of solvers share: the makespan, each network once, without contention."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from mansard.core.errors import InputError
from mansard.core.records.schedule import Problem, Schedule
from mansard.scheduler.search import check, evaluate

Place = tuple[int, int, int]  # network, group, accelerator


@dataclass(frozen=True)
class Answer:
    """What a solver found; what its schedule is worth is for the simulator to say."""

    assignment: tuple[tuple[str, ...], ...]  # [network][group], names of accelerators
    start_s: tuple[tuple[float, ...], ...]  # in the solver's own model: its order
    makespan_s: float  # in the solver's own model
    is_proved: bool  # that nothing in its model is better
    solve_s: float  # with the making of the model


def score(problem: Problem, answer: Answer, method: str) -> Schedule:
    """The answer's assignment in the simulator: in its own order, or first come if that is better.

    Its ``solve_s`` is the solver's.
    """
    planned = evaluate(problem, answer.assignment, method, answer.start_s)
    first_come = evaluate(problem, answer.assignment, method)
    better = min(planned, first_come, key=lambda schedule: schedule.makespan_s)
    return msgspec.structs.replace(better, solve_s=answer.solve_s)


@dataclass(frozen=True)
class Blind:
    """A problem as lists [network][group][accelerator], in seconds; None: not possible."""

    names: tuple[str, ...]
    time: list[list[list[float | None]]]
    enter: list[list[list[float | None]]]
    leave: list[list[list[float | None]]]
    max_transitions: int

    def places(self) -> Iterator[Place]:
        """Each network, group and accelerator that takes the group."""
        for n, groups in enumerate(self.time):
            for g, times in enumerate(groups):
                yield from ((n, g, a) for a, time in enumerate(times) if time is not None)

    def changes(self) -> Iterator[tuple[Place, Place, float | None]]:
        """Each change between a group and the next, and what it costs; None: not known."""
        places = set(self.places())
        for n, g, a in sorted(places):
            for b in range(len(self.names)):
                if a != b and (n, g + 1, b) in places:
                    leave, enter = self.leave[n][g][a], self.enter[n][g + 1][b]
                    known = None if leave is None or enter is None else leave + enter
                    yield (n, g, a), (n, g + 1, b), known

    def impossible(self) -> Iterator[tuple[Place, Place]]:
        """Changes whose cost is not known."""
        return ((here, there) for here, there, cost in self.changes() if cost is None)

    def rivals(self) -> Iterator[tuple[tuple[int, int], tuple[int, int], int]]:
        """Pairs of groups of different networks that one accelerator takes, and that one."""
        for (n, g, a), (m, h, b) in itertools.combinations(self.places(), 2):
            if n != m and a == b:
                yield (n, g), (m, h), a

    def longest(self) -> float:
        """No useful schedule is longer: everything in turn, each in its longest way."""
        tables = (self.time, self.enter, self.leave)
        return sum(max(t or 0 for t in times) for table in tables for n in table for times in n)


def blind(problem: Problem) -> Blind:
    """The problem as the solvers take it. Raises InputError for another goal or steady state."""
    if problem.goal != "makespan" or problem.is_steady:
        raise InputError(
            "the models of the peers know the makespan of one round alone",
            where=f"goal {problem.goal}" + (", steady" if problem.is_steady else ""),
            fix="set goal to makespan and is_steady to false",
        )
    check(problem)
    names = tuple(accelerator.name for accelerator in problem.accelerators)

    def lists(field: str) -> list[list[list[float | None]]]:
        return [
            [[getattr(group, field).get(name) for name in names] for group in network.groups]
            for network in problem.networks
        ]

    return Blind(
        names=names,
        time=lists("time_s"),
        enter=lists("enter_s"),
        leave=lists("leave_s"),
        max_transitions=problem.max_transitions,
    )
