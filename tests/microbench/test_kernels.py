"""Every kernel computes what its NumPy reference says, and nothing beyond its arrays."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mansard.microbench.cpu.emit import host_unit
from mansard.microbench.cpu.launching import allocate, fill
from mansard.microbench.kernel import (
    FMA_PER_ELEMENT,
    HOST,
    Array,
    Case,
    Kernel,
    cpu_kernels,
    find_kernel,
)

# 1: one element; 37: less than a block; 192, 384: whole blocks of 12 vectors of 64 bytes;
# 1,001: blocks, vectors and single elements.
SIZES = (1, 37, 192, 384, 1001)
CANARY = 0xA5
GRANULE_BYTES = 1024  # of the streams; of chains it is smaller

Compiled = Callable[..., None]


def compiled(kernel: Kernel, case: Case) -> Compiled:
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)
    function: Compiled = prototype(kernel.build(case))
    return function


def guarded(case: Case, n_elements: int) -> tuple[Array, Array]:
    """A region of canaries, and an aligned array in the middle of it."""
    n_bytes = n_elements * case.element_bytes
    raw = np.full(n_bytes + 4 * 64, CANARY, dtype=np.uint8)
    start = 64 + -(raw.ctypes.data + 64) % 64
    return raw, raw[start : start + n_bytes].view(case.dtype)


def run_guarded(
    kernel: Kernel, case: Case, n_elements: int, repetitions: int
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Results and references; fails where a byte outside of the arrays has changed."""
    regions = [guarded(case, n_elements) for _ in range(kernel.n_arrays)]
    arrays = tuple(array for _, array in regions)
    fill(kernel, case, arrays)
    before = tuple(array.copy() for array in arrays)
    result = np.zeros(256, dtype=np.uint8)
    line = result[-result.ctypes.data % 64 :]
    addresses = [array.ctypes.data for array in arrays] + [line.ctypes.data] * 3
    compiled(kernel, case)(*addresses[:3], n_elements, case.fma_per_element or 0, repetitions)
    for raw, array in regions:
        assert (raw != CANARY).sum() <= array.nbytes
        array_start = array.ctypes.data - raw.ctypes.data
        assert (raw[:array_start] == CANARY).all()
        assert (raw[array_start + array.nbytes :] == CANARY).all()
    expected = kernel.reference(case, kernel.launch(case, HOST), before, repetitions)
    found = arrays
    if len(expected) > len(arrays):  # a kernel that leaves one number instead of an array
        found = (*arrays, line.view(expected[-1].dtype)[:1])
    return found, expected


def streams() -> list[Any]:
    cases = []
    for kernel in cpu_kernels():
        for precision in kernel.precisions:
            for stores in ("plain", "nontemporal") if kernel.has_stores else (None,):
                if kernel.family == "stream":
                    for case in kernel.variants(Case(kernel.name, precision, 0, None, stores)):
                        name = f"{kernel.name}-{precision}-{stores}-{case.vector_bytes}"
                        cases.append(pytest.param(case, id=name))
    return cases


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86's string move")
def test_a_plain_copy_races_the_string_move() -> None:
    # Loads and stores reach 0.82 of it in L3: the copy's bandwidth there was too low by as much.
    widths = {c.vector_bytes for c in find_kernel("copy").variants(Case("copy", "fp32", 0))}
    assert widths == {*host_unit().stream_widths, 1}


@pytest.mark.parametrize("n_elements", SIZES)
@pytest.mark.parametrize("case", streams())
def test_streams_equal_the_reference_bit_by_bit(case: Case, n_elements: int) -> None:
    found, expected = run_guarded(find_kernel(case.kernel), case, n_elements, repetitions=3)
    assert len(found) == len(expected)
    for mine, wanted in zip(found, expected, strict=True):
        assert mine.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("n_elements", SIZES)
@pytest.mark.parametrize("n_fma", [1, 7, 8, 19])
@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_chains_round_once_a_step(precision: str, n_fma: int, n_elements: int) -> None:
    case = Case("fma", precision, 0, n_fma)
    found, expected = run_guarded(find_kernel("fma"), case, n_elements, repetitions=2)
    assert found[0].tobytes() == expected[0].tobytes()


