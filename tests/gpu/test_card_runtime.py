"""The runtime on a real card: marks of time, the SM's clock, memory, and whole trials."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from mansard.core.errors import MeasurementError
from mansard.core.records import ContentionPoint, MemoryKind, Trial
from mansard.core.storage.jsonl import read_rows
from mansard.device.identity import identify
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import run_plan
from mansard.microbench.contention.plan import make_contention_plan
from mansard.microbench.cuda.sampling import OpenGpu
from mansard.microbench.cuda.source import CudaSource, allocate
from mansard.microbench.cuda.timing import take_anchor
from mansard.microbench.kernel import Case, find_kernel, gpu_case
from mansard.microbench.plan import make_plan
from tools.card_check.opening import Card

pytestmark = pytest.mark.gpu

MIB = 1 << 20
FMA = find_kernel("fma", "cupy")


def chain(opened: OpenGpu) -> Case:
    return gpu_case("fma", "fp32", opened.gpu.n_sms * 64 * 1024, fma_per_element=256)


def test_the_sms_clock_is_one_that_gpus_have(opened: OpenGpu) -> None:
    with CudaSource(FMA, chain(opened), opened.gpu, opened.runtime, opened.clock) as source:
        raw = source.take(20, 50)
    clocks_hz = [one.clock_hz for one in raw]
    assert all(hz is not None and 50e6 < hz < 5e9 for hz in clocks_hz)


def test_samples_lie_between_asking_and_having_on_the_hosts_clock(opened: OpenGpu) -> None:
    with CudaSource(FMA, chain(opened), opened.gpu, opened.runtime, opened.clock) as source:
        before_s = opened.clock.now_s()
        raw = source.take(50, 50)
        after_s = opened.clock.now_s()
    slack_s = take_anchor(opened.runtime, opened.clock).error_s + 1e-3
    assert before_s - slack_s <= raw[0].started_s
    assert raw[-1].started_s + raw[-1].duration_s <= after_s + slack_s
    starts_s = [one.started_s for one in raw]
    assert starts_s == sorted(starts_s)


@pytest.mark.parametrize("memory", ["device", "zero-copy"])
def test_patterns_arrive_and_come_back(opened: OpenGpu, memory: MemoryKind) -> None:
    if memory == "zero-copy" and not opened.gpu.is_integrated:
        pytest.skip("zero-copy memory is measured where host and GPU share theirs")
    pattern = np.arange(1001, dtype=np.uint8)
    buffer = allocate(opened.runtime, 3 * MIB + 5, memory, "a test")
    opened.runtime.fill(buffer, pattern)
    found = opened.runtime.read(buffer, 3 * MIB + 5)
    opened.runtime.release(buffer)
    np.testing.assert_array_equal(found, np.resize(pattern, 3 * MIB + 5))


def test_more_memory_than_the_card_has_is_refused_by_name(opened: OpenGpu) -> None:
    total = opened.runtime.memory_info().total_bytes
    with pytest.raises(MeasurementError, match=r"a test: \d+ MiB wanted, \d+ of \d+ MiB free"):
        allocate(opened.runtime, 2 * total, "device", "a test")
    # The refusal broke nothing.
    buffer = allocate(opened.runtime, MIB, "device", "a test")
    opened.runtime.release(buffer)


def test_one_trial_of_every_family_as_a_run(card: Card, tmp_path: Path) -> None:
    machine = identify()
    mode = choose_modes("", SYSTEM_ROOT, machine)[0]
    plan = make_plan(machine, mode, "brief", card.probe)
    by_kernel = {(spec.kernel, spec.backend): spec for spec in plan.trials}
    plan = msgspec.structs.replace(plan, trials=tuple(by_kernel.values()))
    outcome = run_plan(plan, tmp_path, measurer=LocalMeasurer(card.meters, kind=card.kind))
    rows = read_rows(outcome.folder / "trials.jsonl", Trial).rows
    assert len(rows) == len(by_kernel)
    for row in rows:
        assert row.processor == "gpu"
        assert row.n_sms == card.gpu.n_sms
        assert row.seconds_s, row.unknown
        if card.meters.found:
            assert row.energy is not None, row.unknown["energy"]


def test_contention_of_the_card_and_the_cpus(card: Card, tmp_path: Path) -> None:
    if card.is_software:
        pytest.skip("CPUs run in real time, the software GPU does not")
    machine = identify()
    mode = choose_modes("", SYSTEM_ROOT, machine)[0]
    plan = make_contention_plan(machine, mode, "brief", card.probe)
    trials = [one for one in plan.trials if one.aggressor_share == one.victim_share == 1.0]
    plan = msgspec.structs.replace(plan, trials=tuple(trials))
    outcome = run_plan(plan, tmp_path, measurer=LocalMeasurer())
    rows = read_rows(outcome.folder / "contention.jsonl", ContentionPoint).rows
    assert {row.victim for row in rows} == {"gpu", plan.trials[0].victim, plan.trials[1].victim}
    for row in rows:
        assert row.failure is None
        assert min(row.alone_byte_per_s) > 0
        assert min(row.external_byte_per_s) > 0
    assert card.gpu.name == (plan.gpu.name if plan.gpu else "")
