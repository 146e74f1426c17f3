"""Items per second of a schedule: items over time, never the inverse of a latency."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mansard.core.errors import InputError
from mansard.core.records.schedule import Accelerator, LayerGroup, NetworkChain, Problem, Schedule
from mansard.scheduler import check, evaluate, solve
from mansard.scheduler.baselines import baselines
from tests.scheduler import drawing


def network(name: str, batch: int, *groups: dict[str, float]) -> NetworkChain:
    free = {"gpu": 0.0, "dla0": 0.0}
    made = tuple(
        LayerGroup(name=f"g{at}", time_s=time_s, leave_s=free, enter_s=free)
        for at, time_s in enumerate(groups)
    )
    return NetworkChain(name=name, groups=made, batch=batch)


# On the GPU and the DLA: a takes 1 ms and 5 ms in one group; b takes 2 + 2 ms and 2 + 2 ms.
PAIR = Problem(
    accelerators=(Accelerator(name="gpu", kind="gpu"), Accelerator(name="dla0", kind="dla")),
    networks=(
        network("a", 2, {"gpu": 1e-3, "dla0": 5e-3}),
        network("b", 1, {"gpu": 2e-3, "dla0": 2e-3}, {"gpu": 2e-3, "dla0": 2e-3}),
    ),
    idle_w=0.0,
)


def items_per_s(found: Schedule) -> float:
    return sum(each.rate_per_s for each in found.networks)


def test_a_round_ends_with_its_last_network() -> None:
    # a ends after 1 ms, b on the DLA after 4 ms: a round is 4 ms, 2 + 1 items in it are 750 /s.
    # The sum of the inverse latencies would be 2 / 1 ms + 1 / 4 ms = 2250 /s.
    found = evaluate(PAIR, [["gpu"], ["dla0", "dla0"]], "given")
    assert [each.latency_s for each in found.networks] == pytest.approx([1e-3, 4e-3])
    assert [each.rate_per_s for each in found.networks] == pytest.approx([500, 250])


def test_the_rate_that_is_printed_is_the_goal_that_is_searched() -> None:
    for goal, rate_per_s in (("throughput", 750), ("min_rate", 250)):
        found = solve(msgspec.structs.replace(PAIR, goal=goal))
        assert found.is_optimal
        assert found.value == pytest.approx(rate_per_s)


def test_a_steady_network_is_no_round_of_the_others() -> None:
    # Alone on the GPU a runs every 1 ms with 2 items, b on the DLA every 4 ms: 2000 + 250 /s.
    steady = msgspec.structs.replace(PAIR, is_steady=True)
    found = evaluate(steady, [["gpu"], ["dla0", "dla0"]], "given")
    assert [each.rate_per_s for each in found.networks] == pytest.approx([2000, 250])


def without_limits(seed: int) -> Problem:
    drawn = drawing.hard(seed)
    problem = msgspec.structs.replace(
        drawn,
        goal="makespan",
        accelerators=tuple(msgspec.structs.replace(a, max_segments=0) for a in drawn.accelerators),
        networks=tuple(msgspec.structs.replace(n, max_latency_s=0.0) for n in drawn.networks),
        max_makespan_s=0.0,
        max_energy_j=0.0,
        max_power_w=0.0,
    )
    try:
        check(problem)
    except InputError:  # not all of them can be scheduled
        assume(False)
    return problem


@given(seed=st.integers(0, 100_000))
@settings(deadline=None, max_examples=40)
def test_a_shorter_round_has_the_higher_rate(seed: int) -> None:
    problem = without_limits(seed)
    n_items = sum(each.batch for each in problem.networks)
    all_found = (solve(problem, method="first_come"), *baselines(problem))
    for found in all_found:
        assert items_per_s(found) * found.makespan_s == pytest.approx(n_items)
    by_round = sorted(all_found, key=lambda found: found.makespan_s)
    by_rate = sorted(all_found, key=items_per_s, reverse=True)
    assert [f.makespan_s for f in by_round] == pytest.approx([f.makespan_s for f in by_rate])


@given(seed=st.integers(0, 100_000))
@settings(deadline=None, max_examples=20)
def test_goals_of_rates_have_the_shortest_round(seed: int) -> None:
    problem = without_limits(seed)
    shortest = solve(problem)
    for goal in ("throughput", "min_rate"):
        found = solve(msgspec.structs.replace(problem, goal=goal))
        if found.is_optimal and shortest.is_optimal and not found.broken:
            assert found.makespan_s == pytest.approx(shortest.makespan_s, rel=1e-7)
