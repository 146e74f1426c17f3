"""The runtime through CuPy, with CuPy's interface over the host's memory."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest

from mansard.core.errors import MeasurementError, UsageError
from mansard.microbench.cuda.cupy_runtime import CupyRuntime
from mansard.microbench.cuda.software_gpu import GPU, MIB, launch_of
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.cuda.timing import CLOCK_BYTES
from mansard.microbench.kernel import Case, find_kernel, gpu_case
from tests.microbench.gpu_fake_cupy import Fake, FakeCudaError, as_array

KIB = 1024
FMA = find_kernel("fma", "cupy")
GEMM = find_kernel("gemm", "cublas")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake()
    for name, module in fake.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return fake


@pytest.mark.parametrize("n_bytes", [1, 15, 16, 4095, 4096, 100_003])
@pytest.mark.parametrize("n_pattern", [1, 7, 4096])
def test_a_pattern_is_repeated_to_the_last_byte(fake: Fake, n_bytes: int, n_pattern: int) -> None:
    runtime = CupyRuntime()
    pattern = np.arange(n_pattern, dtype=np.uint8)
    buffer = runtime.allocate(n_bytes, "device")
    runtime.fill(buffer, pattern)
    np.testing.assert_array_equal(runtime.read(buffer, n_bytes), np.resize(pattern, n_bytes))


def test_one_value_is_set_without_a_copy(fake: Fake) -> None:
    runtime = CupyRuntime()
    buffer = runtime.allocate(1000, "device")
    runtime.fill(buffer, np.full(3, 0x0505, dtype=np.uint16))
    np.testing.assert_array_equal(runtime.read(buffer, 1000), np.full(1000, 5, dtype=np.uint8))


def test_memory_that_is_not_there_is_a_memory_error(fake: Fake) -> None:
    runtime = CupyRuntime()
    with pytest.raises(MemoryError, match="out of memory"):
        runtime.allocate(fake.total_bytes + 1, "device")
    assert runtime.memory_info().total_bytes == fake.total_bytes


def test_zero_copy_memory_is_mapped_and_page_locked(fake: Fake) -> None:
    CupyRuntime().allocate(4096, "zero-copy")
    assert fake.flags == [2 | 1]  # cudaHostAllocMapped, cudaHostAllocPortable


def test_a_launch_passes_what_the_kernel_takes(fake: Fake) -> None:
    case = gpu_case("fma", "fp32", 1024 * KIB, fma_per_element=256)
    with CudaSource(FMA, case, GPU, CupyRuntime()) as source:
        source.take(2, 50)
        launch = source.launch
    assert fake.settings == {}  # scope gpu, no shared memory: nothing to set
    (_, _, _, first, _), (name, grid, block, second, shared) = fake.launches[-2:]
    assert (name, grid, block, shared) == (
        "fma_fp32_gpu_chaotic",
        (launch.grid,),
        (launch.block,),
        0,
    )
    a, b, c, n_elements, chain, repetitions, clock = second
    assert (b, c) == (0, 0)
    assert isinstance(n_elements, np.int64)
    assert isinstance(chain, np.int32)
    assert isinstance(repetitions, np.int32)
    assert [int(n_elements), int(chain), int(repetitions)] == [launch.n_elements, 256, 50]
    assert isinstance(a, int)
    assert clock - first[-1] == 16  # a sample's two words of eight bytes
    assert CLOCK_BYTES == 512 * 16


def test_slices_of_sms_get_all_of_l1(fake: Fake) -> None:
    case = gpu_case("read", "fp32", 1536 * KIB, scope="sm")
    with CudaSource(find_kernel("read", "cupy"), case, GPU, CupyRuntime()):
        assert fake.settings == {"preferred_shared_memory_carveout": 0}


def test_launches_go_one_by_one_through_the_driver(fake: Fake) -> None:
    with CudaSource(
        find_kernel("launch", "cupy"), gpu_case("launch", "fp32", 0), GPU, CupyRuntime()
    ) as source:
        fake.started.clear()
        source.take(2, 50)
    assert fake.started == [("launch", 1)] * 100
    assert [name for name, *_ in fake.launches[-2:]] == ["stamp_before", "stamp_after"]


def test_a_graph_has_so_many_nodes_and_is_captured_once(fake: Fake) -> None:
    with CudaSource(
        find_kernel("graph", "cupy"), gpu_case("graph", "fp32", 0), GPU, CupyRuntime()
    ) as source:
        fake.started.clear()
        source.take(2, 50)
        fake.n_captured = -1
        source.take(1, 50)
        assert fake.n_captured == -1
        # 10 000 = 2 · 4096 + 1808
        source.take(1, 10_000)
    assert fake.started == [("graph", 50)] * 3 + [("graph", n) for n in (4096, 4096, 1808)]


def test_marks_become_seconds(fake: Fake) -> None:
    runtime = CupyRuntime()
    first, second = runtime.record(spin=True), runtime.record()
    runtime.synchronize(second)
    assert runtime.elapsed_s(first, second) == pytest.approx(1e-3)


@pytest.mark.parametrize("precision", ["fp32", "fp64", "fp16", "int8"])
def test_products_are_those_of_the_reference(fake: Fake, precision: str) -> None:
    case = gpu_case("gemm", precision, 3 * 8 * 256**2)
    launch = launch_of(GEMM, case)
    with CudaSource(GEMM, case, GPU, CupyRuntime()) as source:
        source.take(1, 3)
        _, _, wanted = GEMM.reference(case, launch, source.initial(), 1)
        found = source.read()[2]
    tolerance = GEMM.tolerance.get(precision, 0.0)
    error = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()
    assert error <= tolerance * np.abs(wanted.astype(np.float64)).max()
    # The first launch loads the library; then three products between two stamps.
    assert len(fake.products) == 1 + 3
    assert [name for name, *_ in fake.launches[-2:]] == ["stamp_before", "stamp_after"]
    compute = {"fp32": 68, "fp64": 70, "fp16": 68, "int8": 72}[precision]
    side = fake.products[-1][1]
    assert fake.products[-1] == (7, side, side, side, compute, -1)


def test_cublas_has_no_fp8_here(fake: Fake) -> None:
    from mansard.microbench.cuda.cupy_runtime import gemm_types

    with pytest.raises(UsageError, match="multiplies no fp8"):
        gemm_types("fp8")


def test_what_the_compiler_refuses_is_told_in_its_words(fake: Fake) -> None:
    broken = replace(FMA, source="this does not compile")
    case = gpu_case("fma", "fp32", 1024 * KIB, fma_per_element=1)
    with pytest.raises(MeasurementError, match=r"kern\.cu\(3\): error: identifier is undefined"):
        CudaSource(broken, case, GPU, CupyRuntime()).__enter__()


def test_an_error_of_cuda_says_what_was_done(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = CupyRuntime()
    event = runtime.record()

    def refuse() -> None:
        raise FakeCudaError("cudaErrorIllegalAddress: an illegal memory access", 700)

    event.synchronize = refuse
    with pytest.raises(MeasurementError, match="waiting for the GPU failed: cudaErrorIllegal"):
        runtime.synchronize(event)


class Dispatcher:
    """A function as Numba compiles it: configured by square brackets, then called."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []

    def __getitem__(self, configuration: Any) -> Any:
        return lambda *arguments: self.calls.append((configuration, arguments))


