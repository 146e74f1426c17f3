"""Kernels as data, cases and trials of them, and the registry of all kernels.

A kernel says its work, traffic, reference and roof. It is added in one file of ``cpu/kernels`` or
``cuda/kernels``, in its tuple ``KERNELS``. Its ``family`` says which roof it can raise, and stands
in the row of each of its trials: "fma" and "tensor" the peak of its precision, "stream" the
bandwidth of the memory levels of its ``level_scopes``, "latency" the latency of these levels,
"stalled" none: what the GPU draws, "launch" none: what it takes to start a kernel.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from mansard.core.errors import UsageError
from mansard.core.precision import parse_precision
from mansard.core.records import Family, Gpu, MemoryKind, Operands, Scope
from mansard.measuring.plan import PlannedTrial

Backend = Literal["numba-cpu", "cupy", "cublas", "numba-cuda"]
Stores = Literal["plain", "nontemporal"]
Array = npt.NDArray[Any]

# The grid of intensities of the Empirical Roofline Toolkit (ERT).
FMA_PER_ELEMENT = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Case:
    """One kernel in one precision on one working set."""

    kernel: str
    precision: str
    # Over all arrays: of one thread on a CPU, of the whole GPU; scope sm: of the slices of all SMs.
    working_set_bytes: int
    fma_per_element: int | None = None
    stores: Stores | None = None  # None: the kernel stores nothing, or has one variant only
    # Variant of a CPU's loads and stores; None: the fastest; 1: x86's string move, for copies.
    vector_bytes: int | None = None
    operands: Operands = "chaotic"
    scope: Scope = "core"  # sm: every SM sweeps a slice of its own, which its L1 may hold
    memory: MemoryKind = "host"

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return parse_precision(self.precision).n_bits // 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of one element."""
        return np.dtype(parse_precision(self.precision).numpy_name)


class TrialSpec(PlannedTrial, frozen=True, kw_only=True):
    """One trial to be made. The working set is over all threads, or the whole GPU."""

    kernel: str
    backend: str  # numba-cpu, cupy, numba-cuda or cublas
    precision: str
    working_set_bytes: int
    fma_per_element: int | None
    stores: Stores | None
    operands: Operands = "chaotic"
    scope: Scope = "core"
    memory: MemoryKind = "host"

    @property
    def title(self) -> str:
        """What is shown while the trial runs."""
        chain = f" × {self.fma_per_element}" if self.fma_per_element is not None else ""
        backend = "" if self.backend == "numba-cpu" else f" ({self.backend})"
        size = f"{self.working_set_bytes // 1024} KiB"
        return f"{self.kernel}{chain} {self.precision}{backend}, {size}"

    def case(self, n_threads: int = 1) -> Case:
        """What one of ``n_threads`` threads runs, its share of the working set; or a GPU, all."""
        return Case(
            kernel=self.kernel,
            precision=self.precision,
            working_set_bytes=self.working_set_bytes // n_threads,
            fma_per_element=self.fma_per_element,
            stores=self.stores,
            operands=self.operands,
            scope=self.scope,
            memory=self.memory,
        )


def gpu_case(  # noqa: PLR0917 - the fields of a case that a GPU has
    kernel: str,
    precision: str,
    working_set_bytes: int,
    fma_per_element: int | None = None,
    operands: Operands = "chaotic",
    scope: Scope = "gpu",
    memory: MemoryKind = "device",
) -> Case:
    """A case of a GPU, over all of it and in its own memory where nothing else is said."""
    return Case(
        kernel=kernel,
        precision=precision,
        working_set_bytes=working_set_bytes,
        fma_per_element=fma_per_element,
        operands=operands,
        scope=scope,
        memory=memory,
    )


@dataclass(frozen=True)
class Shape:
    """What a launch depends on: the number of SMs that are on, and the resources of one."""

    sm: int  # compute capability: 87 is 8.7; 0: a CPU
    n_sms: int
    l1_bytes: int | None = None
    l2_bytes: int | None = None


HOST = Shape(sm=0, n_sms=1)  # one thread of a CPU


def shape_of(gpu: Gpu) -> Shape:
    """What the launch of a kernel depends on: this GPU as it is now."""
    return Shape(sm=gpu.sm, n_sms=gpu.n_sms, l1_bytes=gpu.l1_bytes, l2_bytes=gpu.l2_bytes)


