"""Tensor cores of Hopper by wgmma, the instructions of a warpgroup: its peak without a library.

mma.sync reaches 58 to 75 % of these tensor cores. Each block, one on every SM, multiplies an A of
128 × K with a B of K × 256, K elements filling 32 bytes, into 128 × 256 sums. A repetition loads A
into registers and B into shared memory, multiplies 4096 times, and stores the sums; they start
again from zero every 128 products, as those of ``mma``. These instructions exist for sm_90a
alone: compute capability 9.0.

In memory A is stored by rows, B by columns, one block's operands (12 KiB) after the other's.
"""

from __future__ import annotations

import numpy as np

from mansard.microbench.cuda.building import hash_source, read_source
from mansard.microbench.cuda.values import fill_operands, operand_products
from mansard.microbench.kernel import Array, Case, Kernel, Launch, Shape

ROUNDS = 4096  # products of a repetition
ROUNDS_PER_SUM = 128  # as sources/wgmma.cu has it
ROWS, COLUMNS = 128, 256  # of the sums of a block
_ROW_BYTES = 32
_BLOCK = 256  # two warpgroups
OPERAND_BYTES = (ROWS + COLUMNS) * _ROW_BYTES
SUM_BYTES = 4 * ROWS * COLUMNS
_PATTERN_BLOCKS = 8
_ARCHITECTURE = "90a"

_PRECISIONS = dict.fromkeys(("fp16", "bf16", "tf32", "fp8", "int8"), 90)
# As those of mma: sums are cut to 24 bits in each step, in fp8 to 14 (published for Hopper). Over
# 128 steps that is 0.025 of the largest sum where 13 bits follow the point, 0.058 where 12 do; an
# H100 is off by 0.034 (docs/results/nvidia-h100-80gb-hbm3.md).
_TOLERANCE = {"fp16": 1e-4, "bf16": 1e-4, "tf32": 1e-4, "fp8": 5e-2}


def _launch(case: Case, shape: Shape) -> Launch:
    grid = shape.n_sms
    return Launch(
        grid=grid,
        block=_BLOCK,
        n_elements=grid * OPERAND_BYTES // case.element_bytes,
        fma_per_element=ROUNDS,
        array_bytes=(grid * OPERAND_BYTES, grid * SUM_BYTES),
    )


def _work_flop(case: Case, launch: Launch) -> int:
    """2 · 128 · 256 · K for each product: FLOP, or OP in int8."""
    k = _ROW_BYTES // case.element_bytes
    return launch.grid * ROUNDS * 2 * ROWS * COLUMNS * k


def _pattern(case: Case, _launch: Launch) -> tuple[Array, ...]:
    n_elements = _PATTERN_BLOCKS * OPERAND_BYTES // case.element_bytes
    sums = np.zeros(1, dtype=np.int32 if case.precision == "int8" else np.float32)
    return fill_operands(case.precision, case.operands, n_elements), sums


def _reference(
    case: Case, _launch: Launch, arrays: tuple[Array, ...], _repetitions: int
) -> tuple[Array, ...]:
    """The operands, and of each block 128 times A·B by rows."""
    elements, sums = arrays
    k = _ROW_BYTES // case.element_bytes
    products = ROUNDS_PER_SUM * operand_products(case.precision, elements, ROWS, COLUMNS, k)
    return elements, products.astype(sums.dtype).reshape(-1)


_SOURCE = read_source("wgmma.cuh", "wgmma.cu")

WGMMA = Kernel(
    name="wgmma",
    family="tensor",
    backend="cupy",
    n_arrays=0,
    precisions=_PRECISIONS,
    architecture=_ARCHITECTURE,
    launch=_launch,
    work_flop=_work_flop,
    traffic_bytes=lambda _case, launch: launch.grid * (OPERAND_BYTES + SUM_BYTES),
    counting="per SM 12 KiB of operands read and 128 KiB of sums written once a repetition; "
    "the working set is fixed by the number of SMs",
    pattern=_pattern,
    reference=_reference,
    entry=lambda case: f"wgmma_{case.precision}",
    source=_SOURCE,
    source_hash=hash_source(_SOURCE),
    tolerance=_TOLERANCE,
)

KERNELS = (WGMMA,)
