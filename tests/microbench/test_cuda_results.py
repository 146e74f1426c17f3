"""What the CUDA C++ computes, run on the CPU, equals the NumPy references bit by bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mansard.core.records import Operands, Scope
from mansard.microbench.kernel import Array, Case, Kernel, Launch, Shape, find_kernel, gpu_case
from tests.microbench.cuda_cpu_runs import compile_for_cpu, has_compiler, run_on_cpu

pytestmark = pytest.mark.skipif(not has_compiler, reason="no g++ 11 to run CUDA C++ on the CPU")

SHAPE = Shape(sm=87, n_sms=2)
FMA_ENTRIES = tuple(
    f"fma_{precision}_{scope}_{operands}"
    for precision in ("fp64", "fp32", "fp16", "bf16")
    for scope in ("gpu", "sm")
    for operands in ("chaotic", "constant")
)
STREAM_ENTRIES = tuple(
    f"{name}_fp32_{s}" for name in ("read", "copy", "triad") for s in ("gpu", "sm")
)

TENSOR_ENTRIES = tuple(f"tensor_{p}" for p in ("fp16", "bf16", "tf32", "fp8", "int8"))

VOLTA_ENTRIES = ("tensor_fp16", "tensor_int8")


def expect_equal(found: tuple[Array, ...], expected: tuple[Array, ...]) -> None:
    assert len(found) == len(expected)
    for mine, wanted in zip(found, expected, strict=True):
        assert mine.dtype == wanted.dtype
        assert mine.tobytes() == wanted.tobytes()


def run_and_compare(
    source: str, entries: tuple[str, ...], kernel: Kernel, case: Case
) -> tuple[Launch, tuple[Array, ...]]:
    launch = kernel.launch(case, SHAPE)
    library = compile_for_cpu(source, entries)
    before, after, clock = run_on_cpu(library, kernel, case, launch, (3,))
    expect_equal(after, kernel.reference(case, launch, before, 3))
    assert (clock > 0).all()
    return launch, after


@pytest.mark.parametrize("operands", ["chaotic", "constant"])
@pytest.mark.parametrize("scope", ["gpu", "sm"])
@pytest.mark.parametrize("precision", ["fp64", "fp32", "fp16", "bf16"])
def test_chains_equal_the_reference(precision: str, scope: Scope, operands: Operands) -> None:
    kernel = find_kernel("fma", "cupy")
    # 73 = 64 + 8 + 1: whole rounds, and two of the shorter pieces.
    case = gpu_case("fma", precision, 1, 73, operands=operands, scope=scope)
    run_and_compare("fma.cu", FMA_ENTRIES, kernel, case)


@pytest.mark.parametrize("n_steps", [1, 2, 4, 15, 16, 32, 63])
def test_chains_of_every_length_equal_the_reference(n_steps: int) -> None:
    kernel = find_kernel("fma", "cupy")
    for precision in ("fp64", "fp32"):
        case = gpu_case("fma", precision, 1, n_steps)
        run_and_compare("fma.cu", FMA_ENTRIES, kernel, case)


@pytest.mark.parametrize("operands", ["chaotic", "constant"])
@pytest.mark.parametrize("scope", ["gpu", "sm"])
@pytest.mark.parametrize("name", ["read", "copy", "triad"])
def test_streams_equal_the_reference(name: str, scope: Scope, operands: Operands) -> None:
    kernel = find_kernel(name, "cupy")
    # Three arrays of 262,144 bytes: several tiles for each thread in either scope.
    case = gpu_case(name, "fp32", 3 * 262_144, operands=operands, scope=scope)
    launch, after = run_and_compare("streams.cu", STREAM_ENTRIES, kernel, case)
    assert launch.n_elements * 4 > launch.grid * launch.block * 64  # more than one tile
    if name == "read" and operands == "chaotic":
        assert len(np.unique(after[1])) > launch.block


def test_a_read_that_leaves_out_a_tile_would_show() -> None:
    kernel = find_kernel("read", "cupy")
    case = gpu_case("read", "fp32", 262_144)
    launch = kernel.launch(case, SHAPE)
    library = compile_for_cpu("streams.cu", STREAM_ENTRIES)
    shorter = replace(launch, n_elements=launch.n_elements // 2)
    before, after, _ = run_on_cpu(library, kernel, case, shorter, (3,))
    expected = kernel.reference(case, launch, before, 3)
    assert (after[1] != expected[1]).mean() > 0.99


@pytest.mark.parametrize("scope", ["gpu", "sm"])
def test_the_chase_goes_on_where_the_last_launch_stopped(scope: Scope) -> None:
    kernel = find_kernel("latency", "cupy")
    case = gpu_case("latency", "fp32", 3000 * 128, scope=scope)  # no divisor of 1024 steps
    launch = kernel.launch(case, SHAPE)
    library = compile_for_cpu("latency.cu", ("latency_gpu", "latency_sm"))
    before, after, _ = run_on_cpu(library, kernel, case, launch, (1, 3))
    expect_equal(after, kernel.reference(case, launch, before, 4))
    _, elsewhere, _ = run_on_cpu(library, kernel, case, launch, (1,))
    assert elsewhere[1] != after[1]


@pytest.mark.parametrize("operands", ["chaotic", "constant"])
@pytest.mark.parametrize(
    ("precision", "sm"),
    [*((one, None) for one in ("fp16", "bf16", "tf32", "fp8", "int8")), ("fp16", 72), ("int8", 72)],
)
def test_tensor_cores_equal_the_reference(
    precision: str, sm: int | None, operands: Operands
) -> None:
    kernel = find_kernel("mma", "cupy")
    case = gpu_case("mma", precision, 0, operands=operands)
    # Two warps, two sums of 128 products, two repetitions: not all at once, which takes CPUs long.
    n_warps, rounds, repetitions = (2, 128, 1) if operands == "chaotic" else (1, 128, 1)
    if precision == "int8":
        n_warps, rounds, repetitions = 1, 256, 2
    launch = replace(
        kernel.launch(case, SHAPE),
        grid=1,
        block=32 * n_warps,
        fma_per_element=rounds,
        array_bytes=(n_warps * 2048, n_warps * 4096),
    )
    entries = TENSOR_ENTRIES if sm is None else VOLTA_ENTRIES
    library = compile_for_cpu("tensor.cu", entries, "RUN_WARPS", sm)
    before, after, _ = run_on_cpu(library, kernel, case, launch, (repetitions,))
    expected = kernel.reference(case, launch, before, repetitions)
    expect_equal(after[:1], expected[:1])
    largest = np.abs(expected[1]).max()
    assert largest > 0
    if precision == "int8" or operands == "constant":
        expect_equal(after, expected)
    # Sums of 128 · K terms in float32: far below what tensor cores are granted.
    np.testing.assert_allclose(after[1], expected[1], rtol=0, atol=2e-5 * largest)
    if operands == "chaotic":
        assert len(np.unique(after[1])) > 0.7 * after[1].size


@pytest.mark.parametrize("operands", ["chaotic", "constant"])
@pytest.mark.parametrize("precision", ["fp16", "bf16", "tf32", "fp8", "int8"])
def test_products_of_a_warpgroup_equal_the_reference(precision: str, operands: Operands) -> None:
    kernel = find_kernel("wgmma", "cupy")
    case = gpu_case("wgmma", precision, 0, operands=operands)
    # Two blocks of int8, two sums and two repetitions; else one of each, for 256 threads take long.
    n_blocks, rounds, repetitions = (2, 256, 2) if precision == "int8" else (1, 128, 1)
    launch = replace(
        kernel.launch(case, SHAPE),
        grid=n_blocks,
        fma_per_element=rounds,
        array_bytes=(n_blocks * 12 * 1024, n_blocks * 128 * 1024),
    )
    entries = tuple(f"wgmma_{one}" for one in kernel.precisions)
    library = compile_for_cpu("wgmma.cu", entries, "RUN_BLOCKS")
    before, after, clock = run_on_cpu(library, kernel, case, launch, (repetitions,))
    expected = kernel.reference(case, launch, before, repetitions)
    expect_equal(after[:1], expected[:1])
    if precision == "int8" or operands == "constant":
        expect_equal(after, expected)
    largest = np.abs(expected[1]).max()
    np.testing.assert_allclose(after[1], expected[1], rtol=0, atol=2e-5 * largest)
    if operands == "chaotic":
        assert len(np.unique(after[1])) > 0.5 * after[1].size
    assert (clock > 0).all()


def test_the_clock_counts_from_the_first_repetition_to_the_last() -> None:
    kernel = find_kernel("stalled", "cupy")
    case = gpu_case("stalled", "fp32", 0)
    launch = replace(kernel.launch(case, SHAPE), block=1)
    library = compile_for_cpu("stalled.cu", ("stalled",))
    _, _, clock = run_on_cpu(library, kernel, case, launch, (7,))
    # The stand-in's time goes on 1 µs with every look; a repetition waits for 100 µs.
    assert 7 * 100_000 <= clock[1] <= 7 * 102_000
    assert clock[0] == pytest.approx(2 * clock[1], rel=0.01)
