"""All kernels there are for GPUs."""

from __future__ import annotations

from mansard.core.errors import UsageError
from mansard.microbench.cuda.fma import FMA
from mansard.microbench.cuda.gemm import GEMM
from mansard.microbench.cuda.kernel import CudaKernel
from mansard.microbench.cuda.latency import LATENCY
from mansard.microbench.cuda.numba_fma import NUMBA_FMA
from mansard.microbench.cuda.numba_streams import NUMBA_COPY, NUMBA_READ, NUMBA_TRIAD
from mansard.microbench.cuda.stalled import STALLED
from mansard.microbench.cuda.streams import COPY, READ, TRIAD
from mansard.microbench.cuda.tensor import TENSOR

CUDA_CATALOG: tuple[CudaKernel, ...] = (
    *(FMA, READ, COPY, TRIAD, TENSOR, LATENCY, STALLED),
    GEMM,
    *(NUMBA_FMA, NUMBA_READ, NUMBA_COPY, NUMBA_TRIAD),
)


def find_cuda_kernel(name: str, backend: str) -> CudaKernel:
    """The kernel ``name`` of a backend; raises UsageError with the known names."""
    for kernel in CUDA_CATALOG:
        if kernel.name == name and kernel.backend == backend:
            return kernel
    known = ", ".join(k.name for k in CUDA_CATALOG if k.backend == backend)
    raise UsageError(f"unknown kernel {name!r} of the backend {backend}", fix=f"use one of {known}")
