"""How a kernel of each backend is loaded on the GPU, and how one sample of it is enqueued.

CUDA C++ is compiled by NVRTC through CuPy's RawModule, then launched by address. Numba compiles
its functions itself; it and CuPy both use the device's primary context, so memory and stream are
shared. Matrix products are cuBLAS's, through CuPy's own binding: C = Aᵀ·B of square matrices, in
cuBLAS's order of columns first: the rows of what is called A and the rows of what is called B
here are multiplied with each other, which is the form that every precision has, int8 included
(cuBLAS, cublasGemmEx: for int8 the leading dimensions are multiples of 4, and tensor cores want A
transposed).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.text import printable
from mansard.microbench.cuda.cupy_device import (
    CudaMemory,
    CupyDevice,
    Stamps,
    compile_function,
    cuda_error,
)
from mansard.microbench.cuda.runtime import CLOCK_WORDS, WORD_BYTES, Start
from mansard.microbench.kernel import Case, Kernel, Launch

_STATIC_SHARED_BYTES = 48 * 1024  # more must be asked for (CUDA C++ Programming Guide)


class CupyRuntime(CupyDevice):
    """The first visible GPU, and what runs kernels of every backend on it."""

    def load(
        self,
        kernel: Kernel,
        case: Case,
        launch: Launch,
        arrays: Sequence[CudaMemory],
        clock: CudaMemory,
    ) -> Start:
        """Compile what runs the case; raises MeasurementError, UsageError."""
        if kernel.backend == "numba-cuda":
            return _load_numba(self, kernel, case, launch, arrays, clock)
        if kernel.backend == "cublas":
            return _load_gemm(self, case, launch, arrays, clock)
        return _load_raw(self, kernel, case, launch, arrays, clock)


def _load_raw(
    runtime: CupyDevice,
    kernel: Kernel,
    case: Case,
    launch: Launch,
    arrays: Sequence[CudaMemory],
    clock: CudaMemory,
) -> Start:
    """The kernel's function, compiled now, and how one sample of it is enqueued."""
    function = compile_function(kernel.source, kernel.entry(case))
    try:
        if launch.shared_bytes > _STATIC_SHARED_BYTES:
            function.max_dynamic_shared_size_bytes = launch.shared_bytes
        if case.scope == "sm" and runtime.sm >= 70 and not launch.shared_bytes:
            function.preferred_shared_memory_carveout = 0  # all of the SM's memory is L1
    except RuntimeError as error:
        raise cuda_error(f"setting up {printable(kernel.name)}", error) from error
    addresses = [array.address for array in arrays]
    # A plain int is passed as 64 bits, a NumPy scalar as what it is.
    operands = (
        *(addresses + [0] * (3 - len(addresses))),
        np.int64(launch.n_elements),
        np.int32(launch.fma_per_element),
    )
    grid, block = (launch.grid,), (launch.block,)

    def start(repetitions: int, slot: int) -> None:
        words = clock.address + slot * CLOCK_WORDS * WORD_BYTES
        arguments = (*operands, np.int32(repetitions), words)
        try:
            with runtime.stream:
                function(grid, block, arguments, shared_mem=launch.shared_bytes)
        except RuntimeError as error:
            raise cuda_error(f"launching {printable(kernel.name)}", error) from error

    return start


@dataclass(frozen=True)
class GemmTypes:
    """cuBLAS's numbers for the types of one precision (library_types.h, cublas_api.h)."""

    operand: int  # cudaDataType of A and B
    result: int  # of C
    compute: int  # cublasComputeType_t: what is accumulated in
    scalar: type[Any]  # of alpha and beta


_R_32F, _R_64F, _R_16F, _R_8I, _R_32I, _R_16BF = 0, 1, 2, 3, 10, 14
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_32I, _COMPUTE_TF32 = 68, 70, 72, 77
_DEFAULT_ALGORITHM = -1
_TRANSPOSED, _AS_IS = 1, 0

TYPES = MappingProxyType(
    {
        "fp64": GemmTypes(_R_64F, _R_64F, _COMPUTE_64F, np.float64),
        "fp32": GemmTypes(_R_32F, _R_32F, _COMPUTE_32F, np.float32),
        "tf32": GemmTypes(_R_32F, _R_32F, _COMPUTE_TF32, np.float32),
        "fp16": GemmTypes(_R_16F, _R_16F, _COMPUTE_32F, np.float32),
        "bf16": GemmTypes(_R_16BF, _R_16BF, _COMPUTE_32F, np.float32),
        "int8": GemmTypes(_R_8I, _R_32I, _COMPUTE_32I, np.int32),
    }
)


def _load_gemm(
    runtime: CupyDevice,
    case: Case,
    launch: Launch,
    arrays: Sequence[CudaMemory],
    clock: CudaMemory,
) -> Start:
    """How one sample is enqueued: a stamp, so many products, a stamp."""
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    types = gemm_types(case.precision)
    n = isqrt(launch.n_elements)
    a, b, c = (array.address for array in arrays)
    one, zero = np.ones(1, dtype=types.scalar), np.zeros(1, dtype=types.scalar)
    stamps = Stamps(runtime, clock)

    def start(repetitions: int, slot: int) -> None:
        handle = device.get_cublas_handle()
        try:
            with runtime.stream:  # CuPy hands its current stream on to cuBLAS
                stamps.before()
                for _ in range(repetitions):
                    cublas.gemmEx(
                        handle, _TRANSPOSED, _AS_IS, n, n, n,
                        one.ctypes.data, a, types.operand, n, b, types.operand, n,
                        zero.ctypes.data, c, types.result, n,
                        types.compute, _DEFAULT_ALGORITHM,
                    )  # fmt: skip
                stamps.after(slot)
        except RuntimeError as error:
            raise cuda_error(f"cuBLAS in {case.precision}", error) from error

    return start


def gemm_types(precision: str) -> GemmTypes:
    """The types of a product; raises UsageError for a precision that cuBLAS has none of."""
    types = TYPES.get(precision)
    if types is None:
        raise UsageError(
            f"cuBLAS multiplies no {precision} here", fix=f"it does {', '.join(TYPES)}"
        )
    return types


_WORD = np.dtype(np.uint64)
_LONGEST_ERROR = 600


def _load_numba(
    runtime: CupyDevice,
    kernel: Kernel,
    case: Case,
    launch: Launch,
    arrays: Sequence[CudaMemory],
    clock: CudaMemory,
) -> Start:
    """The kernel's function, compiled now, and how one sample is enqueued between two stamps."""
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
