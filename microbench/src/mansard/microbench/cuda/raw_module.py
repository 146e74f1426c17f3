"""Kernels in CUDA C++: compiled by NVRTC through CuPy's RawModule, then launched by address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mansard.core.errors import MeasurementError
from mansard.core.text import printable
from mansard.microbench.cuda.building import OPTIONS
from mansard.microbench.cuda.kernel import CudaCase, CudaKernel, Launch
from mansard.microbench.cuda.runtime import CLOCK_WORDS, WORD_BYTES, Start

if TYPE_CHECKING:
    from mansard.microbench.cuda.cupy_runtime import CudaMemory, CupyRuntime

_STATIC_SHARED_BYTES = 48 * 1024  # more must be asked for (CUDA C++ Programming Guide)
_LONGEST_LOG = 1500


def load_raw(
    runtime: CupyRuntime,
    kernel: CudaKernel,
    case: CudaCase,
    launch: Launch,
    arrays: Sequence[CudaMemory],
    clock: CudaMemory,
) -> Start:
    """The kernel's function, compiled now, and how one sample of it is enqueued."""
    from mansard.microbench.cuda.cupy_runtime import cuda_error

    function = compile_function(kernel.source, kernel.entry(case))
    try:
        if launch.shared_bytes > _STATIC_SHARED_BYTES:
            function.max_dynamic_shared_size_bytes = launch.shared_bytes
        if case.scope == "sm" and runtime.sm >= 70 and not launch.shared_bytes:
            function.preferred_shared_memory_carveout = 0  # all of the SM's memory is L1
    except RuntimeError as error:
        raise cuda_error(f"setting up {printable(kernel.name)}", error) from error
    addresses = [array.address for array in arrays]
    # A plain int is passed as 64 bits, a NumPy scalar as what it is.
    operands = (
        *(addresses + [0] * (3 - len(addresses))),
        np.int64(launch.n_elements),
        np.int32(launch.fma_per_element),
    )
    grid, block = (launch.grid,), (launch.block,)

    def start(repetitions: int, slot: int) -> None:
        words = clock.address + slot * CLOCK_WORDS * WORD_BYTES
        arguments = (*operands, np.int32(repetitions), words)
        try:
            with runtime.stream:
                function(grid, block, arguments, shared_mem=launch.shared_bytes)
        except RuntimeError as error:
            raise cuda_error(f"launching {printable(kernel.name)}", error) from error

    return start


def compile_function(source: str, entry: str) -> Any:
    """One function of a source text, loaded; raises MeasurementError with the compiler's words."""
    import cupy
    from cupy.cuda.compiler import CompileException

    try:
        # CuPy adds the architecture of the card, or the newest that this NVRTC knows.
        function = cupy.RawModule(code=source, options=OPTIONS).get_function(entry)
        function.compile()
    except CompileException as error:
        raise MeasurementError(
            f"NVRTC does not compile {entry}: {printable(_first_error(str(error)), _LONGEST_LOG)}",
            fix="a newer CUDA runtime may know this card; otherwise report this",
        ) from error
    except (ImportError, RuntimeError, OSError) as error:
        raise MeasurementError(
            f"{entry} cannot be compiled or loaded: "
            f"{printable(' '.join(str(error).split()), _LONGEST_LOG)}",
            fix="is NVRTC of the same CUDA installed, and may CuPy write its cache "
            "(CUPY_CACHE_DIR)? 'mansard doctor' says what is missing",
        ) from error
    return function


def _first_error(log: str) -> str:
    """The first line of a compiler's log that says error, else all of it on one line."""
    errors = (line.strip() for line in log.splitlines() if "error" in line)
    return next(errors, " ".join(log.split()))
