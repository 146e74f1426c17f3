"""Samples from a GPU: a kernel with its arrays, launched and timed on the GPU itself.

A sample is a steady state: enough sweeps over the same arrays to last 2 ms or
more, and the first sample of a block is dropped. What L2 holds at its start is what any
sweep leaves behind, so nothing is flushed: a set that fits is meant to be read from L2,
and one of 4 times L2 or more finds next to nothing of itself (under random replacement
a share h of hits solves h = exp(-4·(1 - h)): 2 %; least recently used leaves none).

The exception is a sample of a single sweep, where a set between one and four times L2 would
be read partly from what the sample before has left, and partly not: such a
sample begins cold. Matrix products are never flushed: one of them reads each operand from
L2 many times over, and what it reads once from memory is below a percent of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np

from mansard.core.clock import SYSTEM_CLOCK, Clock
from mansard.core.errors import MeasurementError, UsageError
from mansard.core.records import Family, Gpu, MemoryKind
from mansard.measuring.raw_samples import RawSample
from mansard.microbench.cuda.runtime import Buffer, Runtime, Start
from mansard.microbench.cuda.timing import CLOCK_BYTES, Timeline
from mansard.microbench.kernel import Array, Case, Kernel, Launch, repeat_pattern, shape_of

_MOST_REPETITIONS = 2**31 - 1  # the kernels count in 32 bits
_ZERO = np.zeros(256, dtype=np.uint8)


class CudaSource:
    """One case on the GPU; a context manager, between whose ends the arrays exist."""

    def __init__(
        self,
        kernel: Kernel,
        case: Case,
        gpu: Gpu,
        runtime: Runtime,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        kernel.check(case, gpu.sm)
        self._kernel = kernel
        self.case = case
        self._l2_bytes = gpu.l2_bytes
        self._runtime = runtime
        self._clock = clock
        self.launch: Launch = kernel.launch(case, shape_of(gpu))
        self._arrays = Arrays(runtime, kernel, case, self.launch)
        self._stack = ExitStack()
        self._start: Start | None = None
        self._words: Buffer = None
        self._flush: Buffer = None

    def __enter__(self) -> CudaSource:
        with ExitStack() as stack:
            stack.enter_context(self._arrays)
            self._words = self._allocate(stack, CLOCK_BYTES, "the clock's words")
            self._start = self._runtime.load(
                self._kernel, self.case, self.launch, self._arrays.buffers, self._words
            )
            # The first launch of a kernel loads it: its time is not counted.
            self._timeline(self._start).take(1, 1, lambda: False)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._start = self._words = self._flush = None
        self._stack.close()

    def take(
        self, n_samples: int, repetitions: int, should_stop: Callable[[], bool] = lambda: False
    ) -> list[RawSample]:
        """Samples one after the other; fewer than asked for only when told to stop."""
        if self._start is None:
            raise MeasurementError(
                "the GPU's arrays are gone", fix="take samples inside the 'with' of the source"
            )
        if repetitions > _MOST_REPETITIONS:
            raise MeasurementError(
                f"the kernel {self._kernel.name} takes no time at all",
                fix="report this: it was optimised away",
            )
        family, size = self._kernel.family, self.case.working_set_bytes
        before_each = None
        if needs_flush(family, size, repetitions, self._l2_bytes):
            before_each = self._flush_l2
        return self._timeline(self._start, before_each).take(n_samples, repetitions, should_stop)

    def initial(self) -> tuple[Array, ...]:
        """The content of the arrays before the first repetition."""
        return self._arrays.initial()

    def read(self) -> tuple[Array, ...]:
        """The content of the arrays now."""
        return self._arrays.read()

    def refill(self) -> None:
        """Set the arrays back to what they held at first."""
        self._arrays.fill()

    def _timeline(self, start: Start, before_each: Callable[[], None] | None = None) -> Timeline:
        return Timeline(self._runtime, self._clock, start, self._words, before_each)

    def _allocate(self, stack: ExitStack, n_bytes: int, what: str) -> Buffer:
        buffer = allocate(self._runtime, n_bytes, "device", what)
        stack.callback(self._runtime.release, buffer)
        self._runtime.fill(buffer, _ZERO)
        return buffer

    def _flush_l2(self) -> None:
        if self._flush is None:
            n_bytes = flush_bytes(self._l2_bytes or 0)
            self._flush = self._allocate(self._stack, n_bytes, "emptying L2")
        self._runtime.fill(self._flush, _ZERO)


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

    def __init__(self, runtime: Runtime, kernel: Kernel, case: Case, launch: Launch) -> None:
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


SAFE_SETS = 4  # in sizes of L2: larger working sets see next to no hits
_FLUSH_SETS = 2  # what is written between samples, in sizes of L2


def needs_flush(
    family: Family, working_set_bytes: int, repetitions: int, l2_bytes: int | None
) -> bool:
    """Whether a sample of ``repetitions`` sweeps must find L2 empty of its working set."""
    if l2_bytes is None or family != "stream" or repetitions > 1:
        return False
    return l2_bytes < working_set_bytes < SAFE_SETS * l2_bytes


def flush_bytes(l2_bytes: int) -> int:
    """How much is written to push everything else out of L2."""
    return _FLUSH_SETS * l2_bytes
