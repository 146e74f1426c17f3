"""The exact search against every assignment in every order."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
import scipy.optimize

from mansard.core.records.schedule import Goal, Problem, Schedule
from mansard.scheduler import evaluate, solve
from mansard.scheduler.contention import contention_of, speed
from tests.scheduler import brute_force, drawing

Value = Callable[[Problem, list[float]], float]
GOALS: dict[Goal, Value] = {
    "makespan": lambda _, ends: max(ends),
    "throughput": lambda p, ends: -sum(n.batch for n in p.networks) / max(ends),
    "min_rate": lambda p, ends: -min(n.batch for n in p.networks) / max(ends),
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


def test_first_come_first_served_no_assignment_is_better() -> None:
    problem = msgspec.structs.replace(drawing.problem(9, (5, 4)), pccs=drawing.PCCS)
    every = itertools.product(
        *(brute_force.assignments(network, 1) for network in problem.networks)
    )
    least = min(evaluate(problem, assignment, "one").makespan_s for assignment in every)
    found = solve(problem, method="first_come")
    assert found.makespan_s == pytest.approx(least)
    assert found.is_optimal
    assert found.space.endswith("each first come first served")
    assert solve(problem).makespan_s <= least * (1 + 1e-9)


def milp_makespan(problem: Problem) -> float:  # noqa: C901 - one loop for each kind of constraint
    """Without contention, by HiGHS: a binary for each assignment, and for each pair's order."""
    accelerators = [accelerator.name for accelerator in problem.accelerators]
    rows = [list(brute_force.assignments(n, problem.max_transitions)) for n in problem.networks]
    choice = [(n, row) for n, each in enumerate(rows) for row in each]
    groups = [
        (n, g) for n, network in enumerate(problem.networks) for g in range(len(network.groups))
    ]
    pairs = [(g, h) for g, h in itertools.combinations(groups, 2) if g[0] != h[0]]
    n_choices, n_groups = len(choice), len(groups)
    size = n_choices + n_groups + len(pairs) + 1  # chosen, starts, orders, makespan
    long_s = sum(max(g.time_s.values()) + 2e-3 for n in problem.networks for g in n.groups)
    matrix: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
    least: list[float] = []

    def lasts(g: tuple[int, int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        line = np.zeros(size)
        for at, (n, row) in enumerate(choice):
            if n != g[0]:
                continue
            group, k = problem.networks[n].groups[g[1]], g[1]
            line[at] = group.time_s[row[k]]
            line[at] += group.enter_s[row[k]] if k and row[k - 1] != row[k] else 0.0
            is_left = k + 1 < len(row) and row[k + 1] != row[k]
            line[at] += group.leave_s[row[k]] if is_left else 0.0
        return line

    def after(
        g: tuple[int, int] | None, h: tuple[int, int]
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Start of g, or the makespan, less the end of h."""
        line = -lasts(h)
        line[n_choices + groups.index(g) if g else -1] += 1
        line[n_choices + groups.index(h)] -= 1
        return line

    for n, network in enumerate(problem.networks):
        for k in range(1, len(network.groups)):
            matrix.append(after((n, k), (n, k - 1)))
            least.append(0.0)
        matrix.append(after(None, (n, len(network.groups) - 1)))
        least.append(0.0)
        for sign in (1.0, -1.0):  # one choice
            matrix.append(
                np.array([sign * (at < n_choices and choice[at][0] == n) for at in range(size)])
            )
            least.append(sign)
    for at, (g, h) in enumerate(pairs):
        for name in accelerators:
            both = np.zeros(size)
            for number, (n, row) in enumerate(choice):
                both[number] = (n == g[0] and row[g[1]] == name) + (n == h[0] and row[h[1]] == name)
            order = np.zeros(size)
            order[n_choices + n_groups + at] = 1
            matrix += [after(h, g) - long_s * (both + order), after(g, h) - long_s * (both - order)]
            least += [-3 * long_s, -2 * long_s]
    is_whole = np.ones(size)
    is_whole[n_choices : n_choices + n_groups] = is_whole[-1] = 0
    found = scipy.optimize.milp(
        np.eye(size)[-1],
        integrality=is_whole,
        bounds=scipy.optimize.Bounds(0, np.where(is_whole, 1, np.inf)),
        constraints=scipy.optimize.LinearConstraint(np.array(matrix), lb=np.array(least)),
        options={"mip_rel_gap": 0},
    )
    assert found.success, found.message
    return float(found.fun)


@pytest.mark.parametrize(("sizes", "n_accelerators"), [((3, 4), 2), ((3, 3, 2), 2), ((3, 3), 3)])
def test_a_solver_of_integer_programs_finds_the_same_makespan(
    sizes: tuple[int, ...], n_accelerators: int
) -> None:
    for seed in range(3):
        problem = drawing.problem(100 + seed, sizes, n_accelerators)
        # HiGHS keeps constraints to 1e-6.
        assert solve(problem).makespan_s == pytest.approx(milp_makespan(problem), abs=5e-6)


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


def test_by_default_what_is_proven_soon_is_not_lost_to_what_is_not() -> None:
    """In every order it takes minutes; first come first served a tenth of a second."""
    problem = drawing.problem(2, (10, 10, 10, 10))
    problem = msgspec.structs.replace(problem, pccs=drawing.PCCS)
    served = solve(problem, method="first_come")
    found = solve(problem, time_limit_s=1.5)
    assert served.is_optimal
    assert found.value is not None
    assert served.value is not None
    if found.method == "first_come":  # on a slow machine
        assert found.is_optimal
        assert found.value == served.value
        assert "in other orders of groups nothing better was found" in found.notes[-1]
    else:
        assert found.bound is not None
        assert found.bound < found.value < served.value
        assert "the best first come first served" in found.notes[-1]


def test_an_accelerator_is_held_where_a_short_group_would_slow_others_down() -> None:
    # With strong contention it pays to hold an accelerator for a group that is still to come; to
    # start one that waits and would end before gives 24.4 ms.
    fit = msgspec.structs.replace(
        drawing.FIT,
        points_per_byte_per_s=2e-9,
        normal_byte_per_s=1e9,
        total_byte_per_s=20e9,
        contention_byte_per_s=90e9,
    )
    drawn = drawing.problem(11, (2, 2, 2))
    problem = msgspec.structs.replace(drawn, pccs={"gpu": fit, "dla0": fit})
    found, least = solve(problem, method="exact"), brute_force.least_score(problem)
    assert least is not None
    assert found.is_optimal
    assert found.value == pytest.approx(least[1], rel=1e-9)
    assert found.value == pytest.approx(18.52e-3, rel=1e-3)


def test_an_accelerator_is_held_where_a_pause_saves_power() -> None:
    # Under 12 W: without a pause the shortest that keeps them takes 47.4 ms.
    problem = msgspec.structs.replace(drawing.problem(5, (3, 3)), max_power_w=12.0)
    found, least = solve(problem, method="exact"), brute_force.least_score(problem)
    assert least is not None
    assert (found.is_optimal, found.broken) == (True, ())
    assert found.value == pytest.approx(least[1], rel=1e-9)
    assert found.value == pytest.approx(40.32e-3, rel=1e-3)
