"""Schedules under errors of their inputs."""

from __future__ import annotations

from statistics import mean

import msgspec

from mansard.core.records.schedule import Problem
from mansard.scheduler import solve
from mansard.scheduler.sensitivity import sensitivity
from tests.scheduler import drawing


def with_errors(problem: Problem, share: float, cost_s: float) -> Problem:
    networks = tuple(
        msgspec.structs.replace(
            network,
            groups=tuple(
                msgspec.structs.replace(
                    group,
                    time_error=dict.fromkeys(group.time_s, share),
                    leave_error_s=dict.fromkeys(group.leave_s, cost_s),
                )
                for group in network.groups
            ),
        )
        for network in problem.networks
    )
    return msgspec.structs.replace(problem, networks=networks)


def test_the_loss_grows_with_the_errors() -> None:
    problem = drawing.problem(12, (6, 5))
    best = solve(problem)
    exact = sensitivity(problem, best, n_draws=3)
    # No error is known: each draw is the problem itself.
    assert (exact.n_best, exact.losses) == (3, (0.0, 0.0, 0.0))
    assert (exact.n_unknown_times, exact.n_unknown_costs) == (22, 22)
    some = sensitivity(with_errors(problem, 0.05, 1e-4), best, n_draws=30)
    large = sensitivity(with_errors(problem, 0.5, 1e-3), best, n_draws=30)
    assert (some.n_unknown_times, some.n_unknown_costs) == (0, 0)
    assert 0 <= mean(some.losses) < mean(large.losses) <= large.largest_loss
    assert large.n_best < some.n_best <= 30
    assert large.n_proven == 30


def test_a_seed_draws_the_same() -> None:
    problem = with_errors(drawing.problem(13, (3, 3), goal="throughput"), 0.3, 1e-3)
    best = solve(problem)
    assert sensitivity(problem, best, n_draws=5, seed=4) == sensitivity(
        problem, best, n_draws=5, seed=4
    )
    steady = msgspec.structs.replace(problem, is_steady=True)
    got = sensitivity(steady, solve(steady), n_draws=5)
    assert all(loss >= 0 for loss in got.losses)
    assert len(got.losses) == 5
