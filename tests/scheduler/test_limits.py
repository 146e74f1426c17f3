"""Limits that are kept, and the nearest schedule where they cannot be; bad input."""

from __future__ import annotations

from threading import Event
from typing import Any

import msgspec
import pytest

from mansard.core.errors import InputError
from mansard.core.records.schedule import Accelerator, LayerGroup, NetworkChain, Problem, Schedule
from mansard.scheduler import check, evaluate, solve
from mansard.scheduler.baselines import gain
from mansard.scheduler.chains import build_arrays
from tests.scheduler import brute_force, drawing

replace = msgspec.structs.replace


def both_energies(problem: Problem) -> list[tuple[float, float, list[float]]]:
    """Energy, makespan and ends of each assignment in each order."""
    found = []
    for assignment, ends in brute_force.all_ends(problem, brute_force.alone):
        joules = sum(
            group.energy_j[name]
            for network, row in zip(problem.networks, assignment, strict=True)
            for group, name in zip(network.groups, row, strict=True)
        )
        found.append((joules + 5.0 * max(ends), max(ends), ends))
    return found


def test_the_least_energy_under_a_latency_and_the_reverse() -> None:
    problem = drawing.problem(21, (3, 3), goal="energy")
    every = both_energies(problem)
    cheapest, fastest = min(every), min(every, key=lambda point: point[1])
    assert solve(problem).value == pytest.approx(cheapest[0])
    # Between the fastest and the cheapest, something is given for something.
    limit = (cheapest[1] + fastest[1]) / 2
    under = solve(replace(problem, max_makespan_s=limit))
    assert under.value == pytest.approx(min(p[0] for p in every if p[1] <= limit))
    assert under.makespan_s <= limit
    assert not under.broken
    joules = (cheapest[0] + fastest[0]) / 2
    quick = solve(replace(problem, goal="makespan", max_energy_j=joules))
    assert quick.value == pytest.approx(min(p[1] for p in every if p[0] <= joules))
    power = replace(problem, goal="makespan", max_power_w=(fastest[0] / fastest[1]) * 0.9)
    weak = solve(power)
    kept = [p[1] for p in every if p[0] / p[1] <= power.max_power_w]
    assert weak.value == pytest.approx(min(kept))


def test_an_impossible_deadline_gives_the_nearest_schedule_and_what_it_breaks() -> None:
    problem = drawing.problem(22, (3, 2))
    late = replace(problem.networks[0], max_latency_s=1e-3)
    limited = replace(problem, networks=(late, problem.networks[1]))
    found = solve(limited)
    nearest = min(ends[0] for _, _, ends in both_energies(problem))
    assert found.networks[0].latency_s == pytest.approx(nearest)
    assert found.broken == (f"n0: latency {1e3 * nearest:.4g} ms, limit 1 ms",)
    assert found.networks[0].is_missed
    # The other one is as fast as it can be beside that.
    assert found.value == pytest.approx(
        min(m for _, m, ends in both_energies(problem) if ends[0] < nearest * (1 + 1e-9))
    )


def test_a_search_that_ends_early_knows_no_bound_of_what_breaks_limits_by_less() -> None:
    problem = drawing.problem(24, (3, 3))
    late = replace(problem.networks[0], max_latency_s=1e-3)
    found = solve(replace(problem, networks=(late, problem.networks[1])), time_limit_s=0.0)
    assert found.bound is None
    assert found.unknown["bound"] == "another schedule may be nearer to the limits"


def test_a_missed_deadline_is_what_is_counted_not_a_broken_limit() -> None:
    # On the GPU 0.1 and on the DLA 0.2: one of the two ends at 0.2 at the earliest.
    two = [replace(of(group()).networks[0], name=name, max_latency_s=0.15) for name in "ab"]
    asked = of(networks=tuple(two), goal="misses")
    found = solve(asked)
    assert (found.value, found.broken) == (1.0, ())
    none_kept = evaluate(asked, [["dla0"], ["dla0"]], "dla only")
    assert none_kept.value == 2.0
    assert gain(found, [none_kept]) == 1.0  # 2 / 1 − 1


