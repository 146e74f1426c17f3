"""Streams: read, copy and triad with accesses of 128 bits.

Bytes are counted as the program sees them: every element loaded and every element stored,
once. With the scope gpu, loads go past L1 (ld.global.cg): the working set decides whether L2
or DRAM answers. With the scope sm they go through L1 (ld.global.ca), and every SM sweeps a
piece of its own. Stores go through to L2 in either scope, so only ``read`` shows L1 alone.

Numba's variants are written in Python (numba_functions.py), for L2 and DRAM: arrays are contiguous
words, of which neighbouring threads access neighbours. Loads go the default way, through L1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mansard.microbench.cuda.building import NUMBA_SOURCE, hash_source, read_source, shape_sweep
from mansard.microbench.kernel import Array, Case, Kernel, Launch, Shape

SCALAR = np.float32(0.5)  # a power of two: fused and unfused triads agree bit by bit
ELEMENT_BYTES = 4
READ_COUNTING = "1 read per element"
COPY_COUNTING = "1 read and 1 write per element as the program sees them"
TRIAD_COUNTING = "2 reads and 1 write per element as the program sees them"

_PRECISIONS = {"fp32": 50}
_PATTERN_ELEMENTS = 65_536
_SEED = 5
_READ_TILE = 4  # vectors of 16 bytes in flight in a thread, of each array
_WRITE_TILE = 2


def fill_pattern(case: Case, n_arrays: int) -> tuple[Array, ...]:
    """Random values around 1 to 4, other ones in each array; or one value in all."""
    if case.operands == "constant":
        return tuple(np.full(1, 1.0 + k, dtype=np.float32) for k in range(n_arrays))
    random = np.random.default_rng(_SEED)
    return tuple(
        random.uniform(1.0 + k, 2.0 + k, _PATTERN_ELEMENTS).astype(np.float32)
        for k in range(n_arrays)
    )


def count_triad_flop(_case: Case, launch: Launch) -> int:
    """One FMA per element is two floating-point operations."""
    return 2 * launch.n_elements


def count_accesses(n_accesses: int, launch: Launch) -> int:
    """Bytes of so many accesses to each element."""
    return n_accesses * ELEMENT_BYTES * launch.n_elements


def run_copy(
    _case: Case, _launch: Launch, arrays: tuple[Array, ...], _repetitions: int
) -> tuple[Array, ...]:
    """b ← a."""
    return arrays[0], arrays[0].copy()


def run_triad(
    _case: Case, _launch: Launch, arrays: tuple[Array, ...], _repetitions: int
) -> tuple[Array, ...]:
    """c ← a + ½·b."""
    a, b, _ = arrays
    return a, b, a + SCALAR * b


def _run_read(
    case: Case, launch: Launch, arrays: tuple[Array, ...], repetitions: int
) -> tuple[Array, ...]:
    """What was read, and for each thread the wrapping sum of the words that are its own."""
    a = arrays[0]
    words = a.view(np.uint32)
    own_slice = case.scope == "sm"
    # Axes: tile and block (the other way round in the scope sm), vector, thread, word.
    shape = (launch.grid, -1) if own_slice else (-1, launch.grid)
    tiles = words.reshape(*shape, _READ_TILE, launch.block, 4)
    axes = (1, 2, 4) if own_slice else (0, 2, 4)
    sums = tiles.sum(axis=axes, dtype=np.uint32).reshape(-1)
    return a, sums * np.uint32(repetitions)


def _launch_read(case: Case, shape: Shape) -> Launch:
    launch = shape_sweep(
        case, shape, n_arrays=1, tile_vectors=_READ_TILE, element_bytes=ELEMENT_BYTES
    )
    result_bytes = 4 * launch.grid * launch.block
    return replace(launch, array_bytes=(*launch.array_bytes, result_bytes))


def _launch_copy(case: Case, shape: Shape) -> Launch:
    return shape_sweep(
        case, shape, n_arrays=2, tile_vectors=_WRITE_TILE, element_bytes=ELEMENT_BYTES
    )


def _launch_triad(case: Case, shape: Shape) -> Launch:
    return shape_sweep(
        case, shape, n_arrays=3, tile_vectors=_WRITE_TILE, element_bytes=ELEMENT_BYTES
    )


def _entry(case: Case) -> str:
    return f"{case.kernel}_{case.precision}_{case.scope}"


_SOURCE = read_source("streams.cu")
_HASH = hash_source(_SOURCE)

READ = Kernel(
    name="read",
    family="stream",
    backend="cupy",
    n_arrays=1,
    precisions=_PRECISIONS,
    launch=_launch_read,
    work_flop=lambda _case, _launch: 0,  # sums of integers: no floating point
    traffic_bytes=lambda _case, launch: count_accesses(1, launch),
    counting=READ_COUNTING,
    pattern=lambda case, _launch: (*fill_pattern(case, 1), np.zeros(1, dtype=np.uint32)),
    reference=_run_read,
    entry=_entry,
    source=_SOURCE,
    source_hash=_HASH,
    scopes=("gpu", "sm"),
    level_scopes=("gpu", "sm"),
)
COPY = Kernel(
    name="copy",
    family="stream",
    backend="cupy",
    is_brief=False,
    n_arrays=2,
    precisions=_PRECISIONS,
    launch=_launch_copy,
    work_flop=lambda _case, _launch: 0,
    traffic_bytes=lambda _case, launch: count_accesses(2, launch),
    counting=COPY_COUNTING,
    pattern=lambda case, _launch: fill_pattern(case, 2),
    reference=run_copy,
    entry=_entry,
    source=_SOURCE,
    source_hash=_HASH,
    scopes=("gpu", "sm"),
)
TRIAD = Kernel(
    name="triad",
    family="stream",
    backend="cupy",
    n_arrays=3,
    precisions=_PRECISIONS,
    launch=_launch_triad,
    work_flop=count_triad_flop,
    traffic_bytes=lambda _case, launch: count_accesses(3, launch),
    counting=TRIAD_COUNTING,
    pattern=lambda case, _launch: fill_pattern(case, 3),
    reference=run_triad,
    entry=_entry,
    source=_SOURCE,
    source_hash=_HASH,
    scopes=("gpu", "sm"),
)


_READ_WORDS = 16  # in flight in each thread, as numba_functions.py has them
_WRITE_WORDS = 8
_WORDS_PER_VECTOR = 4


def _build_read(_case: Case) -> Any:
    from mansard.microbench.cuda.numba_functions import build_read

    return build_read()


def _build_copy(_case: Case) -> Any:
    from mansard.microbench.cuda.numba_functions import build_copy

    return build_copy()


def _build_triad(_case: Case) -> Any:
    from mansard.microbench.cuda.numba_functions import build_triad

    return build_triad(float(SCALAR))


def _run_numba_read(
    _case: Case, launch: Launch, arrays: tuple[Array, ...], repetitions: int
) -> tuple[Array, ...]:
    """What was read, and for each thread the wrapping sum of the words that are its own."""
    a = arrays[0]
    tiles = a.reshape(-1, launch.grid, _READ_WORDS, launch.block)
    sums = tiles.sum(axis=(0, 2), dtype=np.uint32).reshape(-1)
    return a, sums * np.uint32(repetitions)


def _pattern_read(case: Case, _launch: Launch) -> tuple[Array, ...]:
    (a,) = fill_pattern(case, 1)
    return a.view(np.uint32), np.zeros(1, dtype=np.uint32)


def _shape(case: Case, shape: Shape, n_arrays: int, n_words: int) -> Launch:
    return shape_sweep(
        case, shape, n_arrays=n_arrays, tile_vectors=n_words // _WORDS_PER_VECTOR, element_bytes=4
    )


def _launch_numba_read(case: Case, shape: Shape) -> Launch:
    launch = _shape(case, shape, 1, _READ_WORDS)
    result_bytes = 4 * launch.grid * launch.block
    return replace(launch, array_bytes=(*launch.array_bytes, result_bytes))


def _stream(
    like: Kernel, build: Callable[[Case], Any], launch: Callable[[Case, Shape], Launch]
) -> Kernel:
    """A stream of CuPy's in another language."""
    return replace(
        like,
        backend="numba-cuda",
        launch=launch,
        entry=lambda case: case.kernel,
        source=NUMBA_SOURCE,
        source_hash=hash_source(NUMBA_SOURCE),
        scopes=("gpu",),
        build=build,
    )


NUMBA_READ = replace(
    _stream(READ, _build_read, _launch_numba_read), pattern=_pattern_read, reference=_run_numba_read
)
NUMBA_COPY = _stream(COPY, _build_copy, lambda case, shape: _shape(case, shape, 2, _WRITE_WORDS))
NUMBA_TRIAD = _stream(TRIAD, _build_triad, lambda case, shape: _shape(case, shape, 3, _WRITE_WORDS))

KERNELS = (READ, COPY, TRIAD, NUMBA_READ, NUMBA_COPY, NUMBA_TRIAD)
