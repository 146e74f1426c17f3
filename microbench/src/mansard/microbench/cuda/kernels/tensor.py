"""Tensor cores by mma.sync: matrices in registers, multiplied again and again.

Each warp multiplies an A of 32 × K with a B of K × 32, K elements filling 32 bytes, into 32 ×
32 sums: 8 independent accumulators of 16 × 8. A repetition loads A and B, multiplies 2048
times, and stores the sums; they start again from zero every 128 products, so that they
neither overflow nor grow until a product no longer counts in them. On Hopper and later
mma.sync does not reach the peak (wgmma and tcgen05 do): there, ``gemm`` is the roof.

In memory A is stored by rows, B by columns, one warp's operands (2 KiB) after the other's.
"""

from __future__ import annotations

import numpy as np

from mansard.microbench.cuda.building import hash_source, read_source
from mansard.microbench.cuda.values import fill_operands, operand_products
from mansard.microbench.kernel import Array, Case, Kernel, Launch, Shape

ROUNDS = 2048  # products of a repetition
ROUNDS_PER_SUM = 128  # as sources/tensor.cu has it
SIDE = 32  # rows of A, columns of B
_ROW_BYTES = 32
_BLOCK = 256
_BLOCKS_PER_SM = 2  # 16 warps an SM, 4 for each of its tensor cores, 8 accumulators in each
_WARP = 32
_OPERAND_BYTES = 2 * SIDE * _ROW_BYTES
_SUM_BYTES = 4 * SIDE * SIDE
_PATTERN_WARPS = 32

# PTX ISA, wmma and mma: which precision came with which architecture.
_PRECISIONS = {"fp16": 70, "int8": 72, "bf16": 80, "tf32": 80, "fp8": 89}
# Seen in the SASS of sm_90, 101 and 110: conversions, HMMA and FADD instead of QMMA.
_EMULATED = {"fp8": (90, 120)}
# Sums are cut, not rounded, to 24 bits in each step: 128 · 2^-23 = 1.5e-5. For fp8 some
# tensor cores add with 14 bits (published for Hopper): 128 · 2^-13 = 1.6e-2.
_TOLERANCE = {"fp16": 1e-4, "bf16": 1e-4, "tf32": 1e-4, "fp8": 3e-2}


def _n_warps(launch: Launch) -> int:
    return launch.grid * launch.block // _WARP


def _launch(case: Case, shape: Shape) -> Launch:
    grid = _BLOCKS_PER_SM * shape.n_sms
    n_warps = grid * _BLOCK // _WARP
    return Launch(
        grid=grid,
        block=_BLOCK,
        n_elements=n_warps * _OPERAND_BYTES // case.element_bytes,
        fma_per_element=ROUNDS,
        array_bytes=(n_warps * _OPERAND_BYTES, n_warps * _SUM_BYTES),
    )


def _work_flop(case: Case, launch: Launch) -> int:
    """2 · 32 · 32 · K for each product: FLOP, or OP in int8."""
    k = _ROW_BYTES // case.element_bytes
    return _n_warps(launch) * ROUNDS * 2 * SIDE * SIDE * k


def _traffic_bytes(_case: Case, launch: Launch) -> int:
    return _n_warps(launch) * (_OPERAND_BYTES + _SUM_BYTES)


def _pattern(case: Case, _launch: Launch) -> tuple[Array, ...]:
    n_elements = _PATTERN_WARPS * _OPERAND_BYTES // case.element_bytes
    sums = np.zeros(1, dtype=np.int32 if case.precision == "int8" else np.float32)
    return fill_operands(case.precision, case.operands, n_elements), sums


def _reference(
    case: Case, _launch: Launch, arrays: tuple[Array, ...], _repetitions: int
) -> tuple[Array, ...]:
    """The operands, and of each warp 128 times A·B by rows."""
    elements, sums = arrays
    k = _ROW_BYTES // case.element_bytes
    products = ROUNDS_PER_SUM * operand_products(case.precision, elements, SIDE, SIDE, k)
    return elements, products.astype(sums.dtype).reshape(-1)


_SOURCE = read_source("mma.cuh", "tensor.cu")

TENSOR = Kernel(
    name="mma",
    family="tensor",
    backend="cupy",
    n_arrays=0,
    precisions=_PRECISIONS,
    launch=_launch,
    work_flop=_work_flop,
    traffic_bytes=_traffic_bytes,
    counting="per warp 2 KiB of operands read and 4 KiB of sums written once a repetition; "
    "the working set is fixed by the number of SMs",
    pattern=_pattern,
    reference=_reference,
    entry=lambda case: f"tensor_{case.precision}",
    source=_SOURCE,
    source_hash=hash_source(_SOURCE),
    emulated=_EMULATED,
    tolerance=_TOLERANCE,
)

KERNELS = (TENSOR,)
