"""Demands on memory beside one another: on this machine's CPUs, and on a GPU in software."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mansard.core.errors import DeviceError, UsageError
from mansard.core.power_mode import core_count_mode
from mansard.core.records import ContentionPoint, MachineIdentity
from mansard.core.storage.jsonl import read_rows
from mansard.device.conditions import find_sources
from mansard.device.identity import identify
from mansard.device.meters.meter import NO_METERS
from mansard.measuring.instruments import Instruments
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.raw_samples import RawSample
from mansard.measuring.run_writer import SweepState
from mansard.measuring.runner import run_plan
from mansard.microbench.contention.loads import (
    CpuLoad,
    GpuLoad,
    find_chains,
    rates_within,
)
from mansard.microbench.contention.plan import (
    ContentionPlan,
    accelerators_of,
    make_contention_plan,
    partition_cpus,
    partition_name,
)
from mansard.microbench.contention.trial import CONTENTION, measure_point, opened_loads
from mansard.microbench.cuda.sampling import OpenGpu
from mansard.microbench.cuda.software_gpu import GPU, Physics, SoftwareGpu
from mansard.microbench.plan import Probe, cpu_versions
from tests.waiting import is_overloaded

NO_GPU = Probe(versions=cpu_versions(), gpu=None, unknown={"gpu": "none here"})


def two_cpus() -> MachineIdentity:
    """This machine with two CPUs, which may be hardware threads of one core."""
    usable = tuple(sorted(os.sched_getaffinity(0)))[:2]
    if len(usable) < 2:
        pytest.skip("one CPU alone")
    return msgspec.structs.replace(identify(), cpus=usable)


def short_plan() -> ContentionPlan:
    """A third and all of each CPU's most, with nothing and with the most beside it."""
    plan = make_contention_plan(two_cpus(), core_count_mode(2), "brief", NO_GPU)
    protocol = msgspec.structs.replace(plan.protocol, time_cap_s=0.5)
    kept = [one for one in plan.trials if one.victim_share != 0.6667]
    trials = tuple(one for one in kept if one.aggressor_share in {0.0, 1.0})
    return msgspec.structs.replace(plan, trials=trials, protocol=protocol)


def instruments(plan: ContentionPlan) -> Instruments:
    return Instruments(
        root=Path("/"),
        mode=plan.mode,
        sources=find_sources(Path("/"), plan.cpus),
        meters=NO_METERS,
        keep=lambda _sample: None,
        gpu=plan.gpu,
    )


def start_child(plan: ContentionPlan, runs: Path) -> tuple[int, int]:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:

        def on_progress(state: SweepState) -> None:
            os.write(write_end, f"{state.n_done}\n".encode())

        try:
            run_plan(plan, runs, measurer=LocalMeasurer(), on_progress=on_progress)
        finally:
            os._exit(0)
    os.close(write_end)
    return child, read_end


def test_demands_are_measured_on_two_cpus_and_a_killed_run_resumes(tmp_path: Path) -> None:
    plan = short_plan()
    child, read_end = start_child(plan, tmp_path)
    with os.fdopen(read_end, "rb", buffering=0) as stream:
        heard = b""
        while heard.count(b"\n") < 3 and (more := stream.read(64)):  # two rows are there
            heard += more
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    path = tmp_path / plan.run_id / CONTENTION.rows_name
    before = read_rows(path, ContentionPoint).rows
    assert len(before) >= 2
    outcome = run_plan(plan, tmp_path, measurer=LocalMeasurer())
    n_kept = sum(row.failure is None and not row.disturbances for row in before)
    assert (outcome.n_measured, outcome.n_resumed) == (8 - n_kept, n_kept)
    rows = read_rows(path, ContentionPoint).rows
    assert {row.trial_id for row in rows} == {spec.trial_id for spec in plan.trials}
    assert any(row.failure is None for row in rows) or is_overloaded()
    for row in rows:
        assert (row.victim_fma_per_element == 1) == (row.victim_share == 1.0)
        assert row.aggressor_fma_per_element == (1 if row.aggressor_share else 0)
        if row.failure is not None:
            assert "interrupted" in row.failure
            continue
        assert row.alone_byte_per_s
        assert len(row.achieved_byte_per_s) == len(row.external_byte_per_s) > 0
        assert min(row.achieved_byte_per_s) > 0
        assert all((rate > 0) == (row.aggressor_share > 0) for rate in row.external_byte_per_s)


