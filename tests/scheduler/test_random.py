"""Random problems against plain simulations of every assignment in every order."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mansard.core.errors import InputError
from mansard.core.records.schedule import Problem, Schedule
from mansard.scheduler import evaluate, solve
from tests.scheduler import brute_force, drawing, repeating


def parts(problem: Problem, found: Schedule) -> tuple[list[list[str]], list[list[float]]]:
    """Accelerators and starts [network][group]."""
    rows = [
        sorted((g for g in found.groups if g.network == n), key=lambda g: g.group)
        for n in range(len(problem.networks))
    ]
    return [[g.accelerator for g in row] for row in rows], [
        [g.start_s for g in row] for row in rows
    ]


def scored(problem: Problem, found: Schedule) -> tuple[float, float]:
    """The score of a schedule by its ends, in plain Python."""
    ends = [network.latency_s for network in found.networks]
    return brute_force.score(problem, parts(problem, found)[0], ends)


@given(seed=st.integers(0, 100_000))
@example(seed=30)  # limits that none keeps: excesses that differ by rounding alone
@example(seed=241)
@example(seed=163)  # a group of no time starts with the one after it
@settings(deadline=None, max_examples=40)
def test_a_proof_is_one(seed: int) -> None:
    problem = drawing.hard(seed)
    least = brute_force.least_score(problem)
    if least is None:
        with pytest.raises(InputError, match=r"cannot be assigned|no assignment keeps"):
            solve(problem)
        return
    found = solve(problem)
    excess, value = scored(problem, found)
    assert found.is_optimal
    assert excess == pytest.approx(least[0], abs=1e-7)
    assert value == pytest.approx(least[1], rel=1e-7, abs=1e-9)
    assert found.value == pytest.approx(abs(value), rel=1e-7, abs=1e-9)
    assert bool(found.broken) == (excess > 1e-9)
    assignment, starts = parts(problem, found)
    again = evaluate(problem, assignment, "again", starts)
    assert again.value == pytest.approx(found.value, rel=1e-7)
    # What was not searched to its end has a bound, and no proof that is none.
    late = solve(problem, time_limit_s=0.0)
    others = [late, solve(problem, method="first_come")]
    if not any(accelerator.max_segments for accelerator in problem.accelerators):
        others.append(solve(problem, method="local"))
    for other in others:
        its_excess, its_value = scored(problem, other)
        assert its_excess > least[0] - 1e-7
        assert its_excess > least[0] + 1e-7 or its_value >= value - 1e-7 * abs(value)
        if other.method == "first_come":
            continue
        if other.is_optimal:
            assert (its_excess, its_value) == pytest.approx((excess, value), rel=1e-7, abs=1e-7)
        if other.bound is not None and not found.broken:
            sign = -1 if problem.goal in {"throughput", "min_rate"} else 1
            assert sign * other.bound <= value + 1e-7 * abs(value)


@given(seed=st.integers(0, 100_000))
@settings(deadline=None, max_examples=25)
def test_networks_that_repeat_are_as_in_a_long_simulation(seed: int) -> None:
    draw, problem = random.Random(seed), drawing.hard(seed)
    networks = [
        msgspec.structs.replace(
            network, rate_per_s=draw.choice([0.0, 0.0, 20.0, 31.7, 50.0, 77.1]) * network.batch
        )
        for network in problem.networks
    ]
    steady = msgspec.structs.replace(problem, networks=tuple(networks), is_steady=True)
    choices = [list(brute_force.assignments(n, steady.max_transitions)) for n in networks]
    if not all(choices):
        return
    assignment = [draw.choice(each) for each in choices]
    found = evaluate(steady, assignment, "drawn")
    long = repeating.rates_and_latencies(steady, assignment, n_runs=400)
    for network, got, (rate, latency_s) in zip(networks, found.networks, long, strict=True):
        assert got.rate_per_s == pytest.approx(rate * network.batch, rel=0.02)
        is_short = got.rate_per_s < network.rate_per_s * (1 - 1e-3)
        assert is_short == any(f"{network.name}: " in b and "per second" in b for b in found.broken)
        if not is_short:  # else runs wait longer and longer
            assert got.latency_s == pytest.approx(latency_s, rel=0.1)


@given(seed=st.integers(0, 100_000))
@settings(deadline=None, max_examples=30)
def test_no_assignment_of_networks_that_repeat_is_better(seed: int) -> None:
    problem = drawing.hard(seed)
    steady = msgspec.structs.replace(
        problem,
        is_steady=True,
        accelerators=tuple(
            msgspec.structs.replace(each, max_segments=0) for each in problem.accelerators
        ),
        networks=tuple(
            msgspec.structs.replace(
                each, max_latency_s=each.max_latency_s if problem.goal == "misses" else 0.0
            )
            for each in problem.networks
        ),
    )

    def score(found: Schedule) -> tuple[float, float]:
        limits = [
            (found.makespan_s, steady.max_makespan_s),
            (found.energy_j or 0.0, steady.max_energy_j),
            (found.power_w or 0.0, steady.max_power_w),
        ]
        excess = sum(max(value / limit - 1, 0.0) for value, limit in limits if limit)
        sign = -1 if steady.goal in {"throughput", "min_rate"} else 1
        return excess, sign * (found.value or 0.0)

    choices = [brute_force.assignments(n, steady.max_transitions) for n in steady.networks]
    scores = [score(evaluate(steady, every, "one")) for every in itertools.product(*choices)]
    if not scores:
        return
    excess, value = score(solve(steady))
    assert excess == pytest.approx(min(scores)[0], abs=5e-3)  # means over 256 runs, and over 4096
    least = min(other for each, other in scores if each <= min(scores)[0] + 1e-9)
    assert value <= least + 0.01 * abs(least)
