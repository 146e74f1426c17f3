"""Kernels that Numba compiles for the GPU, launched on the stream that CuPy's work goes through."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mansard.core.errors import MeasurementError, UsageError
from mansard.core.text import printable
from mansard.microbench.cuda.kernel import CudaCase, CudaKernel, Launch
from mansard.microbench.cuda.runtime import CLOCK_WORDS, WORD_BYTES, Start

if TYPE_CHECKING:
    from mansard.microbench.cuda.cupy_runtime import CudaMemory

_WORD = np.dtype(np.uint64)


def load_numba(
    kernel: CudaKernel,
    case: CudaCase,
    launch: Launch,
    arrays: Sequence[CudaMemory],
    clock: CudaMemory,
    stream: int,
) -> Start:
    """The kernel's function, compiled at its first call, and how one sample is enqueued.

    Numba and CuPy both use the device's primary context, so memory and stream are shared.
    """
    from numba import cuda

    if kernel.build is None:
        raise UsageError(f"kernel {kernel.name!r} has no function for Numba")
    types = [pattern.dtype for pattern in kernel.pattern(case, launch)]
    views = [
        _view(array.address, array.n_bytes // dtype.itemsize, dtype)
        for array, dtype in zip(arrays, types, strict=True)
    ]
    # A kernel takes three arrays; what is missing is never touched.
    views += [views[0]] * (3 - len(views))
    numba_stream = cuda.external_stream(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the grid's size: it is ours
        function = kernel.build(case)[launch.grid, launch.block, numba_stream, launch.shared_bytes]

    @cache
    def words(slot: int) -> Any:
        return _view(clock.address + slot * CLOCK_WORDS * WORD_BYTES, CLOCK_WORDS, _WORD)

    def start(repetitions: int, slot: int) -> None:
        try:
            function(*views, launch.n_elements, launch.fma_per_element, repetitions, words(slot))
        except Exception as error:  # Numba's compiler raises errors of a dozen kinds
            raise MeasurementError(
                f"Numba cannot compile or launch {printable(kernel.name)}: "
                f"{printable(' '.join(str(error).split()), 600)}",
                fix="is numba-cuda installed for the driver's CUDA? 'mansard doctor' says",
            ) from error

    return start


def _view(address: int, n_elements: int, dtype: np.dtype[Any]) -> Any:
    """Device memory as an array of Numba's; contiguous, so that its loads are wide."""
    from numba import cuda

    interface = {
        "shape": (n_elements,),
        "strides": None,
        "typestr": dtype.str,
        "data": (address, False),
        "version": 3,
    }
    return cuda.from_cuda_array_interface(interface, owner=None, sync=False)