@dataclass(frozen=True)
class Launch:
    """How a case is started; on a GPU by a persistent grid, for all repetitions of a sample."""

    grid: int  # blocks
    block: int  # threads of each
    n_elements: int  # of each array, after rounding to what is swept evenly
    fma_per_element: int = 0
    shared_bytes: int = 0  # dynamic shared memory of a block
    array_bytes: tuple[int, ...] = ()  # of a, b and c as far as there are any, results included


def _no_function(case: Case) -> Any:
    raise UsageError(f"kernel {case.kernel!r} has no function that Numba compiles")


@dataclass(frozen=True)
class Kernel:
    """A kernel of known work and traffic. Counts are of one repetition of one launch.

    A launch is one thread of a CPU, or the whole GPU. ``pattern`` gives, for each array, an array
    that is repeated until it is full; ``reference`` what the arrays hold after so many
    repetitions in all, results included. ``n_arrays`` is over how many the working set is
    divided; an array that only takes a result is not among them.

    Of the backend "numba-cpu" ``build`` compiles and returns the address of a C function
    ``void kernel(a, b, c, n_elements, fma_per_element, repetitions)`` whose arguments are all
    64-bit integers, the first three being addresses; of "numba-cuda" it returns the function,
    not compiled. Of "cupy" ``source`` is CUDA C++ and holds the extern "C" function
    ``entry(case)`` with the signature ``(void* a, void* b, void* c, long long n_elements,
    int fma_per_element, int repetitions, unsigned long long* clock)``. Its thread 0 of block 0
    leaves in ``clock`` how many cycles (clock64) and nanoseconds (globaltimer) went by between
    its first and last repetition. Of the family "launch" it takes no arguments, a repetition is a
    launch of it, and the clock is read by kernels before and after. Arrays keep their values from
    one launch to the next.
    """

    name: str
    family: Family  # the roof that it can raise
    backend: Backend
    n_arrays: int
    precisions: Mapping[str, int]  # -> the lowest compute capability that has it; of a CPU 0
    launch: Callable[[Case, Shape], Launch]
    work_flop: Callable[[Case, Launch], int]
    traffic_bytes: Callable[[Case, Launch], int]
    counting: str  # how traffic is counted, in words for the record
    pattern: Callable[[Case, Launch], tuple[Array, ...]]
    reference: Callable[[Case, Launch, tuple[Array, ...], int], tuple[Array, ...]]
    source_hash: str
    build: Callable[[Case], Any] = _no_function
    entry: Callable[[Case], str] = lambda case: case.kernel
    source: str = field(default="", repr=False)
    variants: Callable[[Case], tuple[Case, ...]] = lambda case: (case,)  # ways to run a case
    has_stores: bool = False  # has a variant with plain and one with non-temporal stores
    is_brief: bool = True  # whether the profile "brief" measures it
    scopes: tuple[Scope, ...] = ("gpu",)
    level_scopes: tuple[Scope, ...] = ("gpu",)  # in which it shows a memory level
    is_graph: bool = False  # of the family launch: its launches are nodes of a CUDA graph
    # precision -> compute capabilities, from the first up to but without the second, on which
    # other units do its work piece by piece: the time would not be that of the precision
    emulated: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # what NVRTC makes code for, where only one architecture has its instructions: "90a" is that of
    # compute capability 9.0; empty: the card's own
    architecture: str = ""
    # precision -> how far a result may be from the reference, in parts of its largest value
    tolerance: Mapping[str, float] = field(default_factory=dict)  # not named: bit by bit

    def traffic_counting(self, case: Case) -> str:
        """How the traffic of this case was counted, in words for the record."""
        parts = [self.counting]
        if case.stores is not None:
            parts.append("plain stores" if case.stores == "plain" else "non-temporal stores")
        if case.vector_bytes is not None:
            parts.append(f"vectors of {case.vector_bytes} bytes")
        return "; ".join(parts)

    def has_code_for(self, sm: int) -> bool:
        """Whether its source compiles for a GPU of compute capability ``sm``."""
        return self.architecture in {"", f"{sm}a"}

    def runs_in(self, precision: str, sm: int) -> bool:
        """Whether a GPU of compute capability ``sm`` has it in this precision, not emulated."""
        first, end = self.emulated.get(precision, (0, 0))
        return (
            precision in self.precisions
            and sm >= self.precisions[precision]
            and not (first <= sm < end)
            and self.has_code_for(sm)
        )

    def check(self, case: Case, sm: int = 0) -> None:
        """Raise UsageError if it has no such case, or a GPU of compute capability ``sm`` none."""
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
        if self.backend == "numba-cpu":
            self._check_chain_and_stores(case)
        if sm < lowest:
            raise UsageError(
                f"kernel {self.name} in {case.precision} needs compute capability "
                f"{lowest / 10:.1f}, this GPU has {sm / 10:.1f}",
                fix="leave it out of the plan",
            )
        if not self.has_code_for(sm):
            raise UsageError(
                f"kernel {self.name} is code for sm_{self.architecture} alone, and this GPU has "
                f"compute capability {sm / 10:.1f}",
                fix="leave it out of the plan",
            )
        if not self.runs_in(case.precision, sm):
            raise UsageError(
                f"kernel {self.name} in {case.precision} is emulated on compute capability "
                f"{sm / 10:.1f}",
                fix="leave it out of the plan",
            )

    def _check_chain_and_stores(self, case: Case) -> None:
        if (case.fma_per_element is not None) != (self.family == "fma"):
            raise UsageError(
                f"fma_per_element is {case.fma_per_element!r} for kernel {self.name!r}",
                fix="the fma kernel needs it, the streams have none",
            )
        if (case.stores is not None) != self.has_stores:
            raise UsageError(
                f"stores is {case.stores!r} for kernel {self.name!r}",
                fix="name plain or nontemporal for copy, scale and triad, nothing for the others",
            )


