"""Read, copy and triad again, written in Python and compiled by Numba, for L2 and DRAM.

Work, traffic and values are those of streams.py; arrays are contiguous words, of which
neighbouring threads access neighbours. Loads go the default way, through L1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mansard.microbench.cuda import streams
from mansard.microbench.cuda.building import hash_source
from mansard.microbench.cuda.kernel import Array, CudaCase, CudaKernel, Launch, Shape
from mansard.microbench.cuda.numba_fma import SIGNATURE
from mansard.microbench.cuda.numba_names import load_numba_cuda
from mansard.microbench.cuda.shaping import GPU_BLOCK, shape_sweep

_READ_SIGNATURE = SIGNATURE.replace("float32", "uint32")
_READ_WORDS = 16  # in flight in each thread
_WRITE_WORDS = 8
_WORDS_PER_VECTOR = 4


def _build_read(_case: CudaCase) -> Any:
    from numba import uint64

    cuda = load_numba_cuda()

    block = GPU_BLOCK
    tile = _READ_WORDS * block

    def read(
        a: Any, b: Any, _c: Any, n_elements: int, _n_steps: int, repetitions: int, _clock: Any
    ) -> None:
        first = cuda.blockIdx.x * tile + cuda.threadIdx.x
        total = uint64(0)
        for _ in range(repetitions):
            for place in range(first, n_elements, cuda.gridDim.x * tile):
                for k in range(_READ_WORDS):  # the compiler writes them out
                    total += uint64(a[place + k * block])
        b[cuda.blockIdx.x * block + cuda.threadIdx.x] = total & uint64(0xFFFFFFFF)

    return cuda.jit(_READ_SIGNATURE)(read)


def _build_copy(_case: CudaCase) -> Any:
    cuda = load_numba_cuda()

    block = GPU_BLOCK
    tile = _WRITE_WORDS * block

    def copy(
        a: Any, b: Any, _c: Any, n_elements: int, _n_steps: int, repetitions: int, _clock: Any
    ) -> None:
        first = cuda.blockIdx.x * tile + cuda.threadIdx.x
        for _ in range(repetitions):
            for place in range(first, n_elements, cuda.gridDim.x * tile):
                for k in range(_WRITE_WORDS):
                    b[place + k * block] = a[place + k * block]

    return cuda.jit(SIGNATURE)(copy)


def _build_triad(_case: CudaCase) -> Any:
    from numba import float32

    cuda = load_numba_cuda()

    block = GPU_BLOCK
    tile = _WRITE_WORDS * block
    scalar = float(streams.SCALAR)

    def triad(
        a: Any, b: Any, c: Any, n_elements: int, _n_steps: int, repetitions: int, _clock: Any
    ) -> None:
        s = float32(scalar)
        first = cuda.blockIdx.x * tile + cuda.threadIdx.x
        for _ in range(repetitions):
            for place in range(first, n_elements, cuda.gridDim.x * tile):
                for k in range(_WRITE_WORDS):
                    here = place + k * block
                    c[here] = cuda.fma(s, b[here], a[here])

    return cuda.jit(SIGNATURE)(triad)


def _run_read(
    _case: CudaCase, launch: Launch, arrays: tuple[Array, ...], repetitions: int
) -> tuple[Array, ...]:
    """What was read, and for each thread the wrapping sum of the words that are its own."""
    a = arrays[0]
    tiles = a.reshape(-1, launch.grid, _READ_WORDS, launch.block)
    sums = tiles.sum(axis=(0, 2), dtype=np.uint32).reshape(-1)
    return a, sums * np.uint32(repetitions)


def _pattern_read(case: CudaCase, _launch: Launch) -> tuple[Array, ...]:
    (a,) = streams.fill_pattern(case, 1)
    return a.view(np.uint32), np.zeros(1, dtype=np.uint32)


def _shape(case: CudaCase, shape: Shape, n_arrays: int, n_words: int) -> Launch:
    return shape_sweep(
        case, shape, n_arrays=n_arrays, tile_vectors=n_words // _WORDS_PER_VECTOR, element_bytes=4
    )


def _launch_read(case: CudaCase, shape: Shape) -> Launch:
    launch = _shape(case, shape, 1, _READ_WORDS)
    result_bytes = 4 * launch.grid * launch.block
    return replace(launch, array_bytes=(*launch.array_bytes, result_bytes))


_SOURCE = Path(__file__).read_text(encoding="utf-8")
_HASH = hash_source(_SOURCE)


def _stream(
    like: CudaKernel, build: Callable[[CudaCase], Any], launch: Callable[[CudaCase, Shape], Launch]
) -> CudaKernel:
    """A stream of CuPy's in another language."""
    return replace(
        like,
        backend="numba-cuda",
        launch=launch,
        entry=lambda case: case.kernel,
        source=_SOURCE,
        source_hash=_HASH,
        build=build,
    )


NUMBA_READ = replace(
    _stream(streams.READ, _build_read, _launch_read), pattern=_pattern_read, reference=_run_read
)
NUMBA_COPY = _stream(
    streams.COPY, _build_copy, lambda case, shape: _shape(case, shape, 2, _WRITE_WORDS)
)
NUMBA_TRIAD = _stream(
    streams.TRIAD, _build_triad, lambda case, shape: _shape(case, shape, 3, _WRITE_WORDS)
)