def test_the_gpu_beside_cpus() -> None:
    """In software: 190 GB/s and 5.3248 TFLOP/s, which no CPU takes anything from."""
    machine = two_cpus()
    gpu = SoftwareGpu(real_time=True)
    opened = OpenGpu(GPU, gpu, gpu.host.clock)
    found = Probe(versions=cpu_versions(), gpu=GPU)
    plan = make_contention_plan(machine, core_count_mode(2), "brief", found)
    names = accelerators_of(machine.cpus, has_gpu=True)
    assert names == ("gpu", f"cpu:{machine.cpus[1]}")
    with opened_loads(plan, opened) as loads:
        chains = {name: {0.6667: 10, 1.0: 1} for name in names}
        wanted = [
            one for one in plan.trials if (one.victim_share, one.aggressor_share) == (0.6667, 1.0)
        ]
        rows = {
            one.victim: measure_point(one, plan, instruments(plan), loads, chains) for one in wanted
        }
    # A chain of 10 is bound by memory: 190 GB/s.
    watched = rows["gpu"]
    if watched.failure is None:  # else other work interrupted the CPU beside it all the time
        assert watched.achieved_byte_per_s == pytest.approx(
            [190e9] * len(watched.achieved_byte_per_s), rel=0.02
        )
        assert min(watched.external_byte_per_s) > 0
    beside = rows[names[1]]
    if beside.failure is None:
        assert beside.external_byte_per_s == pytest.approx(
            [190e9] * len(beside.external_byte_per_s), rel=0.05
        )
    assert not gpu.live  # its memory was given back


@pytest.mark.parametrize(("breaks_at", "refused"), [(0, "no cubin"), (1, "")])
def test_a_refused_chain_is_a_failed_point_and_a_lost_gpu_ends_the_run(
    breaks_at: int, refused: str
) -> None:
    gpu = SoftwareGpu(Physics(refuses=lambda _kernel, _case: refused), breaks_at=breaks_at)
    opened = OpenGpu(GPU, gpu, gpu.host.clock)
    found = Probe(versions=cpu_versions(), gpu=GPU)
    plan = make_contention_plan(two_cpus(), core_count_mode(2), "brief", found)
    spec = next(one for one in plan.trials if one.victim == "gpu" and not one.aggressor_share)
    chains = {"gpu": {spec.victim_share: 1}}
    with GpuLoad(opened, 0.002) as load:
        if breaks_at:
            with pytest.raises(DeviceError, match="the GPU does not answer any more, since this"):
                measure_point(spec, plan, instruments(plan), {"gpu": load}, chains)
        else:
            row = measure_point(spec, plan, instruments(plan), {"gpu": load}, chains)
            assert row.failure == "no cubin"


def test_chains_ask_for_shares() -> None:
    gpu = SoftwareGpu()
    with GpuLoad(OpenGpu(GPU, gpu, gpu.host.clock), 0.002) as load:
        chains = find_chains(load, (0.25, 0.5, 1.0))
    # 16 SMs · 256 FLOP · 1.3 GHz = 5.3248e12 FLOP/s. n FMA on 8 bytes are 2n FLOP, so
    # n = 4 · 5.3248e12 / (share · 190e9): 224.2 for a half, 448.4 for a quarter.
    assert chains[1.0] == 1
    assert chains[0.5] == pytest.approx(224, abs=2)
    assert chains[0.25] == pytest.approx(448, abs=4)


class SoftLoad:
    """A core that waits for memory and computes in turns: 1 s for 30 bytes, 1 s for 300 FMA.

    A byte needs as many FMA as its chain has: 1 / (1/30 + n/300) bytes per second.
    """

    sample_bytes = 1
    clock_step_hz: float | None = None

    def __init__(self) -> None:
        self.n_fma = 1

    def __enter__(self) -> SoftLoad:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, fma_per_element: int) -> None:
        self.n_fma = fma_per_element

    def take(self, n_samples: int, should_stop: Callable[[], bool] = bool) -> list[RawSample]:
        return [RawSample(1 / 30 + self.n_fma / 300, 0.0)] * n_samples

    def stop(self) -> None:
        pass

    def check_answers(self, failure: str) -> None:
        pass


