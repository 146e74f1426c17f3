"""The kernels that Numba compiles for GPUs, as kernels/fma.py and kernels/streams.py offer them.

Imports Numba's names for GPUs at its head, for its simulator replaces them there, and is
itself imported only to build a kernel. Blocks are of 256 threads; a thread works on words a
block apart, so that neighbouring threads access neighbouring words. Arrays are contiguous:
with a stride, every address would be calculated anew. Indices are unsigned: negative ones
count from the end, which takes more instructions than the access. All loads of a tile stand
before its first store: the compiler moves no load past a store that may be to the same place,
and one load in flight at a time costs an H100 a quarter of its bandwidth.
"""

from __future__ import annotations

from typing import Any

import numba
from numba import cuda as numba_cuda

BLOCK = 256
CHAINS = 8  # in flight in each thread
READ_WORDS = 16
WRITE_WORDS = 8

cuda: Any = numba_cuda  # its names carry no types of their own
float32, int32, uint64 = numba.float32, numba.int32, numba.uint64

_SIGNATURE = "void(float32[::1], float32[::1], float32[::1], int64, int64, int64, uint64[::1])"
_WORDS_SIGNATURE = _SIGNATURE.replace("float32", "uint32")


def build_chains(addend: float) -> Any:
    """z ← z·z + addend, n_steps times on every element."""
    tile = CHAINS * BLOCK

    def chains(
        a: Any, _b: Any, _c: Any, n_elements: int, n_steps: int, repetitions: int, _clock: Any
    ) -> None:
        c = float32(addend)
        first = cuda.blockIdx.x * tile + cuda.threadIdx.x
        for _ in range(repetitions):
            for place in range(first, n_elements, cuda.gridDim.x * tile):
                # Unsigned: a negative index would count from the end, at a cost.
                i0, i1 = uint64(place), uint64(place + BLOCK)
                i2, i3 = uint64(place + 2 * BLOCK), uint64(place + 3 * BLOCK)
                i4, i5 = uint64(place + 4 * BLOCK), uint64(place + 5 * BLOCK)
                i6, i7 = uint64(place + 6 * BLOCK), uint64(place + 7 * BLOCK)
                z0, z1, z2, z3 = a[i0], a[i1], a[i2], a[i3]
                z4, z5, z6, z7 = a[i4], a[i5], a[i6], a[i7]
                for _ in range(int32(n_steps // 32)):
                    for _ in range(32):  # the compiler writes them out
                        z0, z1 = cuda.fma(z0, z0, c), cuda.fma(z1, z1, c)
                        z2, z3 = cuda.fma(z2, z2, c), cuda.fma(z3, z3, c)
                        z4, z5 = cuda.fma(z4, z4, c), cuda.fma(z5, z5, c)
                        z6, z7 = cuda.fma(z6, z6, c), cuda.fma(z7, z7, c)
                for _ in range(int32(n_steps % 32)):
                    z0, z1 = cuda.fma(z0, z0, c), cuda.fma(z1, z1, c)
                    z2, z3 = cuda.fma(z2, z2, c), cuda.fma(z3, z3, c)
                    z4, z5 = cuda.fma(z4, z4, c), cuda.fma(z5, z5, c)
                    z6, z7 = cuda.fma(z6, z6, c), cuda.fma(z7, z7, c)
                a[i0], a[i1], a[i2], a[i3] = z0, z1, z2, z3
                a[i4], a[i5], a[i6], a[i7] = z4, z5, z6, z7

    return cuda.jit(_SIGNATURE)(chains)


def build_read() -> Any:
    """The wrapping sum of all words that a thread reads, left in b."""
    tile = READ_WORDS * BLOCK

    def read(
        a: Any, b: Any, _c: Any, n_elements: int, _n_steps: int, repetitions: int, _clock: Any
    ) -> None:
        first = cuda.blockIdx.x * tile + cuda.threadIdx.x
        total = uint64(0)
        for _ in range(repetitions):
            for place in range(first, n_elements, cuda.gridDim.x * tile):
                for k in range(READ_WORDS):  # the compiler writes them out
                    total += uint64(a[uint64(place + k * BLOCK)])
        b[cuda.blockIdx.x * BLOCK + cuda.threadIdx.x] = total & uint64(0xFFFFFFFF)

    return cuda.jit(_WORDS_SIGNATURE)(read)


def build_copy() -> Any:
    """b ← a."""
    tile = WRITE_WORDS * BLOCK

    def copy(
        a: Any, b: Any, _c: Any, n_elements: int, _n_steps: int, repetitions: int, _clock: Any
    ) -> None:
        first = cuda.blockIdx.x * tile + cuda.threadIdx.x
        for _ in range(repetitions):
            for place in range(first, n_elements, cuda.gridDim.x * tile):
                i0, i1 = uint64(place), uint64(place + BLOCK)
                i2, i3 = uint64(place + 2 * BLOCK), uint64(place + 3 * BLOCK)
                i4, i5 = uint64(place + 4 * BLOCK), uint64(place + 5 * BLOCK)
                i6, i7 = uint64(place + 6 * BLOCK), uint64(place + 7 * BLOCK)
                x0, x1, x2, x3 = a[i0], a[i1], a[i2], a[i3]
                x4, x5, x6, x7 = a[i4], a[i5], a[i6], a[i7]
                b[i0], b[i1], b[i2], b[i3] = x0, x1, x2, x3
                b[i4], b[i5], b[i6], b[i7] = x4, x5, x6, x7

    return cuda.jit(_SIGNATURE)(copy)


def build_triad(scalar: float) -> Any:
    """c ← a + scalar·b."""
    tile = WRITE_WORDS * BLOCK

    def triad(
        a: Any, b: Any, c: Any, n_elements: int, _n_steps: int, repetitions: int, _clock: Any
    ) -> None:
        s = float32(scalar)
        first = cuda.blockIdx.x * tile + cuda.threadIdx.x
        for _ in range(repetitions):
            for place in range(first, n_elements, cuda.gridDim.x * tile):
                i0, i1 = uint64(place), uint64(place + BLOCK)
                i2, i3 = uint64(place + 2 * BLOCK), uint64(place + 3 * BLOCK)
                i4, i5 = uint64(place + 4 * BLOCK), uint64(place + 5 * BLOCK)
                i6, i7 = uint64(place + 6 * BLOCK), uint64(place + 7 * BLOCK)
                x0, x1, x2, x3 = a[i0], a[i1], a[i2], a[i3]
                x4, x5, x6, x7 = a[i4], a[i5], a[i6], a[i7]
                y0, y1, y2, y3 = b[i0], b[i1], b[i2], b[i3]
                y4, y5, y6, y7 = b[i4], b[i5], b[i6], b[i7]
                c[i0], c[i1] = cuda.fma(s, y0, x0), cuda.fma(s, y1, x1)
                c[i2], c[i3] = cuda.fma(s, y2, x2), cuda.fma(s, y3, x3)
                c[i4], c[i5] = cuda.fma(s, y4, x4), cuda.fma(s, y5, x5)
                c[i6], c[i7] = cuda.fma(s, y6, x6), cuda.fma(s, y7, x7)

    return cuda.jit(_SIGNATURE)(triad)
