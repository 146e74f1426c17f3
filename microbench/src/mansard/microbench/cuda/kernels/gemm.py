"""Products of large square matrices by cuBLAS: data only, the library is the kernel.

C[j, i] = Σ_k A[i, k]·B[j, k] with all matrices by rows (Aᵀ·B in cuBLAS's columns), n a
multiple of 256. Work is 2·n³. Traffic is counted as if every matrix crossed memory once: what
the caches pass again and again is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from mansard.core.hashing import content_hash
from mansard.microbench.cuda.values import bf16_bits, fill_operands, operand_values
from mansard.microbench.kernel import Array, Case, Kernel, Launch, Shape

GRANULE = 256
_PATTERN_ELEMENTS = 65_521  # a prime: rows differ, whatever n is
_OPERAND_BYTES = MappingProxyType(
    {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1}
)
_RESULT_TYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "fp64": np.dtype(np.float64),
        "fp32": np.dtype(np.float32),
        "tf32": np.dtype(np.float32),
        "fp16": np.dtype(np.float16),
        "bf16": np.dtype(np.uint16),
        "int8": np.dtype(np.int32),
    }
)
# Tensor cores for each: fp16 came with 7.0, int8 with 7.2, bf16 and TF32 with 8.0 (PTX ISA).
_PRECISIONS = {"fp64": 50, "fp32": 50, "fp16": 70, "int8": 72, "tf32": 80, "bf16": 80}
# Results are rounded to their type (2^-11 in fp16, 2^-8 in bf16); sums of some thousand terms.
_TOLERANCE = {"fp64": 1e-12, "fp32": 1e-4, "tf32": 1e-4, "fp16": 2e-3, "bf16": 1e-2}


def _launch(case: Case, _shape: Shape) -> Launch:
    operand_bytes = _OPERAND_BYTES[case.precision]
    result_bytes = _RESULT_TYPES[case.precision].itemsize
    side = isqrt(case.working_set_bytes // (2 * operand_bytes + result_bytes))
    side = max(GRANULE, side // GRANULE * GRANULE)
    n_elements = side * side
    return Launch(
        grid=0,  # the library's business
        block=0,
        n_elements=n_elements,
        array_bytes=(
            n_elements * operand_bytes,
            n_elements * operand_bytes,
            n_elements * result_bytes,
        ),
    )


def _pattern(case: Case, _launch: Launch) -> tuple[Array, ...]:
    a = fill_operands(case.precision, case.operands, _PATTERN_ELEMENTS)
    return a, a[::-1].copy(), np.zeros(1, dtype=_RESULT_TYPES[case.precision])


def _reference(
    case: Case, launch: Launch, arrays: tuple[Array, ...], _repetitions: int
) -> tuple[Array, ...]:
    side = isqrt(launch.n_elements)
    a, b = (operand_values(case.precision, x).reshape(side, side) for x in arrays[:2])
    c = (b @ a.T).reshape(-1)
    result = bf16_bits(c) if case.precision == "bf16" else c.astype(_RESULT_TYPES[case.precision])
    return arrays[0], arrays[1], result


GEMM = Kernel(
    name="gemm",
    family="tensor",
    backend="cublas",
    n_arrays=3,
    precisions=_PRECISIONS,
    launch=_launch,
    work_flop=lambda _case, launch: 2 * isqrt(launch.n_elements) ** 3,
    traffic_bytes=lambda _case, launch: sum(launch.array_bytes),
    counting="each of the three matrices once; what caches pass again is not counted",
    pattern=_pattern,
    reference=_reference,
    entry=lambda case: f"gemm_{case.precision}",
    source="",
    source_hash=content_hash(("gemm", 1)),  # counted up when the call changes
    tolerance=_TOLERANCE,
)

KERNELS = (GEMM,)
