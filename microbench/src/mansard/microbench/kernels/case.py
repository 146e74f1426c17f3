"""What a kernel is, and one case of it: data that says work, traffic and reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mansard.core.errors import UsageError
from mansard.core.precision import parse_precision

Family = Literal["fma", "stream"]
Stores = Literal["plain", "nontemporal"]
Array = npt.NDArray[Any]

ALIGNMENT_BYTES = 64  # a cache line of every CPU we know; an offset of 8 costs up to 30 %
_RAMP_ELEMENTS = 65_536


@dataclass(frozen=True)
class Case:
    """One kernel in one precision on one working set; everything is per thread."""

    kernel: str
    precision: str
    working_set_bytes: int  # over all arrays of one thread
    fma_per_element: int | None = None
    stores: Stores | None = None  # None: the kernel stores nothing, or has one variant only
    vector_bytes: int | None = None  # of a stream's loads and stores; None: the fastest

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return parse_precision(self.precision).n_bits // 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of one element."""
        return np.dtype(parse_precision(self.precision).numpy_name)


@dataclass(frozen=True)
class Kernel:
    """A kernel of known work and traffic. Counts are of one repetition on one thread.

    ``build`` compiles and returns the address of a C function
    ``void kernel(a, b, c, n_elements, fma_per_element, repetitions)`` whose
    arguments are all 64-bit integers, the first three being addresses;
    ``reference`` returns what the arrays hold after so many repetitions.
    """

    name: str
    family: Family
    n_arrays: int
    granule_bytes: int  # arrays are whole multiples: no time goes into what blocks leave over
    precisions: tuple[str, ...]
    work_flop_per_element: Callable[[Case], int]
    accesses_per_element: int  # loads and stores of elements as the program sees them
    has_stores: bool  # has a variant with plain and one with non-temporal stores
    counting: str
    fill: Callable[[Case, tuple[Array, ...]], None]
    reference: Callable[[Case, tuple[Array, ...], int], tuple[Array, ...]]
    variants: Callable[[Case], tuple[Case, ...]]  # ways to run a case that does not name one
    build: Callable[[Case], int]
    source_hash: str

    def n_elements(self, case: Case) -> int:
        """Elements in each array: the working set divided evenly, in whole granules.

        Arrays shorter than a granule keep all their elements.
        """
        n_bytes = case.working_set_bytes // self.n_arrays
        if n_bytes >= self.granule_bytes:
            n_bytes -= n_bytes % self.granule_bytes
        return max(1, n_bytes // case.element_bytes)

    def work_flop(self, case: Case) -> int:
        """Floating-point operations of one repetition on one thread; one FMA is two."""
        return self.n_elements(case) * self.work_flop_per_element(case)

    def traffic_bytes(self, case: Case) -> int:
        """Bytes the program loads and stores in one repetition on one thread."""
        return self.n_elements(case) * self.accesses_per_element * case.element_bytes

    def traffic_counting(self, case: Case) -> str:
        """How the traffic of this case was counted, in words for the record."""
        parts = [self.counting]
        if case.stores is not None:
            parts.append("plain stores" if case.stores == "plain" else "non-temporal stores")
        if case.vector_bytes is not None:
            parts.append(f"vectors of {case.vector_bytes} bytes")
        return "; ".join(parts)

    def check(self, case: Case) -> None:
        """Raise UsageError if this kernel has no such case."""
        if case.kernel != self.name or case.precision not in self.precisions:
            raise UsageError(
                f"kernel {case.kernel!r} does not run in {case.precision!r}",
                fix=f"{self.name} runs in {', '.join(self.precisions)}",
            )
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


def fill_ramp(array: Array, low: float, high: float) -> None:
    """Fill with rising values from ``low`` to ``high``, repeated if the array is long."""
    ramp = np.linspace(low, high, min(array.size, _RAMP_ELEMENTS), dtype=array.dtype)
    for start in range(0, array.size, _RAMP_ELEMENTS):
        piece = array[start : start + _RAMP_ELEMENTS]
        piece[:] = ramp[: piece.size]


def choose_stores(working_set_bytes: int, last_cache_bytes: int | None) -> Stores:
    """Which stores reach the most bytes a second on a working set of that size.

    Both sizes are over all threads that share the last cache. What is stored in a
    working set larger than the last cache is evicted before it is read again, so
    storing past the caches saves loading each line first (write-allocate). Within
    the cache a non-temporal store would push the line out to memory. Unknown
    cache sizes give plain stores.
    """
    if last_cache_bytes is None:
        return "plain"
    return "nontemporal" if working_set_bytes > last_cache_bytes else "plain"
