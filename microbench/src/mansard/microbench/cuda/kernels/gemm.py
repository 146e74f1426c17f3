"""Products of large square matrices by cuBLAS: data only, the library is the kernel.

C[j, i] = Σ_k A[i, k]·B[j, k] with all matrices by rows (Aᵀ·B in cuBLAS's columns), n a
multiple of 256. Work is 2·n³. Traffic is counted as if every matrix crossed memory once: what
the caches pass again and again is not in it. fp8 and fp4 are products of cuBLASLt (cublaslt.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from mansard.core.hashing import content_hash
from mansard.core.precision import parse_precision
from mansard.microbench.cuda.cublaslt import SCALED_ELEMENTS
from mansard.microbench.cuda.values import bf16_bits, fill_operands, operand_values
from mansard.microbench.kernel import Array, Case, Kernel, Launch, Shape

GRANULE = 256
_PATTERN_ELEMENTS = 65_521  # a prime: rows differ, whatever n is
_RESULT_TYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "fp64": np.dtype(np.float64),
        "fp32": np.dtype(np.float32),
        "tf32": np.dtype(np.float32),
        "fp16": np.dtype(np.float16),
        "bf16": np.dtype(np.uint16),
        "int8": np.dtype(np.int32),
        "fp8": np.dtype(np.uint16),  # bf16
        "fp4": np.dtype(np.uint16),
    }
)
_IN_BF16 = frozenset({"bf16", "fp8", "fp4"})
# Tensor cores for each: fp16 came with 7.0, int8 with 7.2, bf16 and TF32 with 8.0, fp8 with 8.9,
# fp4 with 10.0 (PTX ISA).
_PRECISIONS = {
    "fp64": 50,
    "fp32": 50,
    "fp16": 70,
    "int8": 72,
    "tf32": 80,
    "bf16": 80,
    "fp8": 89,
    "fp4": 100,
}
# Results are rounded to their type (2^-11 in fp16, 2^-8 in bf16); sums of some thousand terms. Sums
# of fp8 keep 14 bits on Hopper (as in mma).
_TOLERANCE = {
    "fp64": 1e-12,
    "fp32": 1e-4,
    "tf32": 1e-4,
    "fp16": 2e-3,
    "bf16": 1e-2,
    "fp8": 3e-2,
    "fp4": 1e-2,
}


def matrix_bytes(precision: str, n: int) -> tuple[int, int, int]:
    """Bytes of A, B and C of n × n. Products of int8 are summed in 32 bits, fp8 and fp4 in bf16."""
    operand_bytes = n * n * parse_precision(precision).n_bits // 8
    return operand_bytes, operand_bytes, n * n * _RESULT_TYPES[precision].itemsize


def _launch(case: Case, _shape: Shape) -> Launch:
    side = isqrt(case.working_set_bytes * GRANULE**2 // sum(matrix_bytes(case.precision, GRANULE)))
    side = max(GRANULE, side // GRANULE * GRANULE)
    return Launch(
        grid=0,  # the library's business
        block=0,
        n_elements=side * side,
        array_bytes=matrix_bytes(case.precision, side),
    )


def _traffic_bytes(case: Case, launch: Launch) -> int:
    n_scales = 2 * launch.n_elements // SCALED_ELEMENTS if case.precision == "fp4" else 0
    return sum(launch.array_bytes) + n_scales


def _pattern(case: Case, _launch: Launch) -> tuple[Array, ...]:
    a = fill_operands(case.precision, case.operands, _PATTERN_ELEMENTS)
    return a, a[::-1].copy(), np.zeros(1, dtype=_RESULT_TYPES[case.precision])


def _reference(
    case: Case, launch: Launch, arrays: tuple[Array, ...], _repetitions: int
) -> tuple[Array, ...]:
    side = isqrt(launch.n_elements)
    a, b = (operand_values(case.precision, x).reshape(side, side) for x in arrays[:2])
    c = (b @ a.T).reshape(-1)
    result = bf16_bits(c) if case.precision in _IN_BF16 else c.astype(_RESULT_TYPES[case.precision])
    return arrays[0], arrays[1], result


GEMM = Kernel(
    name="gemm",
    family="tensor",
    backend="cublas",
    n_arrays=3,
    precisions=_PRECISIONS,
    launch=_launch,
    work_flop=lambda _case, launch: 2 * isqrt(launch.n_elements) ** 3,
    traffic_bytes=_traffic_bytes,
    counting="each of the three matrices once, in fp4 with the scales of 16 elements; "
    "what caches pass again is not counted",
    pattern=_pattern,
    reference=_reference,
    entry=lambda case: f"gemm_{case.precision}",
    source="",
    source_hash=content_hash(("gemm", 1)),  # counted up when the call changes
    tolerance=_TOLERANCE,
)

KERNELS = (GEMM,)
