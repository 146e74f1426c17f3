"""Kernels that Numba compiles for the GPU, launched on the stream that CuPy's work goes through."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.text import printable
from mansard.microbench.cuda.kernel import CudaCase, CudaKernel, Launch
from mansard.microbench.cuda.runtime import CLOCK_WORDS, Start
from mansard.microbench.cuda.stamps import Stamps

if TYPE_CHECKING:
    from mansard.microbench.cuda.cupy_runtime import CudaMemory, CupyRuntime

_WORD = np.dtype(np.uint64)
_LONGEST_ERROR = 600


def load_numba(
    runtime: CupyRuntime,
    kernel: CudaKernel,
    case: CudaCase,
    launch: Launch,
    arrays: Sequence[CudaMemory],
    clock: CudaMemory,
) -> Start:
    """The kernel's function, compiled now, and how one sample is enqueued between two stamps.

    Numba and CuPy both use the device's primary context, so memory and stream are shared.
    """
    if kernel.build is None:
        raise UsageError(f"kernel {kernel.name!r} has no function for Numba")
    types = [pattern.dtype for pattern in kernel.pattern(case, launch)]
    with _named(f"compiling {kernel.name}"):
        from numba import cuda

        views = [
            _view(array.address, array.n_bytes // dtype.itemsize, dtype)
            for array, dtype in zip(arrays, types, strict=True)
        ]
        # A kernel takes three arrays; what is missing is never touched.
        views += [views[0]] * (3 - len(views))
        words = _view(clock.address, CLOCK_WORDS, _WORD)
        stream = cuda.external_stream(runtime.stream.ptr)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the grid's size: it is ours
            function = kernel.build(case)[launch.grid, launch.block, stream, launch.shared_bytes]
    stamps = Stamps(runtime, clock)

    def start(repetitions: int, slot: int) -> None:
        with _named(f"launching {kernel.name}"), runtime.stream:
            stamps.before()
            function(*views, launch.n_elements, launch.fma_per_element, repetitions, words)
            stamps.after(slot)

    return start


@contextmanager
def _named(doing: str) -> Iterator[None]:
    """Errors of Numba, its compiler and the driver, which are of a dozen kinds, in our words."""
    try:
        yield
    except MansardError:
        raise
    except Exception as error:
        words = printable(" ".join(str(error).split()) or type(error).__name__, _LONGEST_ERROR)
        raise MeasurementError(
            f"Numba, {printable(doing)}: {words}",
            fix="is numba-cuda installed for the driver's CUDA? 'mansard doctor' says",
        ) from error


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
