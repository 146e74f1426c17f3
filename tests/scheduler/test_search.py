"""The exact search against every assignment in every order."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from mansard.core.records.schedule import Goal, Problem, Schedule
from mansard.scheduler import evaluate, solve
from mansard.scheduler.contention import contention_of, speed
from tests.scheduler import brute_force, drawing

Value = Callable[[Problem, list[float]], float]
GOALS: dict[Goal, Value] = {
    "makespan": lambda _, ends: max(ends),
    "throughput": lambda p, ends: (
        -sum(n.batch / end for n, end in zip(p.networks, ends, strict=True))
    ),
    "min_rate": lambda p, ends: (
        -min(n.batch / end for n, end in zip(p.networks, ends, strict=True))
    ),
    "weighted_latency": lambda p, ends: sum(
        n.weight * end for n, end in zip(p.networks, ends, strict=True)
    ),
    "misses": lambda p, ends: sum(
        end > n.max_latency_s for n, end in zip(p.networks, ends, strict=True)
    ),
}


def starts(schedule: Schedule, problem: Problem) -> list[list[float]]:
    rows = [[0.0] * len(network.groups) for network in problem.networks]
    for group in schedule.groups:
        rows[group.network][group.group] = group.start_s
    return rows


def names(schedule: Schedule, problem: Problem) -> list[list[str]]:
    rows = [[""] * len(network.groups) for network in problem.networks]
    for group in schedule.groups:
        rows[group.network][group.group] = group.accelerator
    return rows


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize(("sizes", "seed"), [((3, 3), 1), ((4, 2), 2), ((2, 2, 2), 3)])
def test_no_order_of_any_assignment_is_better(
    goal: Goal, sizes: tuple[int, ...], seed: int
) -> None:
    problem = drawing.problem(seed, sizes, goal=goal)
    found = solve(problem)
    least = brute_force.least(problem, lambda ends: GOALS[goal](problem, ends), brute_force.alone)
    assert found.value == pytest.approx(abs(least), rel=1e-9)
    assert found.is_optimal
    assert found.bound == pytest.approx(found.value)
    again = evaluate(problem, names(found, problem), "again", starts(found, problem))
    assert again.value == pytest.approx(found.value)


@pytest.mark.parametrize(("sizes", "seed"), [((3, 3), 4), ((2, 2, 2), 5)])
def test_no_order_is_better_with_contention(sizes: tuple[int, ...], seed: int) -> None:
    problem = msgspec.structs.replace(drawing.problem(seed, sizes), pccs=drawing.PCCS)

    def slowed(name: str, own: float, external: float) -> float:
        return speed(contention_of(problem, name), own, external)

    found = solve(problem)
    assert found.value == pytest.approx(brute_force.least(problem, max, slowed), rel=1e-9)
    assert found.is_optimal
    again = evaluate(problem, names(found, problem), "again", starts(found, problem))
    assert again.value == pytest.approx(found.value)


@pytest.mark.parametrize("n_accelerators", [2, 3])
def test_the_local_search_is_between_its_bound_and_the_best(n_accelerators: int) -> None:
    problem = drawing.problem(6, (6, 5, 7), n_accelerators=n_accelerators)
    best, local = solve(problem), solve(problem, method="local", seed=3)
    assert local.value is not None
    assert local.bound is not None
    assert best.value is not None
    assert 0.7 * best.value < local.bound <= best.value <= local.value < 1.1 * best.value
    assert not local.is_optimal
    assert local == msgspec.structs.replace(
        solve(problem, method="local", seed=3), solve_s=local.solve_s
    )


def test_after_its_time_the_best_so_far_has_a_gap() -> None:
    problem = msgspec.structs.replace(
        drawing.problem(2, (10, 8, 12), max_transitions=2), pccs=drawing.PCCS
    )
    found = solve(problem, time_limit_s=0.0)
    assert not found.is_optimal
    assert found.bound is not None
    assert found.value is not None
    assert found.bound < found.value
