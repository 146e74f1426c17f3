"""Trials on a software GPU: timing, clocks, memory, interruption, and results."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from mansard.core.errors import MeasurementError, UsageError
from mansard.measuring.protocol import PROTOCOLS
from mansard.measuring.sampling import collect
from mansard.microbench.cuda.runtime import MemoryInfo
from mansard.microbench.cuda.software_gpu import GPU, MIB, Mark, Physics, SoftwareGpu
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.cuda.timing import DEPTH, SLOTS, clock_of, judge_clocks
from mansard.microbench.kernel import Case, Kernel, find_kernel, gpu_case

QUICK = PROTOCOLS["quick"]
FMA = find_kernel("fma", "cupy")
READ = find_kernel("read", "cupy")
COPY = find_kernel("copy", "cupy")
CHAIN = gpu_case("fma", "fp32", MIB, fma_per_element=256, scope="sm")


def open_source(kernel: Kernel, case: Case, gpu: SoftwareGpu) -> CudaSource:
    return CudaSource(kernel, case, gpu.physics.gpu, gpu, gpu.host.clock)


def test_a_chain_reaches_what_the_stated_physics_allows() -> None:
    gpu = SoftwareGpu()
    with open_source(FMA, CHAIN, gpu) as source:
        samples = collect(source, QUICK, 0.01, clock=gpu.host.clock, judge=judge_clocks)
        work_flop = FMA.work_flop(CHAIN, source.launch)
    assert samples.stability == "stable"
    assert len(samples.seconds_s) == 80
    # 16 SMs × 256 FLOP × 1.3 GHz = 5.325 TFLOP/s; a launch of 4 µs in 2 ms takes 0.2 % of it.
    assert work_flop / np.median(samples.seconds_s) == pytest.approx(5.325e12, rel=0.004)
    assert samples.clock_hz == pytest.approx([1.3e9] * 80, rel=1e-5)
    assert samples.repetitions_per_sample * samples.seconds_s[0] == pytest.approx(0.002, rel=0.01)


def test_samples_lie_on_the_hosts_clock_one_after_the_other() -> None:
    gpu = SoftwareGpu()
    with open_source(FMA, CHAIN, gpu) as source:
        before_s = gpu.host.now_s()
        raw = source.take(6, 50)
        after_s = gpu.host.now_s()
    assert len(raw) == 6
    assert raw[0].started_s >= before_s
    assert raw[-1].started_s + raw[-1].duration_s <= after_s
    gaps_s = [
        later.started_s - (sooner.started_s + sooner.duration_s) for sooner, later in pairwise(raw)
    ]
    # Launches are enqueued ahead: the GPU never waits for the host.
    assert max(gaps_s) == pytest.approx(0, abs=1e-9)


def test_started_agrees_with_when_the_gpu_was_busy() -> None:
    gpu = SoftwareGpu()
    with open_source(FMA, CHAIN, gpu) as source:
        gpu.busy.clear()
        raw = source.take(3, 200)
    began_s = [begin for begin, _ in gpu.busy]
    # Asking for a mark takes 2 µs, waiting for it 5 µs: the middle is 1.5 µs late. Enqueueing
    # (5 µs) lies between the first mark and the kernel's begin.
    late_s = [one.started_s - begin for one, begin in zip(raw, began_s, strict=True)]
    assert late_s == pytest.approx([1.5e-6 - 5e-6, 1.5e-6, 1.5e-6], abs=1e-9)


class Preempted(SoftwareGpu):
    """A host that is away for 10 ms whenever it has waited for an anchor."""

    def record(self, *, spin: bool = False) -> Mark:
        mark = super().record(spin=spin)
        self.host.spend(0.01 if spin else 0.0)
        return mark


def test_no_sample_ends_after_the_moment_at_which_it_was_waited_for() -> None:
    gpu = Preempted()
    with open_source(FMA, CHAIN, gpu) as source:
        (sample,) = source.take(1, 1)
    # The middle of the wait lies 5 ms after the mark, and the sample lasts 0.1 ms.
    assert sample.duration_s < 0.001
    assert sample.started_s + sample.duration_s <= gpu.host.now_s()


@pytest.mark.parametrize("n_samples", [1, DEPTH, DEPTH + 1, SLOTS, SLOTS + 3])
def test_any_number_of_samples(n_samples: int) -> None:
    gpu = SoftwareGpu()
    with open_source(FMA, CHAIN, gpu) as source:
        raw = source.take(n_samples, 1)
    assert len(raw) == n_samples
    assert all(one.clock_hz == pytest.approx(1.3e9, rel=1e-3) for one in raw)


def test_a_stop_is_obeyed_within_a_few_samples() -> None:
    gpu = SoftwareGpu()
    with open_source(FMA, CHAIN, gpu) as source:
        launches = gpu.n_launches
        raw = source.take(1000, 50, lambda: gpu.n_launches >= launches + 7)
        assert len(raw) == 7  # what was enqueued is waited for and kept
        assert source.take(10, 50, lambda: True) == []


def test_memory_is_given_back_also_when_something_fails() -> None:
    gpu = SoftwareGpu()
    with open_source(FMA, CHAIN, gpu):
        assert gpu.used_bytes > MIB
    assert gpu.used_bytes == 0
    broken = SoftwareGpu(breaks_at=1)
    with pytest.raises(MeasurementError, match="illegal memory access"):
        open_source(FMA, CHAIN, broken).__enter__()
    assert broken.used_bytes == 0


def test_too_little_memory_says_how_much_was_wanted_and_free() -> None:
    # Of 100 MiB the first array of 64 MiB leaves 36.
    gpu = SoftwareGpu(Physics(free_bytes=100 * MIB))
    case = gpu_case("copy", "fp32", 128 * MIB)
    with pytest.raises(MeasurementError, match=r"array 2 of 2 of copy fp32: 64 MiB wanted, 36 of"):
        open_source(COPY, case, gpu).__enter__()
    assert gpu.memory_info() == MemoryInfo(100 * MIB, GPU.memory_bytes or 0)


def test_zero_copy_memory_is_asked_for_and_pageable_memory_refused() -> None:
    gpu = SoftwareGpu()
    with open_source(READ, gpu_case("read", "fp32", 64 * MIB, memory="zero-copy"), gpu):
        assert [memory.kind for memory in gpu.live] == ["zero-copy", "zero-copy", "device"]
    with pytest.raises(UsageError, match="pageable"):
        open_source(READ, gpu_case("read", "fp32", 64 * MIB, memory="host"), gpu).__enter__()


def test_a_case_that_the_gpu_lacks_is_refused_before_anything_is_allocated() -> None:
    gpu = SoftwareGpu(Physics(gpu=msgspec.structs.replace(GPU, sm=62)))
    with pytest.raises(UsageError, match=r"needs compute capability 8\.0, this GPU has 6\.2"):
        open_source(FMA, replace(CHAIN, precision="bf16"), gpu)


@pytest.mark.parametrize("name", ["fma", "read", "copy", "triad", "latency"])
def test_arrays_hold_what_the_reference_says(name: str) -> None:
    kernel = find_kernel(name, "cupy")
    chain = 3 if name == "fma" else None
    gpu = SoftwareGpu()
    with open_source(kernel, gpu_case(name, "fp32", 256 * 1024, chain), gpu) as source:
        source.refill()
        before = source.initial()
        source.take(2, 1)
        wanted = kernel.reference(
            gpu_case(name, "fp32", 256 * 1024, chain), source.launch, before, 2
        )
        for got, expected in zip(source.read(), wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_l2_is_emptied_only_before_single_sweeps_that_it_holds_in_part() -> None:
    gpu = SoftwareGpu()
    with open_source(READ, gpu_case("read", "fp32", 8 * MIB), gpu) as source:
        gpu.n_fills = 0
        source.take(3, 2)
        assert gpu.n_fills == 0
        source.take(3, 1)
        assert gpu.n_fills == 4  # once to have the memory filled, then before every sample
        # Twice L2 beside the arrays: 8 MiB.
        assert 8 * MIB in [memory.n_bytes for memory in gpu.live]


@pytest.mark.parametrize(
    ("cycles", "nanoseconds", "duration_s", "hz"),
    [
        (2_600_000, 2_000_000, 0.00201, 1.3e9),
        (2_600_000, 2_000_000, 0.0, None),  # longer than the sample
        (0, 2_000_000, 0.002, None),
        (2_600_000, 0, 0.002, None),
    ],
)
def test_clock_words_that_cannot_be_are_no_clock(
    cycles: int, nanoseconds: int, duration_s: float, hz: float | None
) -> None:
    assert clock_of(cycles, nanoseconds, duration_s) == (hz and pytest.approx(hz))


def test_a_kernel_that_takes_no_time_is_told() -> None:
    gpu = SoftwareGpu()
    with (
        open_source(FMA, CHAIN, gpu) as source,
        pytest.raises(MeasurementError, match="takes no time at all"),
    ):
        source.take(1, 2**31)


def test_no_samples_after_the_end() -> None:
    gpu = SoftwareGpu()
    with open_source(FMA, CHAIN, gpu) as source:
        pass
    with pytest.raises(MeasurementError, match="arrays are gone"):
        source.take(1, 1)
