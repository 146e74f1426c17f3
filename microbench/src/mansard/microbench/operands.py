"""The arrays a kernel works on: aligned, on large pages, filled with sensible values."""

from __future__ import annotations

import contextlib
import mmap
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mansard.core.errors import MeasurementError
from mansard.microbench.kernels.case import ALIGNMENT_BYTES, Array, Case, Kernel
from mansard.microbench.kernels.sweeps import LINE_BYTES, N_LOOPS

RESULT_BYTES = N_LOOPS * LINE_BYTES
_HUGE_PAGE_BYTES = 2 * 1024**2  # of x86-64 and of AArch64 with 4 KiB pages


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
    n_elements = kernel.n_elements(case)
    n_bytes = n_elements * case.element_bytes
    stride = -(-n_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    memory = _map(stride * kernel.n_arrays + RESULT_BYTES)
    arrays = tuple(
        memory[k * stride : k * stride + n_bytes].view(case.dtype) for k in range(kernel.n_arrays)
    )
    kernel.fill(case, arrays)
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
