"""GPU kernels as data: work and traffic by hand, launches, patterns, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import UsageError
from mansard.microbench.cuda.kernels.latency import LINE_BYTES
from mansard.microbench.kernel import (
    Case,
    Kernel,
    Launch,
    Shape,
    cuda_kernels,
    find_kernel,
    gpu_case,
)

ORIN = Shape(sm=87, n_sms=16)
KIB, MIB = 1 << 10, 1 << 20


def launch_of(
    name: str, working_set_bytes: int, backend: str = "cupy", **options: Any
) -> tuple[Kernel, Case, Launch]:
    precision = options.pop("precision", "fp32")
    kernel = find_kernel(name, backend)
    case = gpu_case(name, precision, working_set_bytes, **options)
    return kernel, case, kernel.launch(case, ORIN)


def test_chains_count_two_flop_a_step_and_two_accesses_an_element() -> None:
    # 8 MiB = 2^21 floats, a whole number of rounds of 16 · 4 · 256 threads with 16 floats each
    # (2^18): 2 · 64 FLOP and 2 · 4 bytes for each float.
    kernel, case, launch = launch_of("fma", 8 * MIB, fma_per_element=64)
    assert (launch.grid, launch.block, launch.n_elements) == (64, 256, 2**21)
    assert kernel.work_flop(case, launch) == 2 * 64 * 2**21
    assert kernel.traffic_bytes(case, launch) == 8 * 2**21


@pytest.mark.parametrize(("precision", "element_bytes"), [("fp64", 8), ("fp16", 2), ("bf16", 2)])
def test_chains_of_other_precisions_count_their_own_elements(
    precision: str, element_bytes: int
) -> None:
    kernel, case, launch = launch_of("fma", 8 * MIB, precision=precision, fma_per_element=3)
    assert launch.n_elements == 8 * MIB // element_bytes
    assert kernel.work_flop(case, launch) == 6 * 8 * MIB // element_bytes
    assert kernel.traffic_bytes(case, launch) == 2 * 8 * MIB


# 24 MiB over 1, 2 and 3 arrays: 24, 12 and 8 MiB each, all whole rounds.
@pytest.mark.parametrize(
    ("name", "n_floats", "flop_each", "bytes_each"),
    [("read", 6 * 2**20, 0, 4), ("copy", 3 * 2**20, 0, 8), ("triad", 2 * 2**20, 2, 12)],
)
def test_streams_count_every_access_once(
    name: str, n_floats: int, flop_each: int, bytes_each: int
) -> None:
    kernel, case, launch = launch_of(name, 24 * MIB)
    assert launch.n_elements == n_floats
    assert kernel.work_flop(case, launch) == flop_each * n_floats
    assert kernel.traffic_bytes(case, launch) == bytes_each * n_floats


# 16 SMs of 2 blocks of 8 warps: 256 warps, each 2048 products of 32 × K by K × 32 a repetition.
@pytest.mark.parametrize(
    ("precision", "k"), [("fp16", 16), ("bf16", 16), ("tf32", 8), ("int8", 32), ("fp8", 32)]
)
def test_tensor_products_count_two_operations_a_term(precision: str, k: int) -> None:
    kernel, case, launch = launch_of("mma", 0, precision=precision)
    assert kernel.work_flop(case, launch) == 256 * 2048 * 2 * 32 * 32 * k
    # Operands of 32 bytes in 32 rows and 32 columns; sums of 4 bytes.
    assert kernel.traffic_bytes(case, launch) == 256 * (2 * 32 * 32 + 4 * 32 * 32)
    assert launch.array_bytes == (256 * 2048, 256 * 4096)


@pytest.mark.parametrize(
    ("precision", "n_bytes"), [("fp64", 24), ("tf32", 12), ("fp16", 6), ("int8", 6)]
)
def test_matrix_products_count_each_matrix_once(precision: str, n_bytes: int) -> None:
    # A little more than three matrices of 1024 × 1024; int8 has sums of 4 bytes: 1 + 1 + 4.
    size = n_bytes * 1024 * 1024 + 5000
    kernel, case, launch = launch_of("gemm", size, "cublas", precision=precision)
    assert launch.n_elements == 1024 * 1024
    assert kernel.work_flop(case, launch) == 2 * 1024**3
    assert kernel.traffic_bytes(case, launch) == n_bytes * 1024 * 1024


def test_a_chase_counts_the_words_it_loads_and_a_stalled_gpu_nothing() -> None:
    kernel, case, launch = launch_of("latency", MIB)
    assert kernel.traffic_bytes(case, launch) == 1024 * 4
    assert kernel.work_flop(case, launch) == 0
    for name in ("stalled", "launch", "graph"):
        kernel, case, launch = launch_of(name, 0)
        assert kernel.work_flop(case, launch) == kernel.traffic_bytes(case, launch) == 0


SWEEPS = [
    (kernel, scope)
    for kernel in cuda_kernels()
    if kernel.family in {"fma", "stream"}
    for scope in kernel.scopes
]


@given(
    which=st.sampled_from(SWEEPS),
    working_set_bytes=st.integers(1, 1 << 33),
    n_sms=st.integers(1, 160),
)
def test_every_thread_of_a_sweep_has_as_much_to_do(
    which: Any, working_set_bytes: int, n_sms: int
) -> None:
    kernel, scope = which
    case = gpu_case(kernel.name, "fp32", working_set_bytes, 8, scope=scope)
    launch = kernel.launch(case, Shape(sm=87, n_sms=n_sms))
    n_bytes = launch.n_elements * 4
    vectors = n_bytes // 16 // (launch.grid * launch.block)
    assert vectors * 16 * launch.grid * launch.block == n_bytes
    assert vectors % 2 == 0  # the smallest tile of a thread
    assert launch.grid % n_sms == 0
    assert launch.grid // n_sms * launch.block <= 1024
    swept = n_bytes * kernel.n_arrays
    assert launch.array_bytes[: kernel.n_arrays] == (n_bytes,) * kernel.n_arrays
    # Never more than asked for, except where that is less than a tile for each thread.
    smallest = n_sms * launch.block * 64 * kernel.n_arrays
    assert swept <= max(working_set_bytes, smallest)
    # Less than a round of tiles of all threads is left out, at most 64 bytes in each.
    round_bytes = launch.grid * launch.block * 64 + 1
    assert working_set_bytes - swept < round_bytes * kernel.n_arrays


@pytest.mark.parametrize("n_lines", [2, 3, 1000, 4096])
def test_a_chase_goes_round_all_lines_before_it_sees_one_again(n_lines: int) -> None:
    kernel, case, launch = launch_of("latency", n_lines * LINE_BYTES)
    array, position = kernel.pattern(case, launch)
    assert array.nbytes == launch.array_bytes[0] == n_lines * LINE_BYTES
    offset, seen = int(position[0]), []
    for _ in range(n_lines):
        seen.append(offset)
        offset = int(array[offset // 4])
    assert offset == seen[0] == 0
    assert sorted(seen) == list(range(0, n_lines * LINE_BYTES, LINE_BYTES))


def test_a_chase_is_in_no_order_a_prefetcher_knows() -> None:
    kernel, case, launch = launch_of("latency", 4096 * LINE_BYTES)
    hops = kernel.pattern(case, launch)[0][::32].astype(np.int64) - np.arange(4096) * LINE_BYTES
    _, counts = np.unique(hops, return_counts=True)
    assert counts.max() < 20  # of 4096: no distance is common


def test_matrix_products_are_those_of_rows_with_rows() -> None:
    # C[j, i] = Σ_k A[i, k]·B[j, k]: with A = [[1, 2], [3, 4]] and B = [[5, 6], [7, 8]],
    # C = [[5 + 12, 15 + 24], [7 + 16, 21 + 32]].
    kernel, case, _ = launch_of("gemm", 0, "cublas", precision="int8")
    launch = Launch(grid=0, block=0, n_elements=4)
    a, b = (np.array(x, dtype=np.int8) for x in ([1, 2, 3, 4], [5, 6, 7, 8]))
    *_, c = kernel.reference(case, launch, (a, b, np.zeros(4, dtype=np.int32)), 3)
    assert c.tolist() == [17, 39, 23, 53]
    assert c.dtype == np.int32


def test_sums_of_a_warp_are_128_products_of_rows_with_columns() -> None:
    kernel, case, launch = launch_of("mma", 0, precision="int8")
    operands = np.zeros(2048, dtype=np.int8)
    operands[3 * 32 + 5] = 7  # A[3, 5]
    operands[1024 + 4 * 32 + 5] = -2  # B[5, 4], stored by columns
    _, sums = kernel.reference(case, launch, (operands, np.zeros(1, dtype=np.int32)), 9)
    expected = np.zeros((32, 32), dtype=np.int32)
    expected[3, 4] = 128 * 7 * -2
    assert sums.reshape(32, 32).tolist() == expected.tolist()


@pytest.mark.parametrize("kernel", cuda_kernels(), ids=lambda k: f"{k.name}-{k.backend}")
@pytest.mark.parametrize("operands", ["chaotic", "constant"])
def test_patterns_have_an_array_for_every_array(kernel: Kernel, operands: Any) -> None:
    for precision in kernel.precisions:
        case = gpu_case(kernel.name, precision, MIB, 8, operands=operands)
        launch = kernel.launch(case, ORIN)
        patterns = kernel.pattern(case, launch)
        assert len(patterns) == len(launch.array_bytes)
        for pattern, n_bytes in zip(patterns, launch.array_bytes, strict=True):
            assert n_bytes % pattern.itemsize == 0
            assert pattern.nbytes <= n_bytes
            assert pattern.ndim == 1


def test_the_greatest_sums_of_int8_fit_into_32_bits() -> None:
    kernel, case, launch = launch_of("mma", 0, precision="int8")
    operands = np.full(2048, -128, dtype=np.int8)
    _, sums = kernel.reference(case, launch, (operands, np.zeros(1, dtype=np.int32)), 1)
    assert set(sums.tolist()) == {128 * 32 * 128 * 128}  # 67,108,864 of 2^31


def test_what_a_gpu_does_not_have_is_refused() -> None:
    kernel = find_kernel("fma", "cupy")
    with pytest.raises(UsageError, match=r"needs compute capability 8\.0.*has 7\.2"):
        kernel.check(gpu_case("fma", "bf16", MIB), 72)
    with pytest.raises(UsageError, match="'int8'"):
        kernel.check(gpu_case("fma", "int8", MIB), 87)
    with pytest.raises(UsageError, match="no scope 'sm'"):
        find_kernel("fma", "numba-cuda").check(gpu_case("fma", "fp32", MIB, scope="sm"), 87)
    with pytest.raises(UsageError, match=r"emulated on compute capability 11\.0"):
        find_kernel("mma", "cupy").check(gpu_case("mma", "fp8", MIB), 110)
    find_kernel("mma", "cupy").check(gpu_case("mma", "fp8", MIB), 120)
    with pytest.raises(UsageError, match="unknown kernel 'sgemm'") as error:
        find_kernel("sgemm", "cublas")
    assert "gemm" in str(error.value.fix)


def test_hashes_differ_where_sources_do() -> None:
    by_hash: dict[str, set[str]] = {}
    for kernel in cuda_kernels():
        by_hash.setdefault(kernel.source_hash, set()).add(kernel.source)
    assert all(len(sources) == 1 for sources in by_hash.values())
    # fma, streams, mma, wgmma, latency, stalled, launch, gemm, all of Numba
    assert len(by_hash) == 9


def test_launches_fit_every_gpu() -> None:
    # At least 1024 threads and 65,536 registers on an SM: 64 registers for each of 1024.
    for kernel in cuda_kernels():
        for scope in kernel.scopes:
            case = replace(gpu_case(kernel.name, "fp32", MIB, 8), scope=scope)
            if kernel.name == "mma":
                case = replace(case, precision="fp16")
            launch = kernel.launch(case, ORIN)
            assert launch.block <= 1024
            assert launch.shared_bytes == 0
            assert launch.grid * launch.block <= 16 * 1024
