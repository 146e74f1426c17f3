"""Streams: read, copy, scale and triad, in the manner of McCalpin's STREAM.

Bytes are counted as the program sees them: every element it loads and every element
it stores, once. The line that a plain store first loads from memory (write-allocate)
is not counted; non-temporal stores, which avoid it, are counted just the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mansard.microbench.kernels.case import Array, Case, Kernel, fill_ramp
from mansard.microbench.kernels.compiling import compile_kernel, hash_source
from mansard.microbench.kernels.host import host_unit, n_unrolled
from mansard.microbench.kernels.sweeps import SCALAR, barrier, drain, fold_result, sweep

_GRANULE_BYTES = 1024  # a multiple of any block of ours, and of the C peers in benchmarks/
SOURCE_HASH = hash_source(__file__)


def _make(
    operation: str, precision: str, width: int, n_vectors: int, nontemporal: bool, source: str
) -> Callable[..., None]:
    def stream(a: int, b: int, c: int, n_elements: int, _steps: int, repetitions: int) -> None:
        source  # noqa: B018 -- makes the hash part of the cache's key
        for _ in range(repetitions):
            sweep(a, b, c, n_elements, operation, precision, width, n_vectors, nontemporal)
            barrier()
            if nontemporal:
                drain()
        if operation == "read":
            fold_result(b, precision, width)

    return stream


def build(case: Case) -> int:
    """Address of the compiled kernel for the case's precision, stores and vectors."""
    width = case.vector_bytes or host_unit().stream_widths[0]
    nontemporal = case.stores == "nontemporal"
    return compile_kernel(
        (case.kernel, case.precision, str(case.stores), str(width)),
        lambda: _make(
            case.kernel,
            case.precision,
            width,
            n_unrolled(width),
            nontemporal,
            SOURCE_HASH,
        ),
    )


def variants(case: Case) -> tuple[Case, ...]:
    """The case with every width of vectors worth trying."""
    if case.vector_bytes is not None:
        return (case,)
    return tuple(replace(case, vector_bytes=width) for width in host_unit().stream_widths)


def _fill(_case: Case, arrays: tuple[Array, ...]) -> None:
    """Every array gets different values around 1, far from zero, infinity and denormals."""
    for offset, array in enumerate(arrays):
        fill_ramp(array, 1.0 + offset, 2.0 + offset)


def _read(case: Case, arrays: tuple[Array, ...], _repetitions: int) -> tuple[Array, ...]:
    """What was read, and the exclusive or of all its elements."""
    bits = arrays[0].view(f"u{case.element_bytes}")
    return arrays[0], np.bitwise_xor.reduce(bits, keepdims=True)


def _copy(_case: Case, arrays: tuple[Array, ...], _repetitions: int) -> tuple[Array, ...]:
    return arrays[0], arrays[0].copy()


def _scale(case: Case, arrays: tuple[Array, ...], _repetitions: int) -> tuple[Array, ...]:
    return arrays[0], arrays[0] * case.dtype.type(SCALAR)


def _triad(case: Case, arrays: tuple[Array, ...], _repetitions: int) -> tuple[Array, ...]:
    a, b, _ = arrays
    return a, b, a + case.dtype.type(SCALAR) * b


READ = Kernel(
    name="read",
    family="stream",
    n_arrays=1,
    granule_bytes=_GRANULE_BYTES,
    precisions=("fp32", "fp64"),
    work_flop_per_element=lambda _: 0,  # exclusive or of the bits: no floating point
    accesses_per_element=1,
    has_stores=False,
    counting="1 read per element",
    fill=_fill,
    reference=_read,
    variants=variants,
    build=build,
    source_hash=SOURCE_HASH,
)
COPY = Kernel(
    name="copy",
    family="stream",
    n_arrays=2,
    granule_bytes=_GRANULE_BYTES,
    precisions=("fp32", "fp64"),
    work_flop_per_element=lambda _: 0,
    accesses_per_element=2,
    has_stores=True,
    counting="1 read and 1 write per element as the program sees them, no write-allocate",
    fill=_fill,
    reference=_copy,
    variants=variants,
    build=build,
    source_hash=SOURCE_HASH,
)
SCALE = Kernel(
    name="scale",
    family="stream",
    n_arrays=2,
    granule_bytes=_GRANULE_BYTES,
    precisions=("fp32", "fp64"),
    work_flop_per_element=lambda _: 1,  # one multiplication
    accesses_per_element=2,
    has_stores=True,
    counting="1 read and 1 write per element as the program sees them, no write-allocate",
    fill=_fill,
    reference=_scale,
    variants=variants,
    build=build,
    source_hash=SOURCE_HASH,
)
TRIAD = Kernel(
    name="triad",
    family="stream",
    n_arrays=3,
    granule_bytes=_GRANULE_BYTES,
    precisions=("fp32", "fp64"),
    work_flop_per_element=lambda _: 2,  # one fused multiply-add
    accesses_per_element=3,
    has_stores=True,
    counting="2 reads and 1 write per element as the program sees them, no write-allocate",
    fill=_fill,
    reference=_triad,
    variants=variants,
    build=build,
    source_hash=SOURCE_HASH,
)
