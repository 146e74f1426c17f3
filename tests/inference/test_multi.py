"""Several networks at once: rows of a run, whose times add up to the window."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from onnx import helper

from mansard.core.jsonl import read_rows
from mansard.core.power_mode import core_count_mode
from mansard.core.records import MultiRun
from mansard.device.identity import identify
from mansard.inference.engines import find_engine
from mansard.inference.multi.plan import MultiNetwork, MultiPlan, MultiStage, MultiTrial
from mansard.inference.plan import NetworkTrial
from mansard.inference.planning import make_plan
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import run_plan
from tests.inference.small_networks import trial, uniform, write

pytest.importorskip("onnxruntime")
SECONDS_S = 0.3


def plan(*trials: MultiTrial) -> MultiPlan:
    machine = identify()
    probe = find_engine("ort").probe()
    mode = core_count_mode(len(machine.cpus))
    return make_plan(MultiPlan, machine, mode, trials, probe, None, profile="brief")


def multi(*networks: tuple[NetworkTrial, ...], device: str = "cpu", **changes: Any) -> MultiTrial:
    made = MultiTrial(
        mapping="a mapping",
        mapped=tuple(
            MultiNetwork(stages=tuple(MultiStage(network=each, device=device) for each in network))
            for network in networks
        ),
        seconds_s=SECONDS_S,
    )
    return msgspec.structs.replace(made, **changes)


def measured(folder: Path, *trials: MultiTrial) -> list[MultiRun]:
    outcome = run_plan(plan(*trials), folder / "runs", measurer=LocalMeasurer(files=folder))
    return list(read_rows(outcome.folder / "multi.jsonl", MultiRun).rows)


def gemms(folder: Path, *names: str) -> list[NetworkTrial]:
    """A network for each two names that follow one another: reads the first, writes the second."""
    weights = np.random.default_rng(3).standard_normal((64, 64), dtype=np.float32)
    found = []
    for given, made in itertools.pairwise(names):
        file = f"{given}-{made}.onnx"
        node = helper.make_node("Gemm", [given, "w"], [made])
        write(folder / file, [node], {"w": weights}, inputs={given: (1, 64)}, output=made)
        spec = uniform(given, (1, 64))
        found.append(trial(file, spec, with_layers=False, waiting="block"))
    return found


def check(row: MultiRun, n_workers: int) -> None:
    """Every worker's time is in some stage: together they have lasted for the window."""
    assert row.failure is None
    assert row.window_s == SECONDS_S
    spent_s = sum(each.inference_s + each.transfer_s + each.wait_s for each in row.stages)
    assert spent_s == pytest.approx(n_workers * SECONDS_S, rel=1e-6)
    assert all(each.n_runs > 0 and each.inference_s > 0 for each in row.stages)
    for number, network in enumerate(row.networks):
        own = [each for each in row.stages if each.network_number == number]
        assert [each.stage for each in own] == list(range(network.n_stages))
        # A stage is ahead of the last one by the runs that lie between them at most.
        assert own[0].n_runs - network.n_runs + 4 * len(own) >= 0
        assert own[-1].n_runs == network.n_runs
        assert 0 < len(network.latency_s) <= network.n_runs


def test_whole_networks_in_threads(tmp_path: Path) -> None:
    one, two = gemms(tmp_path, "x", "h", "y")
    (row,) = measured(tmp_path, multi((one,), (two,), (one,)))
    check(row, 3)
    assert [each.model for each in row.networks] == ["x-h", "h-y", "x-h"]
    assert all(each.transfer_s == 0 for each in row.stages)
    assert row.energy is None
    assert row.options["waiting"] == "block"


@pytest.mark.parametrize("way", ["threads", "processes"])
@pytest.mark.parametrize("order", ["in turn", "pipelined"])
def test_stages_of_a_network(tmp_path: Path, way: str, order: str) -> None:
    one, two = gemms(tmp_path, "x", "h", "y")
    (row,) = measured(tmp_path, multi((one, two), (two,), way=way, order=order))
    check(row, 3 if order == "pipelined" else 2)
    assert [(each.network_number, each.stage) for each in row.stages] == [(0, 0), (0, 1), (1, 0)]
    assert all(each.transfer_s > 0 for each in row.stages[:2])
