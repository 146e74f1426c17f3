"""Which trials a GPU gets, and at which sizes: hand-made GPUs from a Nano to a data centre's."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.caches import dram_low_bytes, gpu_level_windows, scope_of
from mansard.core.records import Gpu
from mansard.microbench.cuda import trial_specs as trials
from mansard.microbench.cuda.kernels.gemm import matrix_bytes
from mansard.microbench.cuda.software_gpu import GPU, MIB
from mansard.microbench.cuda.trial_specs import choose_trials, gpu_trials
from mansard.microbench.kernel import find_kernel, gpu_case, shape_of

KIB = 1024
ALL = {"numba-cuda": "0.30", "cublas": "12.9"}
NANO = msgspec.structs.replace(
    GPU, sm=53, n_sms=1, l1_bytes=24 * KIB, l2_bytes=256 * KIB, memory_bytes=4096 * MIB
)
CARD = msgspec.structs.replace(
    GPU,
    sm=90,
    n_sms=132,
    l1_bytes=256 * KIB,
    l2_bytes=50 * MIB,
    memory_bytes=80 * 1024 * MIB,
    is_integrated=False,
)
GPUS = (GPU, NANO, CARD)


def test_levels_of_an_orin_by_hand() -> None:
    # L1: half of 192 KiB is 96 KiB, three rounds of 32 KiB, on 16 SMs: 1.5 MiB.
    # L2: half of 4 MiB is two rounds of 64 KiB on 16 SMs.
    # Main memory: 16 × 4 MiB, which 8 × 4 MiB lies well below.
    assert trials.level_sets(GPU) == (
        trials.Sized("sm", 1536 * KIB),
        trials.Sized("gpu", 2 * MIB),
    )
    assert trials.memory_set(GPU) == trials.Sized("gpu", 64 * MIB)
    # 1024 threads with 64 bytes each on 16 SMs.
    assert trials.chain_set(GPU) == trials.Sized("gpu", MIB)


def card(sm: int, n_sms: int, l1_kib: int, l2_mib: int, mig: str | None = None) -> Gpu:
    unknown = {} if mig else {"mig": "the GPU is not sliced"}
    return msgspec.structs.replace(
        CARD,
        sm=sm,
        n_sms=n_sms,
        l1_bytes=l1_kib * KIB,
        l2_bytes=l2_mib * MIB,
        mig=mig,
        unknown=unknown,
    )


@pytest.mark.parametrize(
    ("gpu", "sizes_mib"),
    [
        # Half of a partition, a quarter of the L2; √½ of it, between one and two; 9 times it.
        (card(90, 132, 256, 50), (12.5, 35.355, 450)),  # H100
        (card(90, 132, 256, 60), (15.0, 42.426, 540)),  # H200
        (card(80, 108, 192, 40), (10.0, 28.284, 360)),  # A100
        # One partition: half of it.
        (card(89, 128, 128, 72), (36.0, 648)),  # RTX 4090
        (card(90, 16, 256, 6, mig="1g.10gb"), (3.0, 54)),  # a slice lies within a partition
        (GPU, (2.0, 36)),  # AGX Orin
    ],
    ids=("H100", "H200", "A100", "RTX 4090", "MIG slice", "AGX Orin"),
)
def test_latency_sets_tell_partitions_and_memory_apart(
    gpu: Gpu, sizes_mib: tuple[float, ...]
) -> None:
    l1, *others = trials.latency_sets(gpu, 0)
    assert l1 == trials.Sized("sm", (gpu.l1_bytes or 0) // 2)
    assert [one.n_bytes / MIB for one in others] == pytest.approx(sizes_mib, abs=0.001)


def test_the_l2_is_read_within_what_a_partition_holds() -> None:
    # A quarter of 50 MiB is 12.5: one round of 64 KiB on 132 SMs is 8.25 MiB.
    (l2,) = [one for one in trials.level_sets(CARD) if one.scope == "gpu"]
    assert l2.n_bytes == 132 * 64 * KIB


def test_a_first_level_smaller_than_one_round_has_no_trials() -> None:
    # One round of 512 threads sweeps 32 KiB, and the Nano's L1 has 24.
    assert [one.scope for one in trials.level_sets(NANO)] == ["gpu"]


@pytest.mark.parametrize(("gpu", "profile"), list(product(GPUS, ("brief", "quick", "full"))))
def test_every_trial_is_one_its_kernel_has_and_is_as_large_as_it_says(
    gpu: Gpu, profile: str
) -> None:
    trials = gpu_trials(gpu, profile, ALL)
    assert len({spec.trial_id for spec in trials}) == len(trials)
    for spec in trials:
        kernel = find_kernel(spec.kernel, spec.backend)
        case = gpu_case(
            spec.kernel,
            spec.precision,
            spec.working_set_bytes,
            spec.fma_per_element,
            spec.operands,
            spec.scope,
            spec.memory,
        )
        kernel.check(case, gpu.sm)
        arrays = kernel.launch(case, shape_of(gpu)).array_bytes
        assert sum(arrays[: kernel.n_arrays] or arrays) == spec.working_set_bytes
        assert sum(arrays) <= 0.3 * (gpu.memory_bytes or 0)
        assert spec.memory == "device" or gpu.is_integrated


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("profile", ["brief", "quick", "full"])
def test_every_level_that_has_a_window_is_read_inside_of_it(gpu: Gpu, profile: str) -> None:
    reads = [one for one in gpu_trials(gpu, profile) if one.kernel == "read"]
    for window in gpu_level_windows(gpu, gpu.n_sms):
        inside = [
            one
            for one in reads
            if one.scope == scope_of(window.level)
            and window.low_bytes < one.working_set_bytes <= window.high_bytes
        ]
        # Of the three, only the Nano's L1 is smaller than a round of its threads.
        assert bool(inside) == (not (gpu is NANO and window.level == 1))
    assert any(
        one.scope == "gpu" and one.working_set_bytes > dram_low_bytes(gpu.l2_bytes or 0)
        for one in reads
    )


def test_constant_twins_stand_beside_chaotic_ones() -> None:
    trials = gpu_trials(CARD, "quick", ALL)
    chaotic = {
        (t.kernel, t.backend, t.precision, t.working_set_bytes, t.fma_per_element)
        for t in trials
        if t.operands == "chaotic"
    }
    constant = [t for t in trials if t.operands == "constant"]
    assert {t.kernel for t in constant} == {
        *("fma", "read", "copy", "triad", "mma", "wgmma", "gemm")
    }
    for t in constant:
        key = (t.kernel, t.backend, t.precision, t.working_set_bytes, t.fma_per_element)
        assert key in chaotic


def test_numbas_twins_have_the_size_of_a_trial_in_cuda() -> None:
    trials = gpu_trials(CARD, "quick", ALL)
    cupy = {
        (t.kernel, t.precision, t.working_set_bytes, t.fma_per_element)
        for t in trials
        if t.backend == "cupy"
    }
    twins = [t for t in trials if t.backend == "numba-cuda"]
    assert {"fma", "read"} <= {t.kernel for t in twins}
    for t in twins:
        assert (t.kernel, t.precision, t.working_set_bytes, t.fma_per_element) in cupy


def test_zero_copy_only_where_host_and_gpu_share_memory() -> None:
    on_board = [t for t in gpu_trials(GPU, "brief") if t.memory == "zero-copy"]
    assert {t.kernel for t in on_board} == {"read", "triad"}
    assert not [t for t in gpu_trials(CARD, "full") if t.memory == "zero-copy"]


def test_a_gpu_without_tensor_cores_says_what_is_left_out() -> None:
    chosen = choose_trials(NANO, "quick", {})
    assert not [t for t in chosen.trials if t.kernel == "mma"]
    assert any(line.startswith("mma (cupy) in fp16") for line in chosen.left_out)
    assert any("numba-cuda is not installed" in line for line in chosen.left_out)
    assert any("cublas is not installed" in line for line in chosen.left_out)


def test_a_memory_too_small_for_its_l2_is_said() -> None:
    # A quarter of 256 MiB is 64 MiB, and main memory begins at 8 × 16 MiB.
    tight = msgspec.structs.replace(GPU, l2_bytes=16 * MIB, memory_bytes=256 * MIB)
    assert trials.memory_set(tight) is None
    assert any(line.startswith("main memory") for line in choose_trials(tight, "brief").left_out)


def test_products_last_about_three_milliseconds() -> None:
    # 16 SMs × 2048 FLOP × 1.3005 GHz = 42.6 TFLOP/s: n = (42.6e9 · 3 / 2)^(1/3) = 3999 -> 3840.
    assert trials.gemm_set(GPU, "fp16", 2048) == trials.Sized("gpu", 3 * 2 * 3840**2)
    # 132 SMs of a large card would take n = 10,179; 8192 is enough for any.
    assert trials.gemm_set(CARD, "fp16", 4096) == trials.Sized("gpu", 3 * 2 * 8192**2)
    # An SM of the Nano does 256 FLOP a cycle: n = 793 -> 768.
    assert trials.gemm_set(NANO, "fp32", 256) == trials.Sized("gpu", 3 * 4 * 768**2)
    assert sum(matrix_bytes("int8", 512)) == (1 + 1 + 4) * 512**2
    assert sum(matrix_bytes("fp4", 512)) == 512**2 // 2 + 512**2 // 2 + 2 * 512**2


@given(
    n_sms=st.integers(1, 200),
    l1=st.none() | st.integers(8 * KIB, 512 * KIB),
    l2=st.none() | st.integers(64 * KIB, 256 * MIB),
    memory=st.none() | st.integers(64 * MIB, 256 * 1024 * MIB),
    points=st.integers(0, 4),
)
def test_sizes_of_any_gpu_are_whole_and_ordered(
    n_sms: int, l1: int | None, l2: int | None, memory: int | None, points: int
) -> None:
    unknown = {"mig": "none"}
    for name, value in (("l1_bytes", l1), ("l2_bytes", l2), ("memory_bytes", memory)):
        if value is None:
            unknown[name] = "not told"
    gpu = msgspec.structs.replace(
        GPU, n_sms=n_sms, l1_bytes=l1, l2_bytes=l2, memory_bytes=memory, unknown=unknown
    )
    for sets in (trials.stream_sets(gpu, points), trials.latency_sets(gpu, points)):
        assert len(set(sets)) == len(sets)
        assert all(one.n_bytes > 0 for one in sets)
    streams = trials.stream_sets(gpu, points)
    assert all(one.n_bytes % (16 * KIB * n_sms) == 0 for one in streams)
    largest = trials.memory_set(gpu)
    if largest is not None and memory is not None:
        assert largest.n_bytes <= max(memory / 4, 16 * KIB * n_sms)
