"""The chains of fused multiply-adds again, written in Python and compiled by Numba.

Work, traffic, values and references are those of fma.py, so the two can be compared on one
card. Numba has no accesses of 128 bits: neighbouring threads load neighbouring words. A
thread has 8 chains in flight. The clocks are not read: Numba has no word for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mansard.microbench.cuda import fma
from mansard.microbench.cuda.building import hash_source
from mansard.microbench.cuda.kernel import CudaCase, CudaKernel, Launch, Shape
from mansard.microbench.cuda.numba_names import load_numba_cuda
from mansard.microbench.cuda.shaping import GPU_BLOCK, shape_sweep

# Contiguous arrays: with a stride, every access would be calculated anew.
SIGNATURE = "void(float32[::1], float32[::1], float32[::1], int64, int64, int64, uint64[::1])"
_TILE_VECTORS = 2  # 8 words in each thread


def _launch(case: CudaCase, shape: Shape) -> Launch:
    return shape_sweep(case, shape, n_arrays=1, tile_vectors=_TILE_VECTORS, element_bytes=4)


def _build(case: CudaCase) -> Any:
    """The kernel, compiled when it is called; in the simulator it runs as it stands."""
    from numba import float32

    cuda = load_numba_cuda()

    addend = fma.CHAOS_C["fp32"] if case.operands == "chaotic" else fma.CONSTANT_C
    block = GPU_BLOCK
    tile = 8 * block

    def chains(
        a: Any, _b: Any, _c: Any, n_elements: int, n_steps: int, repetitions: int, _clock: Any
    ) -> None:
        c = float32(addend)
        first = cuda.blockIdx.x * tile + cuda.threadIdx.x
        for _ in range(repetitions):
            for place in range(first, n_elements, cuda.gridDim.x * tile):
                z0, z1 = a[place], a[place + block]
                z2, z3 = a[place + 2 * block], a[place + 3 * block]
                z4, z5 = a[place + 4 * block], a[place + 5 * block]
                z6, z7 = a[place + 6 * block], a[place + 7 * block]
                for _ in range(n_steps // 32):
                    for _ in range(32):  # the compiler writes them out
                        z0, z1 = cuda.fma(z0, z0, c), cuda.fma(z1, z1, c)
                        z2, z3 = cuda.fma(z2, z2, c), cuda.fma(z3, z3, c)
                        z4, z5 = cuda.fma(z4, z4, c), cuda.fma(z5, z5, c)
                        z6, z7 = cuda.fma(z6, z6, c), cuda.fma(z7, z7, c)
                for _ in range(n_steps % 32):
                    z0, z1 = cuda.fma(z0, z0, c), cuda.fma(z1, z1, c)
                    z2, z3 = cuda.fma(z2, z2, c), cuda.fma(z3, z3, c)
                    z4, z5 = cuda.fma(z4, z4, c), cuda.fma(z5, z5, c)
                    z6, z7 = cuda.fma(z6, z6, c), cuda.fma(z7, z7, c)
                a[place], a[place + block] = z0, z1
                a[place + 2 * block], a[place + 3 * block] = z2, z3
                a[place + 4 * block], a[place + 5 * block] = z4, z5
                a[place + 6 * block], a[place + 7 * block] = z6, z7

    return cuda.jit(SIGNATURE)(chains)


_SOURCE = Path(__file__).read_text(encoding="utf-8")

NUMBA_FMA = CudaKernel(
    name="fma",
    family="fma",
    backend="numba-cuda",
    n_arrays=1,
    precisions={"fp32": 50},
    launch=_launch,
    work_flop=fma.work_flop,
    traffic_bytes=fma.traffic_bytes,
    counting=fma.COUNTING,
    pattern=fma.fill_pattern,
    reference=fma.run_reference,
    entry=lambda _case: "chains",
    source=_SOURCE,
    source_hash=hash_source(_SOURCE),
    build=_build,
)
