"""Schedules as mappings, and executed: what was predicted beside what was measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from onnx import helper

from mansard import api
from mansard.api.deciding.executions import check_runnable, mapping_of
from mansard.api.deciding.problem_files import write_problem
from mansard.core.errors import UsageError
from mansard.core.records import Accelerator, LayerGroup, NetworkChain, Problem
from mansard.inference.multi.mappings import MappedNetwork, StagePlace
from mansard.scheduler import evaluate
from tests.inference.small_networks import write

pytestmark = pytest.mark.usefixtures("beside_each_other")

GPU, DLA = Accelerator(name="big", kind="gpu"), Accelerator(name="small", kind="dla")


def group(name: str, *nodes: int, **time_s: float) -> LayerGroup:
    free = dict.fromkeys(time_s, 0.0)
    return LayerGroup(name=name, time_s=time_s, leave_s=free, enter_s=free, nodes=nodes)


def problem(*networks: NetworkChain, of: tuple[Accelerator, ...] = (GPU, DLA)) -> Problem:
    return Problem(accelerators=of, networks=networks, idle_w=None, unknown={"idle_w": "no meter"})


ONE = NetworkChain(
    name="one",
    model="resnet18",
    groups=(group("a", 0, 1, big=1), group("b", 2, big=1), group("c", 3, 4, small=2)),
)
TWO = NetworkChain(name="two", groups=(group("d", 0, big=1), group("e", 1, big=9)))


def test_a_schedule_becomes_stages_that_take_turns() -> None:
    found = evaluate(problem(ONE, TWO), (("big", "big", "small"), ("big", "big")), "by hand")
    # One and two wait for the GPU and take turns there, group by group: a, d, b, e.
    assert [(each.network, each.group) for each in found.groups] == [
        *((0, 0), (1, 0), (0, 1)),
        *((0, 2), (1, 1)),
    ]
    mapping = mapping_of(problem(ONE, TWO), found)
    gpu, dla = StagePlace(device="gpu"), StagePlace(device="dla0")
    assert mapping.networks == (
        MappedNetwork(
            model="resnet18",
            stages=(
                msgspec.structs.replace(gpu, end=1),
                msgspec.structs.replace(gpu, end=2),
                dla,
            ),
        ),
        MappedNetwork(model="two", stages=(msgspec.structs.replace(gpu, end=0), gpu)),
    )
    assert mapping.turns == ((0, 0), (1, 0), (0, 1), (0, 2), (1, 1))
    assert mapping.has_rounds
    # Alone, the two groups on the GPU are one stage.
    alone = evaluate(problem(ONE), (("big", "big", "small"),), "by hand")
    assert [each.end for each in mapping_of(problem(ONE), alone).networks[0].stages] == [2, None]


def test_a_steady_schedule_takes_groups_first_come_first_served() -> None:
    steady = msgspec.structs.replace(problem(ONE, TWO), is_steady=True)
    found = evaluate(steady, (("big", "big", "small"), ("big", "big")), "by hand")
    mapping = mapping_of(steady, found)
    # Two share the GPU, group by group; no other network is on the DLA.
    assert mapping.turns == ()
    assert [[each.device for each in own.stages] for own in mapping.networks] == [
        ["gpu", "gpu", "dla0"],
        ["gpu", "gpu"],
    ]
    alone = msgspec.structs.replace(problem(ONE), is_steady=True)
    found = evaluate(alone, (("big", "big", "small"),), "by hand")
    assert [each.end for each in mapping_of(alone, found).networks[0].stages] == [2, None]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"networks": (ONE, NetworkChain(name="x", groups=(group("a", big=1),) * 2))},
            "x: nothing",
        ),
        ({"accelerators": (GPU, Accelerator(name="b", kind="gpu"))}, "two accelerators are gpu"),
        (
            {"networks": (msgspec.structs.replace(ONE, rate_per_s=9),), "is_steady": True},
            "one: runs that arrive at a rate cannot be executed",
        ),
        ({"networks": (ONE, msgspec.structs.replace(TWO, batch=2))}, "several batch sizes"),
    ],
)
def test_what_cannot_be_run_is_said_before_the_search(changes: Any, line: str) -> None:
    check_runnable(problem(ONE, TWO))
    with pytest.raises(UsageError, match=line):
        check_runnable(msgspec.structs.replace(problem(ONE, TWO), **changes))


def test_what_keeps_a_schedule_from_being_run_is_its_remark(tmp_path: Path) -> None:
    chain = msgspec.structs.replace(TWO, model=str(tmp_path / "none.onnx"))
    path = tmp_path / "problem.toml"
    write_problem(path, problem(chain, of=(Accelerator(name="big", kind="cpu"),)))
    executed = api.MultiRequest(runs=tmp_path / "runs", is_local=True, profile="brief")
    found = api.schedule(api.ScheduleRequest(problem=path, run=executed))
    assert found.best.value == pytest.approx(10)
    (ran,) = found.ran
    assert (ran.networks, ran.measured_s) == ((), None)
    assert "none.onnx" in ran.remark


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_predicted_beside_measured(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    weights = np.random.default_rng(3).standard_normal((64, 64), dtype=np.float32)
    nodes = [helper.make_node("Gemm", [x, "w"], [y]) for x, y in (("x", "h"), ("h", "y"))]
    write(tmp_path / "net.onnx", nodes, {"w": weights}, inputs={"x": (1, 64)}, output="y")
    cpus = sorted(os.sched_getaffinity(0))[:2]
    here, there = (Accelerator(name=f"cpu:{cpu}", kind="cpu", cpus=(cpu,)) for cpu in cpus)
    times = {here.name: 1e-5, there.name: 1e-5}
    groups = (group("first", 0, **times), group("second", 1, **times))
    chains = [
        NetworkChain(name=name, model=str(tmp_path / "net.onnx"), groups=groups)
        for name in ("one", "two")
    ]
    path = tmp_path / "problem.toml"
    asked = msgspec.structs.replace(problem(*chains, of=(here, there)), machine="Another")
    write_problem(path, asked)
    settings = api.MultiSettings(seconds_s=3.0)
    executed = api.MultiRequest(
        multi=settings, runs=tmp_path / "runs", is_local=True, profile="brief"
    )
    found = api.schedule(api.ScheduleRequest(problem=path, run=executed))
    best = found.ran[0]
    assert best.method.startswith("exact")
    assert best.predicted_s == pytest.approx(2e-5)
    assert best.measured_s is not None
    assert best.error == pytest.approx(best.measured_s / 2e-5 - 1)
    assert best.beside_solver_s is not None
    assert best.remark.endswith("predicted from times of Another")
    assert [each.name for each in best.networks] == ["one", "two"]
    for each in best.networks:
        assert each.predicted_per_s == pytest.approx(5e4)  # a run each round
        # Counted in the window, in which rounds follow one another without a pause.
        assert each.measured_per_s is not None
        assert each.measured_per_s > 0
    assert not any(each.beside_solver_s for each in found.ran[1:])