def test_rounding_twice_would_be_seen() -> None:
    # The reference must tell a fused from an unfused step, or the test above proves little.
    kernel, case = find_kernel("fma"), Case("fma", "fp64", 0, 4)
    _, array = guarded(case, 1001)
    fill(kernel, case, (array,))
    unfused = array.copy()
    for _ in range(4):
        unfused = unfused * unfused - 1.99
    (fused,) = kernel.reference(case, kernel.launch(case, HOST), (array,), 1)
    assert (fused != unfused).sum() > 100


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_operands_stay_chaotic(precision: str) -> None:
    """A million steps: values neither vanish nor explode nor freeze."""
    kernel, case = find_kernel("fma"), Case("fma", precision, 0, 1000)
    _, z = guarded(case, 960)
    fill(kernel, case, (z,))
    run = compiled(kernel, case)
    run(z.ctypes.data, 0, 0, z.size, 1000, 1000)
    after = z.copy()
    run(z.ctypes.data, 0, 0, z.size, 1, 1)
    # The map keeps [c, c² + c] = [-1.99, 1.9701] to itself; the density of the chaotic map
    # is near 1/(π·sqrt(4 - z²)), whose standard deviation is sqrt(2) = 1.414.
    assert after.min() >= -1.9901
    assert after.max() <= 1.9702
    assert 1.2 < after.astype(np.float64).std() < 1.6
    assert (np.abs(after) > 1e-6).mean() > 0.99
    assert (after != z).mean() > 0.99  # not frozen
    assert np.unique(after).size > 100  # not all on one short cycle


def test_repetitions_of_a_chain_are_not_merged() -> None:
    found, _ = run_guarded(find_kernel("fma"), Case("fma", "fp32", 0, 1), 384, repetitions=64)
    once, _ = run_guarded(find_kernel("fma"), Case("fma", "fp32", 0, 64), 384, repetitions=1)
    assert found[0].tobytes() == once[0].tobytes()


@pytest.mark.parametrize("stores", ["plain", "nontemporal"])
@pytest.mark.parametrize("name", ["scale", "triad"])
def test_repetitions_of_a_stream_are_not_merged(name: str, stores: Any) -> None:
    """Run in place, so that each sweep changes what the next one finds."""
    case = Case(name, "fp64", 0, None, stores)
    (_, a), (_, b) = guarded(case, 384), guarded(case, 384)
    a[:], b[:] = 1024.0, 2.0
    if name == "scale":
        compiled(find_kernel(name), case)(a.ctypes.data, a.ctypes.data, 0, 384, 0, 20)
        assert (a == 2.0**-10).all()  # 2¹⁰ halved 20 times
    else:
        compiled(find_kernel(name), case)(a.ctypes.data, b.ctypes.data, a.ctypes.data, 384, 0, 20)
        assert (a == 1044.0).all()  # 1024 + 20 × 0.5 × 2


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
@pytest.mark.parametrize("kernel", cpu_kernels(), ids=lambda kernel: kernel.name)
def test_operands_are_aligned_disjoint_and_whole(kernel: Kernel, precision: str) -> None:
    n_fma = 4 if kernel.family == "fma" else None
    stores: Any = "plain" if kernel.has_stores else None
    case = Case(kernel.name, precision, 100_000, n_fma, stores)
    operands = allocate(kernel, case)
    assert len(operands.arrays) == kernel.n_arrays
    addresses = [array.ctypes.data for array in operands.arrays]
    assert all(address % 64 == 0 for address in [*addresses, operands.result.ctypes.data])
    assert list(operands.words[: kernel.n_arrays]) == addresses
    assert operands.words[3] == kernel.launch(case, HOST).n_elements == operands.arrays[0].size
    for array, following in zip(operands.arrays, addresses[1:], strict=False):
        assert array.ctypes.data + array.nbytes <= following
    # Whole granules: within one granule an array of what was asked for, never above.
    n_bytes = sum(array.nbytes for array in operands.arrays)
    assert 100_000 - kernel.n_arrays * (GRANULE_BYTES + 8) < n_bytes <= 100_000


def test_grid_is_that_of_ert() -> None:
    assert FMA_PER_ELEMENT == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
