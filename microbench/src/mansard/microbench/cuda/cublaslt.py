"""Products of narrow formats by cuBLASLt: fp8 (E4M3) and fp4 (E2M1), which cuBLAS itself lacks.

https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api; the numbers are those of cublasLt.h and
library_types.h. C = Aᵀ·B of square matrices by columns, the one form that these formats have, with
results in bf16. fp8 accumulates in the tensor cores alone ("fast"), without the sums in fp32 that
cuBLASLt adds by default: that is what the cores can do. fp4 takes a scale for each 16 elements of a
row (UE4M3); all of them are 1.

CuPy has no binding of cuBLASLt: it is called by ctypes, from the library that CuPy's cuBLAS loads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, NamedTuple

from mansard.core.errors import MeasurementError

_R_32F, _R_16BF, _R_8F_E4M3, _R_4F_E2M1 = 0, 14, 28, 33
_COMPUTE_32F = 68
_TRANSA, _A_SCALE_POINTER, _B_SCALE_POINTER, _FAST_ACCUM, _A_SCALE_MODE, _B_SCALE_MODE = (
    *(3, 17, 18, 25, 31, 32),
)
_TRANSPOSED = 1
_SCALES_OF_16 = 1  # CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3
_MOST_WORKSPACE = 1  # CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
_NOT_SUPPORTED = 15
WORKSPACE_BYTES = 32 << 20  # what NVIDIA recommends for Hopper and later

OPERANDS = MappingProxyType({"fp8": _R_8F_E4M3, "fp4": _R_4F_E2M1})
SCALED_ELEMENTS = 16  # of fp4, by one scale
SCALE_ONE = 0b0_0111_000  # 1 in UE4M3


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class ProductBuffers(NamedTuple):
    """Addresses in the GPU's memory. ``scales``: of one operand, all 1; 0 where it has none."""

    a: int
    b: int
    c: int
    workspace: int
    scales: int


def open_cublaslt(cuda_major: int) -> ctypes.CDLL:
    """The library of CUDA's major version; raises MeasurementError where it cannot be loaded."""
    name = f"libcublasLt.so.{cuda_major}"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        reason = str(error)
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        path = load_nvidia_dynamic_lib("cublasLt").abs_path
        return ctypes.CDLL(str(path))
    except (ImportError, RuntimeError, OSError, AttributeError):
        raise MeasurementError(
            f"cuBLASLt cannot be loaded: {reason}", fix=f"install cuBLAS of CUDA {cuda_major}"
        ) from None


def plan_product(
    library: Any, precision: str, n: int, buffers: ProductBuffers
) -> Callable[[int], None]:
    """A function that enqueues the n × n product on a stream; raises MeasurementError without one.

    The algorithm is the one that cuBLASLt's heuristic names first.
    """
    operand = OPERANDS[precision]
    handle = _made(library, "cublasLtCreate")
    operation = _made(library, "cublasLtMatmulDescCreate", _COMPUTE_32F, _R_32F)
    settings: list[tuple[int, Any]] = [(_TRANSA, ctypes.c_int32(_TRANSPOSED))]
    if precision == "fp8":
        settings.append((_FAST_ACCUM, ctypes.c_int8(1)))
    if buffers.scales:
        for mode, pointer in (
            (_A_SCALE_MODE, _A_SCALE_POINTER),
            (_B_SCALE_MODE, _B_SCALE_POINTER),
        ):
            settings.append((mode, ctypes.c_int32(_SCALES_OF_16)))
            settings.append((pointer, ctypes.c_void_p(buffers.scales)))
    for attribute, value in settings:
        _set(library, "cublasLtMatmulDescSetAttribute", operation, attribute, value)
    sides = (ctypes.c_uint64(n), ctypes.c_uint64(n), ctypes.c_int64(n))
    matrix = _made(library, "cublasLtMatrixLayoutCreate", operand, *sides)
    result = _made(library, "cublasLtMatrixLayoutCreate", _R_16BF, *sides)
    preference = _made(library, "cublasLtMatmulPreferenceCreate")
    room = ctypes.c_uint64(WORKSPACE_BYTES)
    _set(library, "cublasLtMatmulPreferenceSetAttribute", preference, _MOST_WORKSPACE, room)
    algorithm = _choose(library, handle, operation, (matrix, matrix, result, result), preference)
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    a, b, c, workspace = (ctypes.c_void_p(address) for address in buffers[:4])

    def enqueue(stream: int) -> None:
        _call(
            library, "cublasLtMatmul", handle, operation,
            ctypes.byref(one), a, matrix, b, matrix, ctypes.byref(zero), c, result, c, result,
            ctypes.byref(algorithm.algorithm), workspace,
            ctypes.c_size_t(algorithm.workspace_bytes), ctypes.c_void_p(stream),
        )  # fmt: skip

    return enqueue


def _choose(
    library: Any,
    handle: Any,
    operation: Any,
    layouts: tuple[Any, Any, Any, Any],
    preference: Any,
) -> _Heuristic:
    heuristic, n_found = _Heuristic(), ctypes.c_int(0)
    status = library.cublasLtMatmulAlgoGetHeuristic(
        handle, operation, *layouts, preference, 1, ctypes.byref(heuristic), ctypes.byref(n_found)
    )
    if status in {0, _NOT_SUPPORTED} and (n_found.value == 0 or heuristic.state != 0):
        raise MeasurementError("cuBLASLt has no algorithm for this product on this card")
    _check(status, "cublasLtMatmulAlgoGetHeuristic")
    return heuristic


def _made(library: Any, name: str, *arguments: Any) -> ctypes.c_void_p:
    """A handle or a descriptor; it lives as long as the process, some hundred bytes."""
    made = ctypes.c_void_p()
    _call(library, name, ctypes.byref(made), *arguments)
    return made


def _set(library: Any, name: str, target: Any, attribute: int, value: Any) -> None:
    size = ctypes.c_size_t(ctypes.sizeof(value))
    _call(library, name, target, attribute, ctypes.byref(value), size)


def _call(library: Any, name: str, *arguments: Any) -> None:
    _check(getattr(library, name)(*arguments), name)


def _check(status: int, name: str) -> None:
    if status:
        raise MeasurementError(f"{name} fails with cuBLAS status {status}", where="cuBLASLt")
