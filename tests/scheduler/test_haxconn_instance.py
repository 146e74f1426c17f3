"""HaX-CoNN's published instances, and its rule of contention by name beside ours."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from schedules.instances import (
    ARTIFACT,
    ARTIFACT_STARTS,
    XAVIER,
    charged_on_entry,
    haxconn,
    only,
    published,
)

from mansard.api.deciding.problem_files import SHIPPED_PROBLEMS, read_problem
from mansard.core.errors import InputError
from mansard.core.records import (
    Accelerator,
    ContentionSurface,
    LayerGroup,
    NetworkChain,
    PccsFit,
    Problem,
)
from mansard.scheduler import evaluate, solve
from mansard.scheduler.contention import own_demand_slowdown


@pytest.mark.parametrize(
    ("problem", "times_ms"),
    [
        # best; the solver's schedule first come, in its own order, in its best order
        (haxconn(XAVIER), (2.915, 3.335, 3.464, 3.077)),
        (published(), (2.766, 3.355, 3.635, 3.325)),
        (charged_on_entry(published()), (2.771, 3.534, 3.632, 3.327)),
        (replace(published(), contention="haxconn"), (4.848, 5.278, 5.584, 5.278)),
    ],
    ids=["one fit for both", "PCCS for each", "charged on entry", "the solver's rule"],
)
def test_the_makespans_of_the_results_page(problem: Problem, times_ms: Sequence[float]) -> None:
    best = solve(problem, method="exact")
    assert best.is_optimal
    makespans_s = (
        best.makespan_s,
        evaluate(problem, ARTIFACT, "first come").makespan_s,
        evaluate(problem, ARTIFACT, "own order", ARTIFACT_STARTS).makespan_s,
        solve(only(problem, ARTIFACT), method="exact").makespan_s,
    )
    assert [1e3 * time_s for time_s in makespans_s] == pytest.approx(times_ms, abs=6e-4)


def test_the_solver_slows_down_by_the_own_demand_alone() -> None:
    gpu, dla = (published().pccs[name] for name in ("gpu", "dla0"))
    assert own_demand_slowdown(gpu, 30e9) == pytest.approx(1 / (1 - 0.3 * 4.9 / 127.5))
    assert own_demand_slowdown(gpu, 50e9) == 2.0  # 100 / (100 − 50)
    assert own_demand_slowdown(gpu, 100e9) == pytest.approx(100 / 35.509)  # 100 − 58.1 · 1.11
    assert own_demand_slowdown(dla, 20e9) == 1.25  # 100 / (100 − 20)
    assert own_demand_slowdown(dla, 31e9) == pytest.approx(100 / 72)  # 100 − 80 · 0.35
    assert own_demand_slowdown(gpu, 0.0) == 1.0
    assert own_demand_slowdown(gpu, 1e15) == pytest.approx(100.0)  # a speed is never below 1 %


def test_a_group_alone_is_slowed_down_by_the_solver_s_rule() -> None:
    fit = PccsFit(
        normal_byte_per_s=10e9,
        intensive_byte_per_s=90e9,
        peak_byte_per_s=100e9,
        minor_points=1.0,
        contention_byte_per_s=40e9,
        total_byte_per_s=60e9,
        points_per_byte_per_s=1e-9,
        error_points=0.0,
        left_out_points=0.0,
    )
    group = LayerGroup(name="g", time_s={"gpu": 1e-3}, demand_byte_per_s={"gpu": 50e9})
    problem = Problem(
        accelerators=(Accelerator(name="gpu", kind="gpu"),),
        networks=(NetworkChain(name="n", groups=(group,)),),
        pccs={"gpu": fit},
        contention="haxconn",
        idle_w=1.0,
    )
    # 50 GB/s are 50 points, and nothing runs beside it: 1 ms / 0.5.
    alone = solve(problem)
    assert alone.makespan_s == pytest.approx(2e-3)
    assert alone.groups[0].alone_s == 1e-3
    assert solve(replace(problem, contention="overlap")).makespan_s == pytest.approx(1e-3)
    # Without parameters there is nothing to slow it down.
    without = solve(replace(problem, pccs={}))
    assert without.makespan_s == pytest.approx(1e-3)
    assert "the rule haxconn slows nothing down" in without.notes[0]
    surface = ContentionSurface(
        own_byte_per_s=(1e9,), external_byte_per_s=(1e9,), achieved_byte_per_s=((1e9,),)
    )
    with pytest.raises(InputError, match="no answer for a surface"):
        solve(replace(problem, surfaces={"gpu": surface}))


@pytest.mark.parametrize("name", SHIPPED_PROBLEMS)
def test_each_problem_that_ships_cites_its_source_and_is_proven(name: str) -> None:
    problem = read_problem(SHIPPED_PROBLEMS[name])
    assert "github.com/ismetdagli/HaX-CoNN" in problem.notes[0]
    assert set(problem.pccs) == {each.name for each in problem.accelerators}
    assert {group.source for network in problem.networks for group in network.groups} == {
        "published"
    }
    assert solve(problem).is_optimal
