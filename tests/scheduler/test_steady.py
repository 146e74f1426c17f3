"""Networks that repeat, first come first served."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from mansard.core.errors import InputError
from mansard.core.records.schedule import (
    Accelerator,
    LayerGroup,
    NetworkChain,
    Problem,
    Schedule,
)
from mansard.scheduler import evaluate, solve
from mansard.scheduler.chains import build_arrays
from mansard.scheduler.simulation import new_run, repeat
from tests.scheduler import brute_force, drawing


def chain(name: str, times: list[dict[str, float]], **limits: float) -> NetworkChain:
    groups = tuple(
        LayerGroup(
            name=f"g{at}",
            time_s=time_s,
            energy_j=dict.fromkeys(time_s, 0.5),
            leave_s=dict.fromkeys(time_s, 0.0),
            enter_s=dict.fromkeys(time_s, 0.0),
        )
        for at, time_s in enumerate(times)
    )
    return NetworkChain(name=name, groups=groups, **limits)  # type: ignore[arg-type]


def problem(*networks: NetworkChain, **fields: object) -> Problem:
    return Problem(
        accelerators=(Accelerator(name="gpu", kind="gpu"), Accelerator(name="dla0", kind="dla")),
        networks=networks,
        is_steady=True,
        idle_w=2.0,
        **fields,  # type: ignore[arg-type]
    )


def rates(schedule: Schedule) -> list[float]:
    return [network.rate_per_s for network in schedule.networks]


def test_back_to_back_runs_share_an_accelerator_in_turn() -> None:
    both = problem(chain("a", [{"gpu": 0.01}]), chain("b", [{"gpu": 0.03}]))
    found = evaluate(both, [["gpu"], ["gpu"]], "gpu only")
    # One run of each in 40 ms; each waits for the other: latency 40 ms. 2 W and 0.5 J of each.
    assert rates(found) == pytest.approx([25, 25])
    assert [network.latency_s for network in found.networks] == pytest.approx([0.04, 0.04])
    assert found.makespan_s == pytest.approx(0.04)
    assert found.energy_j == pytest.approx(2 * 0.5 + 2.0 * 0.04)


def test_runs_that_arrive_wait_for_their_turn() -> None:
    # 20 ms every 50 ms: in [0, 20], [50, 70], ... of b's [20, 40], [40, 60], [70, 90], ...
    both = problem(
        chain("a", [{"gpu": 0.02}], rate_per_s=20.0, max_latency_s=0.035),
        chain("b", [{"gpu": 0.01}]),
        goal="throughput",
    )
    found = evaluate(both, [["gpu"], ["gpu"]], "gpu only")
    # In each 50 ms a takes 20, so b has 30: three runs.
    assert rates(found) == pytest.approx([20, 60])
    assert found.value == pytest.approx(80)
    assert found.networks[0].is_missed is False


def test_a_queue_that_gets_shorter_is_not_the_steady_state() -> None:
    # b takes the GPU for 3 s, then the DLA for 7; a waits at first. While a's queue lasts, b waits
    # 1 s for it and a has 8 runs in 11 s, 0.727 a second; 0.72 arrive.
    both = problem(
        chain("a", [{"gpu": 1.0}], rate_per_s=0.72), chain("b", [{"gpu": 3.0}, {"dla0": 7.0}])
    )
    found = evaluate(both, [["gpu"], ["gpu", "dla0"]], "given")
    assert rates(found)[0] == pytest.approx(0.72)
    assert 1 / 11 < rates(found)[1] < 1 / 10
    assert not found.broken


def test_a_simulation_does_not_see_the_one_before_it() -> None:
    # In turns: a's first group, b, a's second group, b: 40 ms for one run of a and two of b. At the
    # first end of a the state is that of every one.
    both = problem(chain("a", [{"gpu": 0.01}] * 2), chain("b", [{"gpu": 0.01}]))
    found = evaluate(both, [["gpu", "gpu"], ["gpu"]], "given")
    assert rates(found) == pytest.approx([25, 50])
    only = msgspec.structs.replace(both, accelerators=both.accelerators[:1])
    assert rates(solve(only)) == pytest.approx([25, 50])


def test_a_rate_that_is_not_kept_is_a_broken_limit() -> None:
    found = evaluate(problem(chain("a", [{"gpu": 0.01}], rate_per_s=150.0)), [["gpu"]], "given")
    assert found.broken == ("a: 100 of 150 per second",)


def test_each_network_gets_an_accelerator_of_its_own() -> None:
    times = [{"gpu": 0.01, "dla0": 0.02}]
    best = solve(problem(chain("a", times), chain("b", times), goal="throughput"))
    # One on each: 100 and 50 runs a second; both in turn on the GPU: 100 in all.
    assert best.value == pytest.approx(150)
    assert best.is_optimal


def test_the_best_assignment_is_found() -> None:
    for goal, sign in (("throughput", -1), ("min_rate", -1), ("weighted_latency", 1)):
        drawn = drawing.problem(8, (3, 3), goal=goal)  # type: ignore[arg-type]
        steady = msgspec.structs.replace(drawn, is_steady=True, pccs=drawing.PCCS)
        every = itertools.product(*(brute_force.assignments(n, 1) for n in steady.networks))
        values = [evaluate(steady, assignment, "one").value for assignment in every]
        least = min(sign * value for value in values if value is not None)
        found = solve(steady)
        assert found.value == pytest.approx(sign * least, rel=1e-6)
        assert found.is_optimal


def test_rates_above_capacity_are_refused_with_what_was_reached() -> None:
    too_much = problem(chain("a", [{"gpu": 0.01}], rate_per_s=150.0))
    with pytest.raises(InputError, match=r"highest that was reached is a 100 of 150 per second"):
        solve(too_much)


def test_a_deadline_is_missed_by_the_longest_run_not_by_the_mean() -> None:
    # Every 20 ms b runs first: a takes 8 ms there, and 4 ms 10 ms later.
    both = problem(
        chain("b", [{"gpu": 0.004}], rate_per_s=50.0),
        chain("a", [{"gpu": 0.004}], rate_per_s=100.0, max_latency_s=0.007),
    )
    found = evaluate(both, [["gpu"], ["gpu"]], "gpu only")
    late = found.networks[1]
    assert (late.latency_s, late.longest_s) == pytest.approx((0.006, 0.008))
    assert late.is_missed
    assert found.broken == ("a: latency 8 ms, limit 7 ms",)


def test_what_one_assignment_leaves_is_not_the_state_of_the_next() -> None:
    both = problem(
        chain("a", [{"gpu": 0.001, "dla0": 0.003}, {"gpu": 0.001, "dla0": 0.002}]),
        chain("b", [{"gpu": 0.004, "dla0": 0.005}], rate_per_s=100.0),
        goal="throughput",
    )
    # a again and again on the GPU; b once in 10 ms on the DLA. The search simulates this
    # assignment, and then once more for the answer.
    assert rates(solve(both)) == pytest.approx([500, 100])


def test_a_state_that_returns_is_seen_where_runs_arrive() -> None:
    # On one accelerator, every 20 ms two runs of a (10 ms apart, 4 ms each) and one of b (4 ms):
    # the state returns after 20 ms, however many runs are allowed.
    made = build_arrays(
        problem(
            chain("a", [{"gpu": 0.004}], rate_per_s=100.0),
            chain("b", [{"gpu": 0.004}], rate_per_s=50.0),
        )
    )
    rounds, times = np.zeros((1, 2, 5)), np.zeros((2, 2))
    repeat(made.instance, new_run(made.instance), np.zeros((1, 2), np.int64), 1, 64, rounds, times)
    assert rounds[0, :, 0].tolist() == [1, 1]
    assert rounds[0, 0, 1] == 2 * rounds[0, 1, 1]
    assert rounds[0, :, 4] == pytest.approx(0.02 * rounds[0, 1, 1])


def test_a_run_that_waited_longer_is_another_state() -> None:
    # b arrives every 30 ms and a every 20 ms: their states return after 60 ms, not after 30.
    made = build_arrays(
        problem(
            chain("a", [{"gpu": 0.004}], rate_per_s=50.0),
            chain("b", [{"gpu": 0.004}], rate_per_s=100 / 3),
        )
    )
    rounds, times = np.zeros((1, 2, 5)), np.zeros((2, 2))
    repeat(made.instance, new_run(made.instance), np.zeros((1, 2), np.int64), 1, 64, rounds, times)
    assert rounds[0, :, 0].tolist() == [1, 1]
    assert rounds[0, :, 1].tolist() in ([3, 2], [6, 4])
