"""Arrays of a CPU's kernels: sized, placed and filled; and a check of every kernel on them."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mansard.core.errors import MeasurementError
from mansard.core.records import Scope
from mansard.microbench.cpu.emit import LINE_BYTES, N_LOOPS, host_unit
from mansard.microbench.kernel import HOST, Array, Case, Kernel, Launch, cpu_kernels

SCOPES: tuple[Scope, ...] = ("core",)  # all that a CPU's kernels have
ALIGNMENT_BYTES = 64  # a cache line of every CPU we know; an offset of 8 costs up to 30 %
_RAMP_ELEMENTS = 65_536
RESULT_BYTES = N_LOOPS * LINE_BYTES
_HUGE_PAGE_BYTES = 2 * 1024**2  # of x86-64 and of AArch64 with 4 KiB pages


def count_elements(case: Case, n_arrays: int, granule_bytes: int) -> Launch:
    """The working set divided evenly, in whole granules: no time goes into what blocks leave over.

    Arrays shorter than a granule keep all their elements.
    """
    n_bytes = case.working_set_bytes // n_arrays
    if n_bytes >= granule_bytes:
        n_bytes -= n_bytes % granule_bytes
    n_elements = max(1, n_bytes // case.element_bytes)
    return Launch(
        grid=1,
        block=1,
        n_elements=n_elements,
        fma_per_element=case.fma_per_element or 0,
        array_bytes=(n_elements * case.element_bytes,) * n_arrays,
    )


def ramp(case: Case, launch: Launch, low: float, high: float) -> Array:
    """Rising values from ``low`` to ``high``, to be repeated if the array is long."""
    return np.linspace(low, high, min(launch.n_elements, _RAMP_ELEMENTS), dtype=case.dtype)


def fill(kernel: Kernel, case: Case, arrays: tuple[Array, ...]) -> None:
    """Fill each array with the kernel's pattern for it, over and over."""
    launch = Launch(grid=1, block=1, n_elements=arrays[0].size)
    for array, pattern in zip(arrays, kernel.pattern(case, launch), strict=True):
        for start in range(0, array.size, pattern.size):
            piece = array[start : start + pattern.size]
            piece[:] = pattern[: piece.size]


@dataclass(frozen=True)
class Operands:
    """Arrays of one thread, and the five words a kernel is called with."""

    arrays: tuple[Array, ...]
    result: Array  # bytes: where a kernel without an output array leaves its result
    words: npt.NDArray[np.int64]  # three addresses, n_elements, fma_per_element


def allocate(kernel: Kernel, case: Case) -> Operands:
    """Map and fill the arrays of one thread; call it on the thread that will use them.

    Memory is placed where it is first touched, so the filling decides which memory
    bank holds it. Large pages are asked for: with them, a working set that fits into a
    cache by size fits by address too, and long sweeps do not wait for page tables.
    Raises MeasurementError where there is not enough memory.
    """
    kernel.check(case)
    launch = kernel.launch(case, HOST)
    n_elements, n_bytes = launch.n_elements, launch.array_bytes[0]
    stride = -(-n_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    memory = _map(stride * kernel.n_arrays + RESULT_BYTES)
    arrays = tuple(
        memory[k * stride : k * stride + n_bytes].view(case.dtype) for k in range(kernel.n_arrays)
    )
    fill(kernel, case, arrays)
    end = stride * kernel.n_arrays
    result = memory[end : end + RESULT_BYTES]
    addresses = [array.ctypes.data for array in arrays]
    addresses += [result.ctypes.data] * (3 - len(arrays))
    words = np.array([*addresses, n_elements, case.fma_per_element or 0], dtype=np.int64)
    return Operands(arrays=arrays, result=result, words=words)


def _map(n_bytes: int) -> Array:
    """Private memory that starts on a boundary of large pages."""
    try:
        region = mmap.mmap(-1, n_bytes + _HUGE_PAGE_BYTES)
    except (OSError, ValueError) as error:
        raise MeasurementError(
            f"cannot map {n_bytes} bytes: {error}",
            fix="close other programs, or measure with fewer threads",
        ) from error
    with contextlib.suppress(OSError, AttributeError):  # a kernel without: small pages do
        region.madvise(mmap.MADV_HUGEPAGE)
    raw = np.frombuffer(region, dtype=np.uint8)
    skipped = -raw.ctypes.data % _HUGE_PAGE_BYTES
    return raw[skipped : skipped + n_bytes]


_WORKING_SET_BYTES = 12_000  # not a multiple of a vector, so that remainder loops run too
_CHAIN = 5


def check_kernels() -> str:
    """Run every kernel in every precision once; says on which vector unit.

    Raises MeasurementError naming the first kernel whose result is wrong.
    """
    n_checked = 0
    for kernel in cpu_kernels():
        for precision in kernel.precisions:
            _check(kernel, precision)
            n_checked += 1
    unit = host_unit()
    return f"{n_checked} kernels on {unit.name} ({unit.n_bytes * 8} bits) equal their references"


def _check(kernel: Kernel, precision: str) -> None:
    case = Case(
        kernel=kernel.name,
        precision=precision,
        working_set_bytes=_WORKING_SET_BYTES,
        fma_per_element=_CHAIN if kernel.family == "fma" else None,
        stores="plain" if kernel.has_stores else None,
    )
    operands = allocate(kernel, case)
    before = tuple(array.copy() for array in operands.arrays)
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)
    signature(kernel.build(case))(*(int(word) for word in operands.words), 1)
    expected = kernel.reference(case, kernel.launch(case, HOST), before, 1)
    # The reference rounds after each product and sum, a fused multiply-add once.
    tolerance = 2 ** (-16 if precision == "fp32" else -40)
    for index, wanted in enumerate(expected):
        # Kernels that store no array have their result after the arrays.
        computed = operands.arrays[index] if index < kernel.n_arrays else operands.result
        equal = np.allclose(
            computed.view(wanted.dtype)[: wanted.size], wanted, rtol=tolerance, atol=tolerance
        )
        if not equal:
            raise MeasurementError(
                f"kernel {kernel.name} in {precision} computes wrong values here",
                fix="report this with the output of 'mansard doctor --json'",
            )
