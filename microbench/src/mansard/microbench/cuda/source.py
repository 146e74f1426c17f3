"""Samples from a GPU: a kernel with its arrays, launched and timed on the GPU itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType

import numpy as np

from mansard.core.errors import MeasurementError
from mansard.core.records import Gpu
from mansard.measuring.raw_samples import SYSTEM_CLOCK, Clock, RawSample
from mansard.microbench.cuda.allocation import Arrays, allocate
from mansard.microbench.cuda.flush import flush_bytes, needs_flush
from mansard.microbench.cuda.kernel import Array, CudaCase, CudaKernel, Launch, Shape
from mansard.microbench.cuda.runtime import Buffer, Runtime, Start
from mansard.microbench.cuda.timing import CLOCK_BYTES, Timeline
from mansard.microbench.plan import TrialSpec

_MOST_REPETITIONS = 2**31 - 1  # the kernels count in 32 bits
_ZERO = np.zeros(256, dtype=np.uint8)


def case_of(spec: TrialSpec) -> CudaCase:
    """The case that a trial of a plan runs."""
    return CudaCase(
        kernel=spec.kernel,
        precision=spec.precision,
        working_set_bytes=spec.working_set_bytes,
        fma_per_element=spec.fma_per_element,
        operands=spec.operands,
        scope=spec.scope,
        memory=spec.memory,
    )


def shape_of(gpu: Gpu) -> Shape:
    """What the launch of a kernel hangs on, of this GPU as it is now."""
    return Shape(sm=gpu.sm, n_sms=gpu.n_sms, l1_bytes=gpu.l1_bytes, l2_bytes=gpu.l2_bytes)


class CudaSource:
    """One case on the GPU; a context manager, between whose ends the arrays exist."""

    def __init__(
        self,
        kernel: CudaKernel,
        case: CudaCase,
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
            # The first launch of a kernel loads it: its time is nobody's.
            self._timeline(self._start).take(1, 1, lambda: False)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        """What the arrays held before the first repetition."""
        return self._arrays.initial()

    def read(self) -> tuple[Array, ...]:
        """What the arrays hold now."""
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
