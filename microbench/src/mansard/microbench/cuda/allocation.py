"""The arrays of a case on the GPU: allocated, filled, and named where they do not fit."""

from __future__ import annotations

import numpy as np

from mansard.core.errors import MeasurementError, UsageError
from mansard.core.records import MemoryKind
from mansard.microbench.cuda.kernel import Array, CudaCase, CudaKernel, Launch
from mansard.microbench.cuda.runtime import Buffer, Runtime

_MIB = 1 << 20


def allocate(runtime: Runtime, n_bytes: int, memory: MemoryKind, what: str) -> Buffer:
    """Memory for ``what``; raises MeasurementError with what was wanted and what is free."""
    if memory == "host":
        raise UsageError(
            "a GPU does not sweep pageable memory of the host",
            fix="plan the trial with device or zero-copy memory",
        )
    try:
        return runtime.allocate(n_bytes, memory)
    except MemoryError as error:
        free = runtime.memory_info()
        raise MeasurementError(
            f"not enough memory on the GPU for {what}: {n_bytes / _MIB:.0f} MiB wanted, "
            f"{free.free_bytes / _MIB:.0f} of {free.total_bytes / _MIB:.0f} MiB free",
            fix="end other programs that use the GPU, or leave this working set out",
        ) from error


class Arrays:
    """The arrays of one case; a context manager that gives the memory back.

    Patterns are made when they are needed and not kept: that of a random order is as large
    as its array, and on a board both would lie in the same memory.
    """

    def __init__(
        self, runtime: Runtime, kernel: CudaKernel, case: CudaCase, launch: Launch
    ) -> None:
        self._runtime = runtime
        self._kernel = kernel
        self._case = case
        self._launch = launch
        self.buffers: tuple[Buffer, ...] = ()

    def __enter__(self) -> Arrays:
        sizes_bytes, kernel, case = self._launch.array_bytes, self._kernel, self._case
        try:
            for k, n_bytes in enumerate(sizes_bytes):
                what = f"array {k + 1} of {len(sizes_bytes)} of {kernel.name} {case.precision}"
                buffer = allocate(self._runtime, n_bytes, case.memory, what)
                self.buffers = (*self.buffers, buffer)
            self.fill()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def fill(self) -> None:
        """Set all arrays to what they hold before the first repetition."""
        for buffer, pattern in zip(self.buffers, self._patterns(), strict=True):
            self._runtime.fill(buffer, pattern)

    def initial(self) -> tuple[Array, ...]:
        """What the arrays hold before the first repetition, in the types of their elements."""
        return tuple(
            repeat_pattern(pattern, n_bytes)
            for pattern, n_bytes in zip(self._patterns(), self._launch.array_bytes, strict=True)
        )

    def read(self) -> tuple[Array, ...]:
        """What the arrays hold now, in the types of their elements."""
        return tuple(
            self._runtime.read(buffer, n_bytes).view(pattern.dtype)
            for buffer, n_bytes, pattern in zip(
                self.buffers, self._launch.array_bytes, self._patterns(), strict=True
            )
        )

    def _patterns(self) -> tuple[Array, ...]:
        return self._kernel.pattern(self._case, self._launch)

    def _release(self) -> None:
        for buffer in self.buffers:
            self._runtime.release(buffer)
        self.buffers = ()


def repeat_pattern(pattern: Array, n_bytes: int) -> Array:
    """The pattern over and over, until so many bytes are full."""
    return np.resize(pattern.ravel(), n_bytes // pattern.itemsize)
