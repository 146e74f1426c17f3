"""The protocol of a GPU for trials: all that they need, and what a fake has to provide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from mansard.core.records import MemoryKind
from mansard.microbench.kernel import Array, Case, Kernel, Launch

CLOCK_WORDS = 2  # of each sample: cycles of one SM, nanoseconds of the GPU
WORD_BYTES = 8

# Enqueues one sample: a number of repetitions, its clock words at a place of the clock buffer.
Start: TypeAlias = Callable[[int, int], None]
# Memory of the runtime, and a mark in its stream: each runtime has its own kinds.
Buffer: TypeAlias = Any
Event: TypeAlias = Any


@dataclass(frozen=True)
class MemoryInfo:
    """The card's memory now. On an integrated GPU it is the system's."""

    free_bytes: int
    total_bytes: int


class Runtime(Protocol):
    """One GPU with one stream of work: everything is enqueued, and done in that order.

    Whatever the GPU answers with an error comes as MeasurementError, except too little
    memory, which is MemoryError.
    """

    def memory_info(self) -> MemoryInfo:
        """The free and the total memory."""

    def allocate(self, n_bytes: int, memory: MemoryKind) -> Buffer:
        """Memory of the kind "device", or "zero-copy": of the host, as the GPU reads it."""

    def release(self, buffer: Buffer) -> None:
        """Give the memory back now; nothing that is enqueued may still use it."""

    def fill(self, buffer: Buffer, pattern: Array) -> None:
        """Enqueue: the bytes of ``pattern`` over and over, the last time cut where it must be."""

    def read(self, buffer: Buffer, n_bytes: int) -> Array:
        """The first bytes of the buffer, once everything enqueued before is done."""

    def load(
        self,
        kernel: Kernel,
        case: Case,
        launch: Launch,
        arrays: Sequence[Buffer],
        clock: Buffer,
    ) -> Start:
        """Compile what runs the case on these arrays; raises MeasurementError, UsageError."""

    def record(self, *, spin: bool = False) -> Event:
        """Enqueue a mark of time; ``spin``: a wait for it does not sleep, for exactness."""

    def synchronize(self, event: Event) -> None:
        """Wait until the GPU has passed the mark."""

    def elapsed_s(self, first: Event, second: Event) -> float:
        """Seconds on the GPU's clock between two marks that were passed."""
