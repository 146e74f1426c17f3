"""Chains of fused multiply-adds: the compute roof, and the slope that leads to it.

Every element is loaded, goes through ``fma_per_element`` steps of the chaotic map
z ← z·z + c, and is stored: 2·n FLOP against two accesses, the grid of the Empirical
Roofline Toolkit (ERT). The steps of one element depend on each other, so many vectors
of elements are in flight at any time; without them the roof falls as chains grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from mansard.microbench.kernels import emit
from mansard.microbench.kernels.case import Array, Case, Kernel, fill_ramp
from mansard.microbench.kernels.compiling import compile_kernel, hash_source
from mansard.microbench.kernels.host import host_unit
from mansard.microbench.kernels.sweeps import barrier

# z ← z² + c maps [c, c² + c] into itself for c in [-2, 0]; near -2 it is chaotic, so
# values neither vanish nor explode nor freeze (c = -1.75 has a stable cycle of three).
CHAOS_C = -1.99
_UNROLLED_STEPS = 8  # keeps the exit branch of a chain of 64 within reach of the predictor
SOURCE_HASH = hash_source(__file__)


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def _sweep(_context: Any, a: Any, n: Any, steps: Any, precision: Any, width: Any, k: Any) -> Any:
    """One pass over the array ``a`` of ``n`` elements; the last three are literals."""
    signature = types.void(a, n, steps, precision, width, k)

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, n_elements, n_steps = arguments[:3]
        name, n_bytes, n_vectors = (t.literal_value for t in (precision, width, k))
        element_bytes = emit.element_bytes(name)
        done = emit.I64(0)
        for block_vectors, vector_bytes in ((n_vectors, n_bytes), (1, element_bytes)):
            per_block = block_vectors * vector_bytes // element_bytes
            rest = builder.sub(n_elements, done)
            n_blocks = builder.sdiv(rest, emit.I64(per_block))
            start = builder.add(address, builder.mul(done, emit.I64(element_bytes)))
            _emit_blocks(builder, start, n_blocks, n_steps, name, vector_bytes, block_vectors)
            done = builder.add(done, builder.mul(n_blocks, emit.I64(per_block)))
        return None

    return signature, generate


def _emit_blocks(
    builder: Any,
    start: Any,
    n_blocks: Any,
    n_steps: Any,
    precision: str,
    vector_bytes: int,
    n_vectors: int,
) -> None:
    vector = emit.vector_type(precision, vector_bytes)
    c = emit.constant(vector, CHAOS_C)

    def step(_index: Any, values: Any) -> list[Any]:
        return [emit.fused_multiply_add(builder, precision, z, z, c) for z in values]

    def steps(index: Any, values: Any) -> list[Any]:
        for _ in range(_UNROLLED_STEPS):
            values = step(index, values)
        return list(values)

    def block(index: Any, _: Any) -> list[Any]:
        base = builder.add(start, builder.mul(index, emit.I64(n_vectors * vector_bytes)))
        places = [builder.add(base, emit.I64(k * vector_bytes)) for k in range(n_vectors)]
        values = [emit.load(builder, vector, place, vector_bytes) for place in places]
        whole = builder.sdiv(n_steps, emit.I64(_UNROLLED_STEPS))
        rest = builder.srem(n_steps, emit.I64(_UNROLLED_STEPS))
        values = emit.counted_loop(builder, whole, values, steps)
        values = emit.counted_loop(builder, rest, values, step)
        for value, place in zip(values, places, strict=True):
            emit.store(builder, value, place, vector_bytes)
        return []

    emit.counted_loop(builder, n_blocks, [], block)


def _make(precision: str, width: int, n_vectors: int, source: str) -> Callable[..., None]:
    def fma(a: int, b: int, c: int, n_elements: int, n_steps: int, repetitions: int) -> None:
        source  # noqa: B018 -- makes the hash part of the cache's key
        for _ in range(repetitions):
            _sweep(a, n_elements, n_steps, precision, width, n_vectors)
            barrier()

    return fma


def build(case: Case) -> int:
    """Address of the compiled kernel for the case's precision."""
    unit = host_unit()
    return compile_kernel(
        ("fma", case.precision),
        lambda: _make(case.precision, unit.n_bytes, unit.n_accumulators, SOURCE_HASH),
    )


def _fill(_case: Case, arrays: tuple[Array, ...]) -> None:
    # Distinct starting points inside the interval that the map keeps to itself.
    (z,) = arrays
    fill_ramp(z, -1.9, 1.9)


def _reference(case: Case, arrays: tuple[Array, ...], repetitions: int) -> tuple[Array, ...]:
    """Chain in extended precision, rounded to the case's precision after every step.

    For fp32 the product of two 24-bit significands is exact in float64; the sum with c
    is rounded twice, which differs from the fused result only on ties of 2⁻²⁹.
    """
    (z,) = arrays
    wide: Any = np.float64 if case.precision == "fp32" else np.longdouble
    c = wide(z.dtype.type(CHAOS_C))
    for _ in range(repetitions * (case.fma_per_element or 0)):
        z = (z.astype(wide) ** 2 + c).astype(case.dtype)
    return (z,)


FMA = Kernel(
    name="fma",
    family="fma",
    n_arrays=1,
    precisions=("fp32", "fp64"),
    work_flop_per_element=lambda case: 2 * (case.fma_per_element or 0),
    accesses_per_element=2,
    has_stores=False,
    counting="1 read and 1 write per element, in place, as the program sees them",
    fill=_fill,
    reference=_reference,
    build=build,
    source_hash=SOURCE_HASH,
)
