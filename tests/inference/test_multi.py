"""Several networks at once: rows of a run, whose times add up to the window."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from onnx import helper

from mansard.core.errors import UsageError
from mansard.core.power_mode import core_count_mode
from mansard.core.records import MultiRun
from mansard.core.storage.jsonl import read_rows
from mansard.device.identity import identify
from mansard.inference.engines import find_engine
from mansard.inference.multi.gates import (
    CountedWindow,
    OpenGate,
    Queue,
    StageTotals,
    Step,
    Tally,
    Turns,
)
from mansard.inference.multi.mappings import device_cpus
from mansard.inference.multi.trial import MULTI
from mansard.inference.multi.workers import SharedState, ThreadHand, Worker, move_to
from mansard.inference.plan import (
    MultiNetwork,
    MultiPlan,
    MultiStage,
    MultiTrial,
    NetworkTrial,
    make_plan,
)
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import run_plan
from tests.inference.small_networks import trial, uniform, write
from tests.measuring.test_runner import SteadyMeter, metered
from tests.waiting import awaited

pytestmark = pytest.mark.usefixtures("beside_each_other")

pytest.importorskip("onnxruntime")
SECONDS_S = 3.0  # a busy machine may let a worker wait for some tenths of a second


def plan(*trials: MultiTrial) -> MultiPlan:
    machine = identify()
    probe = find_engine("ort").probe()
    mode = core_count_mode(len(machine.cpus))
    return make_plan(MultiPlan, machine, mode, trials, probe.versions, None, profile="brief")


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


class WatchedGate:
    """Lets three stages begin; remembers on which CPUs their thread waited for it."""

    def __init__(self) -> None:
        self.waited_on: list[set[int]] = []

    def enter(self, step: Step, asked_s: float) -> float | None:
        self.waited_on.append(os.sched_getaffinity(0))
        return None if len(self.waited_on) > 3 else 0.0

    def leave(self, step: Step) -> None:
        pass


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_stage_waits_on_the_cpus_that_will_run_it(tmp_path: Path) -> None:
    # Where its last stage ran another network may run by now: it would be woken late there.
    first, second = sorted(os.sched_getaffinity(0))[:2]
    stages = tuple(
        MultiStage(network=network, device=f"cpu:{cpu}")
        for network, cpu in zip(gemms(tmp_path, "x", "h", "y"), (first, second), strict=True)
    )
    cpus, gate = ((first,), (second,)), WatchedGate()
    worker = Worker(0, 0, 0, stages, cpus, tmp_path, 1, None, None)
    shared = SharedState([math.inf, math.inf], [0], threading.Lock())
    hand = ThreadHand(worker, shared, gate)
    hand.end()
    assert hand.failure() == ""
    assert gate.waited_on == [{first}, {second}, {first}, {second}]


def test_a_thread_moves_to_cpus() -> None:
    before = os.sched_getaffinity(0)
    try:
        move_to((min(before),))
        assert os.sched_getaffinity(0) == {min(before)}
        move_to(before)
        assert os.sched_getaffinity(0) == before
        with pytest.raises(OSError, match="cannot run on CPUs 4000-4001"):
            move_to((4000, 4001))
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize("way", ["threads", "processes"])
@pytest.mark.parametrize("order", ["in turn", "pipelined"])
def test_stages_of_a_network(tmp_path: Path, way: str, order: str) -> None:
    one, two = gemms(tmp_path, "x", "h", "y")
    (row,) = measured(tmp_path, multi((one, two), (two,), way=way, order=order))
    check(row, 3 if order == "pipelined" else 2)
    assert [(each.network_number, each.stage) for each in row.stages] == [(0, 0), (0, 1), (1, 0)]
    assert all(each.transfer_s > 0 for each in row.stages[:2])


def test_time_counts_as_far_as_it_lies_in_the_window() -> None:
    # The window is from 10 to 20. Waiting from 8 to 12: 2 s in it; inference until 19: 7 s; the
    # copy until 25: 1 s. The run that ends at 19 counts, the one that ends at 25 does not.
    times = iter([8.0, 12.0, 19.0, 25.0])
    window = CountedWindow([10.0, 20.0])
    tally = Tally(window, 1, lambda: next(times))
    tally.lap(0, "input_wait")
    tally.lap(0, "inference")
    tally.end_stage(0)
    tally.end_network(12.0)
    tally.lap(0, "transfer")
    tally.end_stage(0)
    tally.end_network(12.0)
    (totals,) = tally.stages
    assert totals == StageTotals(n_runs=1, inference_s=7.0, transfer_s=1.0, input_wait_s=2.0)
    assert tally.latency_s == [7.0]


def test_latencies_are_of_the_whole_window() -> None:
    # 2500 runs, the n-th takes n s: of more than 1000 every second is kept, of more than 2000 every
    # fourth; 0, 4, 8, … 2496 are 625.
    tally = Tally(CountedWindow([0.0, math.inf]), 1, lambda: 3000.0)
    for number in range(2500):
        tally.end_network(3000.0 - number)
    assert tally.latency_s == [float(number) for number in range(0, 2500, 4)]


@pytest.mark.parametrize("module", [threading, multiprocessing])
def test_a_device_serves_first_who_came_first(module: Any) -> None:
    window, tickets, order = CountedWindow([0.0, math.inf]), [0, 0], list[str]()
    queue = Queue(tickets, module.Condition())

    def second() -> None:
        assert queue.enter(window)
        order.append("second")
        queue.leave()

    assert queue.enter(window)
    thread = threading.Thread(target=second)
    thread.start()
    assert awaited(lambda: tickets[0] == 2)  # it waits
    queue.leave()
    assert queue.enter(window)  # again, at once
    order.append("first again")
    queue.leave()
    thread.join(30)
    assert order == ["second", "first again"]


def test_a_run_begins_when_it_wants_to_and_in_rounds_with_the_round() -> None:
    window, devices, step = CountedWindow([0.0, math.inf]), {(0, 0): "a"}, (0, 0)
    assert OpenGate(window, devices, {}).enter(step, 7.0) == 7.0
    assert Turns(window, devices, [step], has_rounds=False).enter(step, 7.0) == 7.0
    before_s = time.monotonic()
    began_s = Turns(window, devices, [step], has_rounds=True).enter(step, 7.0)
    assert began_s is not None
    assert began_s >= before_s


@pytest.mark.parametrize("has_rounds", [True, False])
def test_devices_run_their_stages_in_turn(has_rounds: bool) -> None:
    # Network 0 on a, then b; network 1 on b, then a. The schedule has 1 before 0 on b.
    devices = {(0, 0): "a", (0, 1): "b", (1, 0): "b", (1, 1): "a"}
    turns = [(0, 0), (1, 0), (0, 1), (1, 1)]
    window, entered = CountedWindow([0.0, math.inf]), list[tuple[int, int]]()
    gate = Turns(window, devices, turns, has_rounds=has_rounds)

    def run(network: int) -> None:
        for _ in range(20):
            for stage in (0, 1):
                assert gate.enter((network, stage), 0.0) is not None
                entered.append((network, stage))  # nobody else is on this device
                gate.leave((network, stage))

    threads = [threading.Thread(target=run, args=(network,)) for network in (0, 1)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    on = {name: [step for step in entered if devices[step] == name] for name in ("a", "b")}
    assert on == {"a": 20 * [(0, 0), (1, 1)], "b": 20 * [(1, 0), (0, 1)]}
    if has_rounds:
        rounds = [set(entered[at : at + 4]) for at in range(0, 80, 4)]
        assert rounds == 20 * [set(turns)]
        assert len(gate.round_s) == 20


def test_networks_in_step_run_equally_often(tmp_path: Path) -> None:
    first, second = gemms(tmp_path, "x", "h", "y")
    spec = multi((first, second), (second,), order="in step", turns=((0, 0), (1, 0), (0, 1)))
    (row,) = measured(tmp_path, spec)
    check(row, 2)
    assert row.order == "in step"
    assert abs(row.networks[0].n_runs - row.networks[1].n_runs) <= 1
    # A round lasts until both have ended: no longer than their latencies say, and as often.
    assert abs(len(row.round_s) - row.networks[0].n_runs) <= 2
    # The first and the last latency may be of rounds that lie in the window only in part.
    assert max(row.networks[0].latency_s[1:-1]) <= max(row.round_s) + 1e-3


@pytest.mark.parametrize("way", ["threads", "processes"])
def test_a_network_that_fails_ends_the_trial(tmp_path: Path, way: str) -> None:
    first, second = gemms(tmp_path, "x", "h", "y")
    (tmp_path / second.file).write_bytes(b"\x08\x08:7")
    failed, ran = measured(tmp_path, multi((first,), (second,), way=way), multi((first,), way=way))
    assert failed.failure is not None
    assert failed.failure.startswith("h-y on cpu: Load model from h-y.onnx failed")
    assert failed.stages == ()
    assert "could not be run" in failed.unknown["window_s"]
    check(ran, 1)


def test_a_process_that_is_killed_ends_the_trial(tmp_path: Path) -> None:
    (one,) = gemms(tmp_path, "x", "y")
    spec = multi((one,), (one,), way="processes", seconds_s=20.0)

    def kill() -> None:
        assert awaited(lambda: bool(multiprocessing.active_children()))
        multiprocessing.active_children()[0].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    (row,) = measured(tmp_path, spec)
    killer.join()
    assert row.failure == "x-y on cpu: its process was killed, as it is where the memory runs out"
    assert not MULTI.is_result(row)  # the next run tries it again


def test_a_device_is_cpus_of_the_mode() -> None:
    assert device_cpus("cpu", (0, 1, 4)) == (0, 1, 4)
    assert device_cpus("cpu:0-1,4", (0, 1, 4)) == (0, 1, 4)
    assert device_cpus("dla1", (0, 1)) == (0, 1)
    for name, what in (
        ("cpu:1-2", "there is no CPU 2 in this mode"),
        ("cpu:x", "names no CPUs"),
        ("npu", "unknown device 'npu'"),
        ("gpu:1", "names no CPUs"),
        ("cpu:0-9999999999999", "names no CPUs"),
    ):
        with pytest.raises(UsageError, match=what):
            device_cpus(name, (0, 1, 4))


def test_a_thread_moves_to_cpus_and_the_others_stay() -> None:
    before, seen = os.sched_getaffinity(0), list[set[int]]()

    def move() -> None:
        move_to((max(before),))
        seen.append(os.sched_getaffinity(0))
        with pytest.raises(OSError, match="cannot run on CPUs 4000-4001"):
            move_to((4000, 4001))

    thread = threading.Thread(target=move)
    thread.start()
    thread.join(30)
    assert seen == [{max(before)}]
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("order", ["in turn", "pipelined"])
def test_energy_is_that_of_the_window(tmp_path: Path, order: str) -> None:
    one, two = gemms(tmp_path, "x", "h", "y")
    planned = plan(multi((one, two), (two,), order=order))
    brief = msgspec.structs.replace(planned.protocol, idle_s=0.2, n_changed_min=5)
    planned = msgspec.structs.replace(planned, protocol=brief)
    measurer = LocalMeasurer(meters=metered(SteadyMeter()), files=tmp_path)
    outcome = run_plan(planned, tmp_path / "runs", measurer=measurer)
    (row,) = read_rows(outcome.folder / "multi.jsonl", MultiRun).rows
    assert row.energy is not None
    assert row.energy.window_s == pytest.approx(SECONDS_S)
    assert row.energy.total_j == pytest.approx(5 * SECONDS_S, rel=1e-6)  # 5 W all the time
    assert row.energy.repetitions == sum(each.n_runs for each in row.networks)


def test_power_is_sampled_at_the_interval_that_was_asked_for(tmp_path: Path) -> None:
    (one,) = gemms(tmp_path, "x", "y")
    planned = plan(multi((one,), seconds_s=3.0, meter_period_s=0.05))
    brief = msgspec.structs.replace(planned.protocol, idle_s=0.2, n_changed_min=5)
    measurer = LocalMeasurer(meters=metered(SteadyMeter()), files=tmp_path)
    planned = msgspec.structs.replace(planned, protocol=brief)
    outcome = run_plan(planned, tmp_path / "runs", measurer=measurer)
    (row,) = read_rows(outcome.folder / "multi.jsonl", MultiRun).rows
    assert row.energy is not None
    # 3 s / 50 ms, and a reading at either end; the meter's own interval gives three hundred.
    assert 15 <= row.energy.rails[0].n_samples <= 63


def test_a_crash_of_the_whole_process_is_a_row() -> None:
    spec = multi((trial("x.onnx", uniform("x", (1, 64))),))
    assert MULTI.crashed is not None
    row = MULTI.crashed(plan(spec), spec, "the process that ran it was killed", 1.5)
    assert (row.failure, row.duration_s) == ("the process that ran it was killed", 1.5)
    assert [each.n_runs for each in row.networks] == [0]
    assert MULTI.is_result(row)
