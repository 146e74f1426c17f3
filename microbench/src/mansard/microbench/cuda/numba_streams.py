"""Read, copy and triad again, written in Python and compiled by Numba, for L2 and DRAM.

Work, traffic and values are those of streams.py; arrays are contiguous words, of which
neighbouring threads access neighbours. Loads go the default way, through L1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mansard.microbench.cuda import streams
from mansard.microbench.cuda.building import hash_source
from mansard.microbench.cuda.kernel import Array, CudaCase, CudaKernel, Launch, Shape
from mansard.microbench.cuda.numba_fma import SOURCE
from mansard.microbench.cuda.shaping import shape_sweep

_READ_WORDS = 16  # in flight in each thread, as numba_functions.py has them
_WRITE_WORDS = 8
_WORDS_PER_VECTOR = 4


def _build_read(_case: CudaCase) -> Any:
    from mansard.microbench.cuda.numba_functions import build_read

    return build_read()


def _build_copy(_case: CudaCase) -> Any:
    from mansard.microbench.cuda.numba_functions import build_copy

    return build_copy()


def _build_triad(_case: CudaCase) -> Any:
    from mansard.microbench.cuda.numba_functions import build_triad

    return build_triad(float(streams.SCALAR))


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


_HASH = hash_source(SOURCE)


def _stream(
    like: CudaKernel, build: Callable[[CudaCase], Any], launch: Callable[[CudaCase, Shape], Launch]
) -> CudaKernel:
    """A stream of CuPy's in another language."""
    return replace(
        like,
        backend="numba-cuda",
        launch=launch,
        entry=lambda case: case.kernel,
        source=SOURCE,
        source_hash=_HASH,
        scopes=("gpu",),
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
