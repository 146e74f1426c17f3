"""Matrix products by cuBLAS, through CuPy's own binding; their clock by stamps around them.

C = Aᵀ·B of square matrices, in cuBLAS's order of columns first: the rows of what is
called A and the rows of what is called B here are multiplied with each other, which is the
form that every precision has, int8 included (cuBLAS, cublasGemmEx: for int8 the leading
dimensions are multiples of 4, and tensor cores want A transposed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from mansard.core.errors import UsageError
from mansard.microbench.cuda.kernel import CudaCase, Launch
from mansard.microbench.cuda.runtime import Start
from mansard.microbench.cuda.stamps import Stamps

if TYPE_CHECKING:
    from mansard.microbench.cuda.cupy_runtime import CudaMemory, CupyRuntime


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


def load_gemm(
    runtime: CupyRuntime,
    case: CudaCase,
    launch: Launch,
    arrays: Sequence[CudaMemory],
    clock: CudaMemory,
) -> Start:
    """How one sample is enqueued: a stamp, so many products, a stamp."""
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    from mansard.microbench.cuda.cupy_runtime import cuda_error

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