def repeat_pattern(pattern: Array, n_bytes: int) -> Array:
    """The pattern, repeated to fill ``n_bytes``."""
    return np.resize(pattern.ravel(), n_bytes // pattern.itemsize)


# Plans list trials in this order before the shuffle: it is part of a run's id.
_BACKENDS: tuple[str, ...] = get_args(Backend)
_FAMILIES: tuple[str, ...] = get_args(Family)
_added: list[Kernel] = []


def cpu_kernels() -> tuple[Kernel, ...]:
    """The kernels of CPUs, which Numba compiles."""
    return (*_kernels_of("mansard.microbench.cpu.kernels"), *_added)


def cuda_kernels() -> tuple[Kernel, ...]:
    """The kernels of GPUs, of all backends."""
    return _kernels_of("mansard.microbench.cuda.kernels")


def find_kernel(name: str, backend: str = "numba-cpu") -> Kernel:
    """The kernel ``name`` of a backend; raises UsageError with the known names."""
    kernels = cpu_kernels() if backend == "numba-cpu" else cuda_kernels()
    by_name = {kernel.name: kernel for kernel in kernels if kernel.backend == backend}
    if name not in by_name:
        raise UsageError(
            f"unknown kernel {name!r} of the backend {backend}",
            fix=f"use one of {', '.join(by_name)}",
        )
    return by_name[name]


@contextmanager
def with_kernels(kernels: Iterable[Kernel]) -> Iterator[None]:
    """Add ``kernels`` to those of CPUs, in this process, for the block.

    Raises UsageError for a second kernel of one name, and for one that a CPU does not run.
    """
    built_in = cpu_kernels()
    new = [kernel for kernel in kernels if kernel not in built_in]
    names = [kernel.name for kernel in (*built_in, *new)]
    for kernel in new:
        if names.count(kernel.name) > 1:
            raise UsageError(
                f"there is a kernel {kernel.name!r} already", fix="give yours another name"
            )
        if kernel.backend != "numba-cpu":
            raise UsageError(
                f"kernel {kernel.name!r} is of the backend {kernel.backend}",
                fix="a CPU runs kernels of numba-cpu",
            )
    _added.extend(new)
    try:
        yield
    finally:
        for kernel in new:
            _added.remove(kernel)


def _kernels_of(package: str) -> tuple[Kernel, ...]:
    return _read_folders(package, tuple(importlib.import_module(package).__path__))


@cache
def _read_folders(package: str, folders: tuple[str, ...]) -> tuple[Kernel, ...]:
    kernels: list[Kernel] = []
    for module in pkgutil.iter_modules(folders, f"{package}."):
        kernels += importlib.import_module(module.name).KERNELS
    kernels.sort(
        key=lambda kernel: (_BACKENDS.index(kernel.backend), _FAMILIES.index(kernel.family))
    )
    return tuple(kernels)
