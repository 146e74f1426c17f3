"""A quick proof that every kernel compiles here and computes what its reference says."""

from __future__ import annotations

import ctypes

import numpy as np

from mansard.core.errors import MeasurementError
from mansard.microbench.cpu.emit import host_unit
from mansard.microbench.cpu.launching import allocate
from mansard.microbench.kernel import HOST, Case, Kernel, cpu_kernels

_WORKING_SET_BYTES = 12_000  # not a multiple of a vector, so that remainder loops run too
_CHAIN = 5


def check_kernels() -> str:
    """Run every kernel in every precision once; says on which vector unit.

    Raises MeasurementError naming the first kernel whose result is wrong.
    """
    n_checked = 0
    for kernel in cpu_kernels():
        for precision in kernel.precisions:
            _check(kernel, precision)
            n_checked += 1
    unit = host_unit()
    return f"{n_checked} kernels on {unit.name} ({unit.n_bytes * 8} bits) equal their references"


def _check(kernel: Kernel, precision: str) -> None:
    case = Case(
        kernel=kernel.name,
        precision=precision,
        working_set_bytes=_WORKING_SET_BYTES,
        fma_per_element=_CHAIN if kernel.family == "fma" else None,
        stores="plain" if kernel.has_stores else None,
    )
    operands = allocate(kernel, case)
    before = tuple(array.copy() for array in operands.arrays)
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)
    signature(kernel.build(case))(*(int(word) for word in operands.words), 1)
    expected = kernel.reference(case, kernel.launch(case, HOST), before, 1)
    # The reference rounds after each product and sum, a fused multiply-add once.
    tolerance = 2 ** (-16 if precision == "fp32" else -40)
    for index, wanted in enumerate(expected):
        # Kernels that store no array have their result after the arrays.
        computed = operands.arrays[index] if index < kernel.n_arrays else operands.result
        equal = np.allclose(
            computed.view(wanted.dtype)[: wanted.size], wanted, rtol=tolerance, atol=tolerance
        )
        if not equal:
            raise MeasurementError(
                f"kernel {kernel.name} in {precision} computes wrong values here",
                fix="report this with the output of 'mansard doctor --json'",
            )
