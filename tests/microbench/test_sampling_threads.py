"""Real threads, real clocks: everything but how fast it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from mansard.core.errors import MeasurementError
from mansard.measuring.metering import UNMETERED
from mansard.measuring.protocol import PROTOCOLS
from mansard.microbench.cpu.emit import host_unit
from mansard.microbench.cpu.source import CpuSource, PinnedThreads, sample_case
from mansard.microbench.kernel import HOST, Case, find_kernel

CPUS = tuple(sorted(os.sched_getaffinity(0)))
# Two threads always: on a machine with one CPU they must share it without a deadlock.
TEAMS = [(CPUS[0],), (CPUS[0], CPUS[-1]), (CPUS[0], CPUS[0])]
SHORT = msgspec.structs.replace(PROTOCOLS["quick"], time_cap_s=0.2)


@pytest.mark.parametrize("cpus", TEAMS)
@pytest.mark.parametrize(
    "case", [Case("fma", "fp32", 3072, 64), Case("triad", "fp64", 24_576, None, "plain")]
)
def test_a_trial_on_this_machine(case: Case, cpus: tuple[int, ...]) -> None:
    samples = sample_case(case, cpus, SHORT)
    assert samples.repetitions_per_sample >= 1
    assert len(samples.seconds_s) == len(samples.block)
    assert len(samples.rejected_s) == len(samples.rejected_reason)
    assert len(samples.seconds_s) + len(samples.rejected_s) >= 10
    assert all(seconds > 0 for seconds in samples.seconds_s + samples.rejected_s)
    assert (samples.stability == "stable") == (samples.stability_reason is None)
    assert (samples.energy.windows, samples.energy.reason) == (None, UNMETERED.reason)
    assert not samples.interrupted
    # Of a stream's variants one was chosen; a chain has none.
    widths = {None} if case.kernel == "fma" else set(host_unit().stream_widths)
    assert samples.vector_bytes in widths


def test_both_threads_do_the_work_on_their_own_arrays() -> None:
    case = Case("triad", "fp32", 24_576, None, "plain")
    with CpuSource(case, (CPUS[0], CPUS[-1])) as source:
        first, second = source.operands
        assert not np.shares_memory(first.arrays[2], second.arrays[2])
        assert len(source.take(3, 2)) == 3
        for operands in source.operands:
            a, b, c = operands.arrays
            assert (c == a + np.float32(0.5) * b).all()


def test_samples_follow_each_other() -> None:
    with CpuSource(Case("read", "fp32", 4096), (CPUS[0], CPUS[-1])) as source:
        taken = source.take(20, 50)
    assert len(taken) == 20
    for before, after in pairwise(taken):
        assert after.started_s >= before.started_s + before.duration_s - 1e-6  # rounding of doubles


def test_a_block_ends_soon_after_being_told_to_stop() -> None:
    told = threading.Event()
    threading.Timer(0.05, told.set).start()
    with CpuSource(Case("fma", "fp32", 3072, 1024), (CPUS[0], CPUS[-1])) as source:
        begun_s = time.monotonic()
        taken = source.take(1_000_000, 100, told.is_set)
        assert len(taken) < 1_000_000
        # Half an hour of samples were asked for; not an assertion on speed.
        assert time.monotonic() - begun_s < 30
        assert len(source.take(2, 1)) == 2  # and the team can be used again


@pytest.mark.usefixtures("as_in_a_terminal")
def test_an_interrupt_ends_a_block_and_its_threads() -> None:
    program = f"""
from mansard.microbench.cpu.source import CpuSource
from mansard.microbench.kernel import HOST, Case
with CpuSource(Case("fma", "fp32", 3072, 1024), {(CPUS[0], CPUS[-1])!r}) as source:
    source.take(2, 1)
    print("running", flush=True)
    source.take(1_000_000, 100)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"running\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert b"KeyboardInterrupt" in errors
    assert process.returncode in {1, -signal.SIGINT}


def test_threads_are_pinned_and_the_caller_is_not() -> None:
    cpus = (CPUS[0], CPUS[-1])
    with PinnedThreads(cpus) as threads:
        assert threads.run(lambda _: os.sched_getaffinity(0)) == [{cpu} for cpu in cpus]
        assert threads.run(lambda index: index) == [0, 1]
    assert tuple(sorted(os.sched_getaffinity(0))) == CPUS


def test_an_error_on_a_thread_stops_the_others_and_comes_out() -> None:
    stopped = threading.Event()

    def task(index: int) -> bool:
        if index == 0:
            raise ValueError("first")
        return stopped.wait(timeout=300)

    with PinnedThreads((CPUS[0], CPUS[-1])) as threads:
        with pytest.raises(ValueError, match="first"):
            threads.run(task, stop=stopped.set)
        assert stopped.is_set()
        assert threads.run(lambda index: index + 1) == [1, 2]


def test_a_cpu_that_is_not_ours() -> None:
    with (
        pytest.raises(MeasurementError, match="cannot pin a thread to CPU 8191"),
        CpuSource(Case("read", "fp32", 4096), (CPUS[0], 8191)),
    ):
        pass
    with pytest.raises(MeasurementError, match="no CPU"):
        PinnedThreads(())


def test_first_touch_is_the_threads_own() -> None:
    """Operands are filled on the pinned thread: nothing is left to fault in later."""
    case = Case("copy", "fp64", 1 << 20, None, "plain")
    kernel = find_kernel("copy")
    with CpuSource(case, (CPUS[0],)) as source:
        (operands,) = source.operands
        expected = kernel.reference(case, kernel.launch(case, HOST), operands.arrays, 1)
        assert operands.arrays[0].min() >= 1.0  # filled, not zero pages
        source.take(1, 1)
        assert (operands.arrays[1] == expected[1]).all()