def test_what_is_too_large_to_look_at_is_refused_or_searched_locally() -> None:
    with pytest.raises(InputError, match=r"assignments are too many to look at each; search local"):
        solve(drawing.problem(25, (40,) * 4, max_transitions=6), method="exact")
    # A network alone: 7,861,102 assignments of 40 groups; the first one is the shortest path.
    found = solve(drawing.problem(25, (40,), max_transitions=6))
    assert (found.n_assignments, found.method, found.is_optimal) == (7_861_102, "local", True)


def test_a_dla_that_is_full_takes_no_more_segments() -> None:
    problem = drawing.problem(23, (3, 3, 3))
    quick = [
        replace(
            network,
            groups=tuple(
                replace(group, time_s={"gpu": 9e-3, "dla0": 1e-3}) for group in network.groups
            ),
        )
        for network in problem.networks
    ]
    dla = replace(problem.accelerators[1], max_segments=2)
    found = solve(
        replace(problem, accelerators=(problem.accelerators[0], dla), networks=tuple(quick))
    )
    on_dla = {group.network for group in found.groups if group.accelerator == "dla0"}
    assert len(on_dla) == 2
    assert found.is_optimal
    local = solve(
        replace(problem, accelerators=(problem.accelerators[0], dla), networks=tuple(quick)),
        method="local",
    )
    assert not local.broken
    everything = [["dla0"] * 3] * 3
    full = replace(problem, accelerators=(problem.accelerators[0], dla))
    assert "dla0: 3 segments, limit 2" in evaluate(full, everything, "all").broken


def group(**fields: Any) -> LayerGroup:
    return LayerGroup(**({"name": "g", "time_s": {"gpu": 0.1, "dla0": 0.2}} | fields))


def of(*groups: LayerGroup, **fields: Any) -> Problem:
    chain: dict[str, Any] = {"groups": groups} | fields.pop("network", {})
    whole: dict[str, Any] = {
        "accelerators": (
            Accelerator(name="gpu", kind="gpu"),
            Accelerator(name="dla0", kind="dla"),
        ),
        "networks": (NetworkChain(name="net", **chain),),
        "idle_w": 1.0,
    }
    return Problem(**(whole | fields))


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (of(group(time_s={})), r"net, g: no accelerator takes this group; measure it"),
        (of(), r"net: a network without groups"),
        (of(group(time_s={"tpu": 1.0})), r"net, g: a time on tpu, which is not an accelerator"),
        (of(group(time_s={"gpu": -1.0})), r"net, g: time_s is -1 on gpu"),
        (of(group(leave_s={"gpu": -1.0})), r"net, g: leave_s is -1 on gpu"),
        (of(group(), networks=()), r"needs an accelerator and a network"),
        (of(group(), accelerators=(Accelerator(name="gpu", kind="gpu"),) * 2), r"one name"),
        (of(group(), network={"weight": -1.0}), r"net: batch, rate, latency and weight"),
        (of(group(time_s={"gpu": 0.0})), r"net: each of its groups has a time of 0 somewhere"),
        (of(group(), goal="misses"), r"no network has a deadline to miss"),
        (of(group(), goal="energy"), r"net, g: its energy on gpu is unknown, and 1 more"),
        (of(group(), max_transitions=-1), r"max_transitions is -1; from 0, each"),
        (of(group(), pccs={"npu": drawing.FIT}), r"npu: contention of an accelerator"),
        # One only on the GPU, the next only on the DLA, and no cost of a change is known.
        (
            of(group(time_s={"gpu": 1.0}), group(name="h", time_s={"dla0": 1.0})),
            r"net: its groups cannot be assigned .* at known costs; raise max_transitions",
        ),
    ],
)
def test_bad_problems_are_one_line(problem: Problem, line: str) -> None:
    with pytest.raises(InputError, match=line):
        check(problem)
    with pytest.raises(InputError, match=line):
        solve(problem)