@pytest.fixture
def numba_on_host(monkeypatch: pytest.MonkeyPatch, fake: Fake) -> Dispatcher:
    """Numba's arrays over the host's memory, by address."""

    def view(interface: dict[str, Any], owner: object, sync: bool) -> Any:
        address, _ = interface["data"]
        return as_array(address, np.dtype(interface["typestr"]), interface["shape"][0])

    names = SimpleNamespace(
        from_cuda_array_interface=view, external_stream=lambda pointer: ("stream", pointer)
    )
    monkeypatch.setattr(numba, "cuda", names, raising=False)
    return Dispatcher()


def test_numbas_kernels_get_arrays_and_the_stream_of_cupy(
    fake: Fake, numba_on_host: Dispatcher
) -> None:
    kernel = replace(find_kernel("read", "numba-cuda"), build=lambda _case: numba_on_host)
    case = gpu_case("read", "fp32", 1024 * KIB)
    with CudaSource(kernel, case, GPU, CupyRuntime()) as source:
        source.take(1, 9)
        launch, (words, sums) = source.launch, source.initial()
        configuration, (a, b, c, n_elements, chain, repetitions, clock) = numba_on_host.calls[-1]
        np.testing.assert_array_equal(a, words)
    assert configuration == (launch.grid, launch.block, ("stream", 0), 0)
    assert (a.dtype, b.size, b.dtype) == (words.dtype, sums.size, sums.dtype)
    assert c is a  # a third array that is never touched
    assert (n_elements, chain, repetitions) == (launch.n_elements, 0, 9)
    assert (clock.size, clock.dtype) == (2, np.uint64)
    assert [name for name, *_ in fake.launches[-2:]] == ["stamp_before", "stamp_after"]


def test_what_numba_refuses_is_told_in_its_words(fake: Fake, numba_on_host: Dispatcher) -> None:
    def refuse(_case: Case) -> Any:
        raise RuntimeError("libNVVM cannot be found")

    kernel = replace(find_kernel("read", "numba-cuda"), build=refuse)
    with pytest.raises(MeasurementError, match="Numba, compiling read: libNVVM cannot be found"):
        CudaSource(kernel, gpu_case("read", "fp32", MIB), GPU, CupyRuntime()).__enter__()
    without = replace(find_kernel("read", "cupy"), backend="numba-cuda")
    with pytest.raises(UsageError, match="no function that Numba compiles"):
        CudaSource(without, gpu_case("read", "fp32", MIB), GPU, CupyRuntime()).__enter__()
