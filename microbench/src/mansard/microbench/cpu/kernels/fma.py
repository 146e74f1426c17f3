"""Chains of fused multiply-adds: the compute roof, and the slope that leads to it.

Every element is loaded, goes through ``fma_per_element`` steps of the chaotic map
z ← z·z + c, and is stored: 2·n FLOP against two accesses, the grid of the Empirical
Roofline Toolkit (ERT). The steps of one element depend on each other, so many vectors
of elements are in flight at any time; without them the roof falls as chains grow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mansard.microbench.cpu import emit
from mansard.microbench.cpu.compiling import compile_kernel, hash_source, intrinsic, types
from mansard.microbench.cpu.emit import N_ACCUMULATORS, barrier, host_unit
from mansard.microbench.cpu.launching import SCOPES, count_elements, ramp
from mansard.microbench.kernel import Array, Case, Kernel, Launch

# z ← z² + c maps [c, c² + c] into itself for c in [-2, 0]; near -2 it is chaotic, so
# values neither vanish nor explode nor freeze (c = -1.75 has a stable cycle of three).
CHAOS_C = -1.99
_UNROLLED_STEPS = 8  # keeps the exit branch of a chain of 64 within reach of the predictor
SOURCE_HASH = hash_source(__file__)


@intrinsic(prefer_literal=True)
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
            blocks = _Blocks(start, n_blocks, vector_bytes, block_vectors)
            _emit_blocks(builder, blocks, n_steps, name)
            done = builder.add(done, builder.mul(n_blocks, emit.I64(per_block)))
        return None

    return signature, generate


@dataclass(frozen=True)
class _Blocks:
    """A run of blocks of so many vectors each, all chained at the same time."""

    start: Any
    n_blocks: Any
    vector_bytes: int
    n_vectors: int


def _emit_blocks(builder: Any, blocks: _Blocks, n_steps: Any, precision: str) -> None:
    vector_bytes, n_vectors = blocks.vector_bytes, blocks.n_vectors
    vector = emit.vector_type(precision, vector_bytes)
    c = emit.constant(vector, CHAOS_C)

    def step(_index: Any, values: Any) -> list[Any]:
        return [emit.fused_multiply_add(builder, precision, z, z, c) for z in values]

    def steps(index: Any, values: Any) -> list[Any]:
        for _ in range(_UNROLLED_STEPS):
            values = step(index, values)
        return list(values)

    def block(index: Any, _: Any) -> list[Any]:
        base = builder.add(blocks.start, builder.mul(index, emit.I64(n_vectors * vector_bytes)))
        places = [builder.add(base, emit.I64(k * vector_bytes)) for k in range(n_vectors)]
        values = [emit.load(builder, vector, place, vector_bytes) for place in places]
        whole = builder.sdiv(n_steps, emit.I64(_UNROLLED_STEPS))
        rest = builder.srem(n_steps, emit.I64(_UNROLLED_STEPS))
        values = emit.counted_loop(builder, whole, values, steps)
        values = emit.counted_loop(builder, rest, values, step)
        for value, place in zip(values, places, strict=True):
            emit.store(builder, value, place, vector_bytes)
        return []

    emit.counted_loop(builder, blocks.n_blocks, [], block)


def _make(precision: str, width: int, n_vectors: int, source: str) -> Callable[..., None]:
    def fma(a: int, _b: int, _c: int, n_elements: int, n_steps: int, repetitions: int) -> None:
        source  # noqa: B018 -- makes the hash part of the cache's key
        for _ in range(repetitions):
            _sweep(a, n_elements, n_steps, precision, width, n_vectors)
            barrier()

    return fma


def build(case: Case) -> int:
    """Address of the compiled kernel for the case's precision."""
    return compile_kernel(
        ("fma", case.precision),
        lambda: _make(case.precision, host_unit().n_bytes, N_ACCUMULATORS, SOURCE_HASH),
    )


def _reference(
    case: Case, _launch: Launch, arrays: tuple[Array, ...], repetitions: int
) -> tuple[Array, ...]:
    """The chain with one rounding a step; slow for fp64, which takes exact fractions."""
    (z,) = arrays
    step = _step_fp32 if case.precision == "fp32" else _step_fp64
    for _ in range(repetitions * (case.fma_per_element or 0)):
        z = step(z)
    return (z,)


def _step_fp32(z: Array) -> Array:
    # Two 24-bit significands multiply exactly in float64. The sum is rounded twice, which
    # differs from once only where 29 further bits happen to make a tie.
    exact: Array = z.astype(np.float64) ** 2 + np.float64(np.float32(CHAOS_C))
    return exact.astype(np.float32)


def _step_fp64(z: Array) -> Array:
    c = Fraction(CHAOS_C)
    return np.array([float(Fraction(float(x)) ** 2 + c) for x in z])


FMA = Kernel(
    name="fma",
    family="fma",
    backend="numba-cpu",
    n_arrays=1,
    precisions={"fp32": 0, "fp64": 0},
    launch=lambda case, _shape: count_elements(case, 1, host_unit().n_bytes * N_ACCUMULATORS),
    work_flop=lambda case, launch: 2 * launch.n_elements * (case.fma_per_element or 0),
    traffic_bytes=lambda case, launch: 2 * launch.n_elements * case.element_bytes,
    counting="1 read and 1 write per element, in place, as the program sees them",
    # Distinct starting points inside the interval that the map keeps to itself.
    pattern=lambda case, launch: (ramp(case, launch, -1.9, 1.9),),
    reference=_reference,
    source_hash=SOURCE_HASH,
    build=build,
    scopes=SCOPES,
    level_scopes=SCOPES,
)

KERNELS = (FMA,)