def test_changes_of_unknown_cost_are_not_offered_and_said_to_be() -> None:
    unknown = of(
        group(), group(name="h", leave_s={"gpu": 0.0}), group(name="i", enter_s={"dla0": 0.0})
    )
    found = solve(unknown)
    assert found.n_assignments == 3  # whole on one, or from the GPU to the DLA after h
    assert found.notes == (
        "net: the cost of a change of accelerator is unknown after 2 of 2 groups (g first):"
        " those changes are not offered",
    )
    with pytest.raises(InputError, match="net, h: the cost of a change from gpu to dla0 is un"):
        evaluate(unknown, [["gpu", "dla0", "dla0"]], "given")
    with pytest.raises(InputError, match=r"tpu: not an accelerator"):
        evaluate(unknown, [["tpu", "gpu", "gpu"]], "given")
    with pytest.raises(InputError, match=r"an accelerator for each group"):
        evaluate(unknown, [["gpu"]], "given")


def test_demands_that_are_not_known_are_noted() -> None:
    found = solve(of(group(demand_byte_per_s={"gpu": 1e9}), pccs=drawing.PCCS))
    assert any("the demand of 1 of 2 times is unknown" in note for note in found.notes)


def test_a_time_limit_ends_the_look_at_all_assignments() -> None:
    # A network has 3 · (1 + 2 · 8 + 4 · 28) = 387 assignments; 387³ are 58 million.
    problem = drawing.problem(31, (9, 9, 9), n_accelerators=3, max_transitions=2)
    found = solve(problem, method="exact", time_limit_s=0.02)
    assert found.n_assignments == 387**3
    assert not found.is_optimal
    assert found.bound is not None
    assert found.value is not None
    assert 0 < found.bound < found.value


def test_assignments_without_number_are_refused() -> None:
    problem = drawing.problem(32, (40, 40), max_transitions=20)
    with pytest.raises(InputError, match="too many to look at each; search locally"):
        solve(problem, method="exact")
    assert solve(problem, time_limit_s=0.1).value is not None


def test_more_transitions_than_places_between_groups_change_nothing() -> None:
    # Three groups have two places: 1000 transitions are as good as 2, and take no table of 1000.
    few, many = (drawing.problem(3, (3, 3), max_transitions=most) for most in (2, 1000))
    assert solve(many).value == solve(few).value
    assert build_arrays(many).max_transitions == (2, 2)


def test_a_size_or_a_ratio_without_end_is_one_line() -> None:
    with pytest.raises(InputError, match="65 networks are more than 64"):
        check(drawing.problem(1, (1,) * 65))
    with pytest.raises(InputError, match="groups times accelerators are more than 20,000"):
        check(drawing.problem(1, (5_001, 5_000)))
    fast, slow = (one("a", 1e-9), one("b", 1.0))
    with pytest.raises(InputError, match="a: one network is more than 1,000,000 times as long"):
        solve(
            Problem(
                accelerators=(Accelerator(name="gpu", kind="gpu"),),
                networks=(fast, slow),
                is_steady=True,
                idle_w=0.0,
            )
        )


def one(name: str, time_s: float) -> NetworkChain:
    return NetworkChain(name=name, groups=(LayerGroup(name="g", time_s={"gpu": time_s}),))


def test_a_space_of_many_digits_is_said_and_kept() -> None:
    found = solve(drawing.problem(7, (100, 100), 3, max_transitions=50), time_limit_s=0.0)
    assert "more than 10^" in found.space
    assert msgspec.json.decode(msgspec.json.encode(found), type=Schedule) == found


def test_a_search_that_is_stopped_ends_with_what_it_has() -> None:
    stopped = Event()
    stopped.set()
    found = solve(
        drawing.problem(7, (12,) * 4, max_transitions=3), time_limit_s=3600, stopped=stopped
    )
    assert found.value is not None
    assert not found.is_optimal
