"""A new schedule from the state that networks are in."""

from __future__ import annotations

import msgspec
import pytest

from mansard.core.errors import InputError
from mansard.core.records.schedule import Accelerator, LayerGroup, NetworkChain, Problem
from mansard.scheduler import evaluate, solve
from mansard.scheduler.rescheduling import NetworkState, reschedule
from tests.scheduler import drawing


def chain(name: str, *times: tuple[float, float]) -> NetworkChain:
    groups = tuple(
        LayerGroup(
            name=f"g{at}",
            time_s={"gpu": gpu_s, "dla0": dla_s},
            leave_s={"gpu": 1.0, "dla0": 1.0},
            enter_s={"gpu": 0.0, "dla0": 0.0},
        )
        for at, (gpu_s, dla_s) in enumerate(times)
    )
    return NetworkChain(name=name, groups=groups)


PROBLEM = Problem(
    accelerators=(Accelerator(name="gpu", kind="gpu"), Accelerator(name="dla0", kind="dla")),
    networks=(chain("a", (10, 30), (10, 30)), chain("b", (4, 6), (5, 20))),
    idle_w=1.0,
)
# a on the GPU; b begins on the DLA and goes to the GPU between a's groups.
PLAN = evaluate(
    PROBLEM,
    [["gpu", "gpu"], ["dla0", "gpu"]],
    "plan",
    [[0.0, 15.0], [0.0, 10.0]],
)


def test_a_group_that_is_late_is_worth_another_assignment() -> None:
    # At 6 the DLA has just run b's first group; a's first one will take 30 longer, not 4.
    states = [NetworkState(0, left_s=30.0), NetworkState(1)]
    got = reschedule(PROBLEM, PLAN, 6.0, states)
    # Kept: b leaves until 1, waits until 30, runs until 35; a until 45.
    assert got.kept.makespan_s == pytest.approx(45)
    # New: b stays on the DLA until 20, a ends at 30 + 10.
    assert got.found.makespan_s == pytest.approx(40)
    assert got.gain_s == pytest.approx(5)
    assert got.found.is_optimal


def test_what_has_left_has_to_enter_again() -> None:
    states = [NetworkState(0, left_s=30.0), NetworkState(1, has_left=True)]
    got = reschedule(PROBLEM, PLAN, 7.0, states)
    # No further change is allowed, but both accelerators can be entered: the DLA, until 20.
    assert got.found.makespan_s == pytest.approx(40)
    assert len(got.problem.networks[1].groups) == 1


def test_a_group_that_runs_does_not_wait_for_another_one() -> None:
    networks = (chain("a", (10, 100)), chain("b", (4, 6), (5, 100), (100, 26)))
    problem = msgspec.structs.replace(PROBLEM, networks=networks, max_transitions=2)
    plan = evaluate(problem, [["gpu"], ["dla0", "gpu", "dla0"]], "plan", [[0.0], [0.0, 10.0, 16.0]])
    # a runs for 30 more on the GPU, which b waits for: until 30, 5 there, leaves for 1, 26 on the
    # DLA. Were a to wait until b has left the GPU, b would end at 32 and a at 36.
    states = [NetworkState(0, left_s=30.0), NetworkState(1, has_left=True)]
    got = reschedule(problem, plan, 7.0, states)
    assert got.kept.makespan_s == got.found.makespan_s == 62
    assert got.found.is_optimal
    both = [NetworkState(0, left_s=30.0), NetworkState(1, left_s=5.0)]
    with pytest.raises(InputError, match="b on gpu: two groups run on one accelerator"):
        reschedule(problem, plan, 7.0, both)


def test_on_time_the_plan_stays() -> None:
    problem = drawing.problem(11, (4, 3))
    plan = solve(problem)
    rows = [[g for g in plan.groups if g.network == n] for n in range(2)]
    now_s = rows[1][0].end_s
    states = []
    for row, network in zip(rows, problem.networks, strict=True):
        done = [g for g in row if g.end_s <= now_s]
        running = next((g for g in row if g.start_s < now_s < g.end_s), None)
        left_s = None if running is None else running.end_s - running.leave_s - now_s
        here = done[-1] if done and running is None else None
        has_left = here is not None and here.leave_s > 0
        states.append(NetworkState(len(done), left_s, has_left))
        assert left_s is None or left_s > 0, network.name
    got = reschedule(problem, plan, now_s, states)
    assert got.kept.makespan_s == pytest.approx(plan.makespan_s - now_s)
    assert got.gain_s == pytest.approx(0, abs=1e-12)


def test_networks_that_ended_are_gone() -> None:
    got = reschedule(PROBLEM, PLAN, 16.0, [NetworkState(1, left_s=9.0), NetworkState(2)])
    assert [network.name for network in got.problem.networks] == ["a"]
    with pytest.raises(InputError, match="every network has ended"):
        reschedule(PROBLEM, PLAN, 30.0, [NetworkState(2), NetworkState(2)])
    steady = msgspec.structs.replace(PROBLEM, is_steady=True)
    with pytest.raises(InputError, match="each network that runs once"):
        reschedule(steady, PLAN, 0.0, [NetworkState(0), NetworkState(0)])