def test_chains_ask_for_shares_of_a_core_without_a_ridge() -> None:
    chains = find_chains(SoftLoad(), (0.2, 0.4, 0.6, 0.8, 1.0))
    # A chain of 1: 300 / 11. A share s of it is 300 / (10 + n) with n = 11 / s - 10, so 3.75, 8.3,
    # 17.5 and 45.
    assert chains == {1.0: 1, 0.8: 4, 0.6: 8, 0.4: 18, 0.2: 45}


class IdleLoad(SoftLoad):
    """Never runs."""

    def take(self, n_samples: int, should_stop: Callable[[], bool] = bool) -> list[RawSample]:
        return []


def test_a_victim_that_was_never_seen_beside_the_other_is_a_failure() -> None:
    """Exactly half of the samples count: all of those alone, none beside the other."""
    plan = short_plan()
    plan = msgspec.structs.replace(
        plan, protocol=msgspec.structs.replace(plan.protocol, time_cap_s=0.01)
    )
    spec = next(one for one in plan.trials if one.aggressor_share)
    loads = {spec.victim: SoftLoad(), spec.aggressor: IdleLoad()}
    chains = {name: {0.3333: 9, 1.0: 1} for name in loads}
    row = measure_point(spec, plan, instruments(plan), loads, chains)
    assert row.failure is not None
    assert row.failure.startswith("other work interrupted ")
    assert row.achieved_byte_per_s == ()


def test_a_rate_is_the_traffic_within_a_sample() -> None:
    # Samples of 100 bytes: from 1 to 2, 2 to 3, 4 to 5 s; the last one was interrupted.
    others = [RawSample(1.0, start_s, n_switches=start_s == 4.0) for start_s in (1.0, 2.0, 4.0)]
    samples = [
        RawSample(0.5, 1.25),  # half of the first: 50 bytes in 0.5 s
        RawSample(1.0, 1.75),  # a quarter of it and three of the next: 100 bytes in 1 s
        RawSample(1.0, 2.75),  # most of it in a pause
        RawSample(0.5, 4.25),  # within the one that was interrupted
        RawSample(1.0, 0.5),  # begins before the first
        RawSample(1.0, 4.5),  # ends after the last
    ]
    assert rates_within(samples, others, 100, 0.98) == [100.0, 100.0, None, None, None, None]
    assert rates_within(samples[:1], [], 100, 0.98) == [None]


def test_each_is_the_victim_of_the_other() -> None:
    machine = msgspec.structs.replace(identify(), cpus=(0, 1, 2, 4, 5))
    # Own shares, and as many of the other with one of nothing: 2 · 3 · 4, 2 · 5 · 6, 2 · 10 · 11.
    for profile, n_trials in (("brief", 24), ("quick", 60), ("full", 220)):
        plan = make_contention_plan(machine, core_count_mode(5), profile, NO_GPU)
        assert len(plan.trials) == n_trials
        pairs = {(one.victim, one.aggressor) for one in plan.trials}
        assert pairs == {("cpu:0-2", "cpu:4-5"), ("cpu:4-5", "cpu:0-2")}
        assert max(one.aggressor_share for one in plan.trials) == 1.0
    assert partition_name((0, 1, 2, 4, 6, 7)) == "cpu:0-2,4,6-7"
    assert partition_cpus("cpu:0-2,4,6-7") == (0, 1, 2, 4, 6, 7)
    for name in ("gpu", "cpu", "cpu:", "cpu:a", "cpu:9999999999"):
        with pytest.raises(UsageError, match="not a partition"):
            partition_cpus(name)
    with pytest.raises(UsageError, match="one core"):
        accelerators_of((0,), has_gpu=False)
    assert accelerators_of((3,), has_gpu=True) == ("gpu", "cpu:3")


def test_slices_are_within_the_arrays() -> None:
    """An array shorter than a slice is swept whole, so often that a sample lasts as long."""
    machine = msgspec.structs.replace(two_cpus(), caches=(), memory_bytes=2**20)
    with CpuLoad(machine.cpus, machine, 0.002) as load:  # 2^18 bytes over two threads
        for n_fma in (1, 64):
            load.ask(n_fma)
            assert load.sample_bytes > 2**18  # each byte is read and written, more than once
            assert len(load.take(3)) == 3
