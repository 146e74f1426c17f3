"""Chains of fused multiply-adds: the compute roof, and the slope that leads to it.

Every element is loaded, goes through ``fma_per_element`` steps of z ← z·z + c, and is
stored: 2·n FLOP against two accesses, the grid of the Empirical Roofline Toolkit (ERT).
A thread has 16 chains in flight (8 in fp64, 16 pairs in half precision), an SM up to 1024
threads.

c lies near −2, where the map is chaotic on [c, c² + c]: values neither vanish nor explode
nor freeze. Half precision has so few values that every chain soon goes round a cycle. Its c
is the one, of all that the format has from −2 to −1.9 (−1.5 in bf16), whose shortest cycle is
longest: every start ends in the same one, of 91 values in fp16 and 34 in bf16. With what is
nearest to −1.99 fp16 would go round 5 to 31 values, bf16 round 11.
The constant operands are a fixed point, exact in every precision: ½·½ + ¼ = ½.

Numba's variant is written in Python (numba_functions.py): it has no accesses of 128 bits, so
neighbouring threads load neighbouring words; a thread has 8 chains in flight, and the clocks are
not read, for Numba has no word for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from mansard.microbench.cuda.building import (
    hash_source,
    in_numba,
    numba_function,
    read_source,
    shape_sweep,
)
from mansard.microbench.cuda.values import (
    bf16_bits,
    square_add_bf16,
    square_add_fp16,
    square_add_fp32,
    square_add_fp64,
)
from mansard.microbench.kernel import Array, Case, Kernel, Launch, Shape

# As sources/fma.cu has them.
CHAOS_C = MappingProxyType(
    {
        "fp64": -1.99,
        "fp32": float(np.float32(-1.99)),
        "fp16": -1.9609375,
        "bf16": -1.921875,
    }
)
CONSTANT_C = 0.25
CONSTANT_Z = 0.5
ELEMENT_BYTES = MappingProxyType({"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2})
# Of FMA: half precision came with 5.3, bfloat16 with 8.0 (PTX ISA, fma for half precision).
PRECISIONS = MappingProxyType({"fp64": 50, "fp32": 50, "fp16": 53, "bf16": 80})
COUNTING = "1 read and 1 write per element, in place, as the program sees them"

_RAMP_ELEMENTS = 65_536
_TILE_VECTORS = 4
_STEPS: dict[str, Callable[[Array, float], Array]] = {
    "fp64": square_add_fp64,
    "fp32": square_add_fp32,
    "fp16": square_add_fp16,
    "bf16": square_add_bf16,
}


def work_flop(case: Case, launch: Launch) -> int:
    """One FMA is two floating-point operations."""
    return 2 * launch.n_elements * (case.fma_per_element or 0)


def traffic_bytes(case: Case, launch: Launch) -> int:
    """Every element is read once and written once."""
    return 2 * launch.n_elements * ELEMENT_BYTES[case.precision]


def fill_pattern(case: Case, _launch: Launch) -> tuple[Array, ...]:
    """Starting points that differ, inside the interval the map keeps to itself."""
    ramp = np.linspace(-1.9, 1.9, _RAMP_ELEMENTS)
    if case.operands == "constant":
        ramp = np.full(1, CONSTANT_Z)
    if case.precision == "bf16":
        return (bf16_bits(ramp),)
    return (ramp.astype({"fp64": "f8", "fp32": "f4", "fp16": "f2"}[case.precision]),)


def run_reference(
    case: Case, _launch: Launch, arrays: tuple[Array, ...], repetitions: int
) -> tuple[Array, ...]:
    """The chains, rounded once in each step."""
    (z,) = arrays
    c = CHAOS_C[case.precision] if case.operands == "chaotic" else CONSTANT_C
    step = _STEPS[case.precision]
    for _ in range(repetitions * (case.fma_per_element or 0)):
        z = step(z, c)
    return (z,)


def _launch(case: Case, shape: Shape) -> Launch:
    return shape_sweep(
        case,
        shape,
        n_arrays=1,
        tile_vectors=_TILE_VECTORS,
        element_bytes=ELEMENT_BYTES[case.precision],
    )


_SOURCE = read_source("fma.cu")

FMA = Kernel(
    name="fma",
    family="fma",
    backend="cupy",
    n_arrays=1,
    precisions=PRECISIONS,
    launch=_launch,
    work_flop=work_flop,
    traffic_bytes=traffic_bytes,
    counting=COUNTING,
    pattern=fill_pattern,
    reference=run_reference,
    entry=lambda case: f"fma_{case.precision}_{case.scope}_{case.operands}",
    source=_SOURCE,
    source_hash=hash_source(_SOURCE),
    scopes=("gpu", "sm"),
)


_NUMBA_TILE_VECTORS = 2  # 8 words in each thread


def _launch_numba(case: Case, shape: Shape) -> Launch:
    return shape_sweep(case, shape, n_arrays=1, tile_vectors=_NUMBA_TILE_VECTORS, element_bytes=4)


NUMBA_FMA = replace(
    in_numba(FMA, "build_chains"),
    precisions={"fp32": 50},
    launch=_launch_numba,
    entry=lambda _case: "chains",
    build=lambda case: numba_function(
        "build_chains", CHAOS_C["fp32"] if case.operands == "chaotic" else CONSTANT_C
    ),
)

KERNELS = (FMA, NUMBA_FMA)
