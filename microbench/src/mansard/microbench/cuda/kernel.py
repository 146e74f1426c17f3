"""What a CUDA kernel is, and one case of it: data that says work, traffic and reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy.typing as npt

from mansard.core.errors import UsageError
from mansard.core.records import Family, MemoryKind, Operands, Scope

CudaBackend = Literal["cupy", "numba-cuda", "cublas"]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class CudaCase:
    """One kernel in one precision on one working set, over the whole GPU."""

    kernel: str
    precision: str
    working_set_bytes: int  # over all arrays; of the scope "sm": over the slices of all SMs
    fma_per_element: int | None = None
    operands: Operands = "chaotic"
    scope: Scope = "gpu"  # sm: every SM sweeps a slice of its own, which its L1 may hold
    memory: MemoryKind = "device"


@dataclass(frozen=True)
class Shape:
    """What the launch of a kernel hangs on: the SMs that are on, and what one of them has."""

    sm: int  # compute capability: 87 is 8.7
    n_sms: int
    l1_bytes: int | None = None
    l2_bytes: int | None = None


@dataclass(frozen=True)
class Launch:
    """How a case is started: a persistent grid that stays for all repetitions of a sample."""

    grid: int  # blocks
    block: int  # threads of each
    n_elements: int  # of each array, after rounding to what the grid sweeps evenly
    fma_per_element: int = 0
    shared_bytes: int = 0  # dynamic shared memory of a block
    array_bytes: tuple[int, ...] = ()  # of a, b and c as far as there are any, results included


@dataclass(frozen=True)
class CudaKernel:
    """A kernel of known work and traffic. Counts are of one repetition over the whole GPU.

    A kernel of the backend "cupy" is CUDA C++: ``source`` holds the extern "C" function
    ``entry(case)`` with the signature ``(void* a, void* b, void* c, long long n_elements,
    int fma_per_element, int repetitions, unsigned long long* clock)``. Its thread 0 of
    block 0 leaves in ``clock`` how many cycles (clock64) and nanoseconds (globaltimer) went
    by between its first and last repetition. The arrays keep what they hold from one launch
    to the next. ``pattern`` gives, for each array of ``launch.array_bytes``, an array that is
    repeated until it is full (maybe a whole one); ``reference`` what the arrays hold after so
    many repetitions in all. ``n_arrays`` is over how many the working set is divided; what a
    kernel merely leaves a result in is not among them.
    """

    name: str
    family: Family
    backend: CudaBackend
    n_arrays: int
    precisions: Mapping[str, int]  # -> the lowest compute capability that has it
    launch: Callable[[CudaCase, Shape], Launch]
    work_flop: Callable[[CudaCase, Launch], int]
    traffic_bytes: Callable[[CudaCase, Launch], int]
    counting: str  # how traffic is counted, in words for the record
    pattern: Callable[[CudaCase, Launch], tuple[Array, ...]]
    reference: Callable[[CudaCase, Launch, tuple[Array, ...], int], tuple[Array, ...]]
    entry: Callable[[CudaCase], str]
    source: str = field(repr=False)  # empty for cublas
    source_hash: str
    build: Callable[[CudaCase], Any] | None = None  # of numba-cuda: the function, not compiled
    scopes: tuple[Scope, ...] = ("gpu",)
    # precision -> compute capabilities, from the first up to but without the second, on which
    # other units do its work piece by piece: the time would not be that of the precision
    emulated: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # precision -> how far a result may be from the reference, in parts of its largest value
    tolerance: Mapping[str, float] = field(default_factory=dict)  # not named: bit by bit

    def check(self, case: CudaCase, sm: int) -> None:
        """Raise UsageError if a GPU of compute capability ``sm`` has no such case."""
        lowest = self.precisions.get(case.precision)
        if case.kernel != self.name or lowest is None:
            raise UsageError(
                f"kernel {case.kernel!r} does not run in {case.precision!r}",
                fix=f"{self.name} runs in {', '.join(self.precisions)}",
            )
        if case.scope not in self.scopes:
            raise UsageError(
                f"kernel {self.name} of {self.backend} has no scope {case.scope!r}",
                fix=f"it has {', '.join(self.scopes)}",
            )
        if sm < lowest:
            raise UsageError(
                f"kernel {self.name} in {case.precision} needs compute capability "
                f"{lowest / 10:.1f}, this GPU has {sm / 10:.1f}",
                fix="leave it out of the plan",
            )
        first, end = self.emulated.get(case.precision, (0, 0))
        if first <= sm < end:
            raise UsageError(
                f"kernel {self.name} in {case.precision} is emulated on compute capability "
                f"{sm / 10:.1f}",
                fix="leave it out of the plan",
            )
