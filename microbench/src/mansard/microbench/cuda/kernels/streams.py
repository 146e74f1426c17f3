"""Streams: read, copy and triad with accesses of 128 bits.

Bytes are counted as the program sees them: every element loaded and every element stored,
once. With the scope gpu, loads go past L1 (ld.global.cg): the working set decides whether L2
or DRAM answers. With the scope sm they go through L1 (ld.global.ca), and every SM sweeps a
piece of its own. Stores go through to L2 in either scope, so only ``read`` shows L1 alone.

Numba's variants are written in Python (numba_functions.py), for L2 and DRAM: arrays are contiguous
words, of which neighbouring threads access neighbours. Loads go the default way, through L1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mansard.microbench.cuda.building import hash_source, in_numba, read_source, shape_sweep
from mansard.microbench.kernel import Array, Case, Kernel, Launch, Shape

SCALAR = np.float32(0.5)  # a power of two: fused and unfused triads agree bit by bit
ELEMENT_BYTES = 4
_PATTERN_ELEMENTS = 65_536
_SEED = 5
_READ_TILE = 4  # vectors of 16 bytes in flight in a thread, of each array; Numba has 16 words
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


def _run_copy(
    _case: Case, _launch: Launch, arrays: tuple[Array, ...], _repetitions: int
) -> tuple[Array, ...]:
    """b ← a."""
    return arrays[0], arrays[0].copy()


def _run_triad(
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


def _launch(case: Case, shape: Shape, n_arrays: int) -> Launch:
    """The sweep; a kernel that only reads leaves a word for each thread in an array of its own."""
    tile_vectors = _READ_TILE if n_arrays == 1 else _WRITE_TILE
    launch = shape_sweep(
        case, shape, n_arrays=n_arrays, tile_vectors=tile_vectors, element_bytes=ELEMENT_BYTES
    )
    if n_arrays > 1:
        return launch
    result_bytes = 4 * launch.grid * launch.block
    return replace(launch, array_bytes=(*launch.array_bytes, result_bytes))


_SOURCE = read_source("streams.cu")


def _stream(name: str, n_arrays: int, flop_per_element: int, counting: str) -> Kernel:
    """A stream in CUDA C++ that accesses an element of each array once."""
    return Kernel(
        name=name,
        family="stream",
        backend="cupy",
        n_arrays=n_arrays,
        precisions={"fp32": 50},
        launch=lambda case, shape: _launch(case, shape, n_arrays),
        work_flop=lambda _case, launch: flop_per_element * launch.n_elements,
        traffic_bytes=lambda _case, launch: n_arrays * ELEMENT_BYTES * launch.n_elements,
        counting=counting,
        pattern=lambda case, _launch: fill_pattern(case, n_arrays),
        reference=_run_copy,
        entry=lambda case: f"{case.kernel}_{case.precision}_{case.scope}",
        source=_SOURCE,
        source_hash=hash_source(_SOURCE),
        scopes=("gpu", "sm"),
    )


READ = replace(
    _stream("read", 1, 0, "1 read per element"),  # sums of integers: no floating point
    pattern=lambda case, _launch: (*fill_pattern(case, 1), np.zeros(1, dtype=np.uint32)),
    reference=_run_read,
    level_scopes=("gpu", "sm"),
)
COPY = replace(
    _stream("copy", 2, 0, "1 read and 1 write per element as the program sees them"),
    is_brief=False,
)
TRIAD = replace(
    _stream("triad", 3, 2, "2 reads and 1 write per element as the program sees them"),
    reference=_run_triad,
)


def _run_numba_read(
    _case: Case, launch: Launch, arrays: tuple[Array, ...], repetitions: int
) -> tuple[Array, ...]:
    """What was read, and for each thread the wrapping sum of the words that are its own."""
    a = arrays[0]
    tiles = a.reshape(-1, launch.grid, 4 * _READ_TILE, launch.block)
    sums = tiles.sum(axis=(0, 2), dtype=np.uint32).reshape(-1)
    return a, sums * np.uint32(repetitions)


def _pattern_of_words(case: Case, _launch: Launch) -> tuple[Array, ...]:
    (a,) = fill_pattern(case, 1)
    return a.view(np.uint32), np.zeros(1, dtype=np.uint32)


NUMBA_READ = replace(
    in_numba(READ, "build_read"), pattern=_pattern_of_words, reference=_run_numba_read
)

KERNELS = (
    *(READ, COPY, TRIAD, NUMBA_READ),
    in_numba(COPY, "build_copy"),
    in_numba(TRIAD, "build_triad", float(SCALAR)),
)
