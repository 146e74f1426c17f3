"""The GPU through CuPy: memory, marks of time, compiled functions, and stamps of the SM's clock.

The stamps stand around kernels that do not read the clock themselves, Numba's and cuBLAS's: two
small kernels of ours, before and after, leave what went by (sources/stamp.cu). They lie between
the marks of time: some 6 µs of a sample of 2 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mansard.core.errors import MeasurementError
from mansard.core.records import MemoryKind
from mansard.core.text import printable
from mansard.microbench.cuda.building import OPTIONS
from mansard.microbench.cuda.runtime import CLOCK_WORDS, WORD_BYTES, MemoryInfo
from mansard.microbench.kernel import Array

_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
_LONGEST_ERROR = 400  # of a message of CUDA
_LONGEST_LOG = 1500  # of a compiler


@dataclass
class CudaMemory:
    """Memory that CUDA gave; it is freed with the last reference to ``owner``."""

    owner: Any
    address: int
    n_bytes: int


class CupyDevice:
    """The first visible GPU, with one stream that all work of this process goes through."""

    def __init__(self) -> None:
        import cupy

        with _named("opening the GPU"):
            self._device = cupy.cuda.Device(0)
            self._device.use()
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.sm = int(self._device.compute_capability)
            attribute = cupy.cuda.runtime.cudaDevAttrMultiProcessorCount
            self.n_sms = int(cupy.cuda.runtime.deviceGetAttribute(attribute, 0))

    def memory_info(self) -> MemoryInfo:
        """The memory that is free and that there is."""
        with _named("asking for the GPU's memory"):
            free_bytes, total_bytes = self._device.mem_info
        return MemoryInfo(free_bytes=int(free_bytes), total_bytes=int(total_bytes))

    def allocate(self, n_bytes: int, memory: MemoryKind) -> CudaMemory:
        """Memory by cudaMalloc, or page-locked memory of the host that the GPU reads in place."""
        from cupy.cuda import Memory, PinnedMemory, runtime

        with _named("allocating memory"):
            if memory == "zero-copy":
                # With unified addressing (every 64-bit Linux, so every board) the GPU uses
                # the host's address (CUDA for Tegra, memory selection).
                flags = runtime.hostAllocMapped | runtime.hostAllocPortable
                owner = PinnedMemory(n_bytes, flags)
            else:
                owner = Memory(n_bytes)
        return CudaMemory(owner, int(owner.ptr), n_bytes)

    def release(self, buffer: CudaMemory) -> None:
        """Give the memory back as soon as all work is done."""
        with _named("waiting for the GPU"):
            self.stream.synchronize()
        buffer.owner, buffer.address = None, 0

    def fill(self, buffer: CudaMemory, pattern: Array) -> None:
        """Enqueue: the pattern's bytes over and over; copies double what is already there."""
        from cupy.cuda import runtime

        raw = np.ascontiguousarray(pattern).view(np.uint8).ravel()[: buffer.n_bytes]
        with _named("filling memory"):
            if (raw == raw[0]).all():
                size = buffer.n_bytes
                runtime.memsetAsync(buffer.address, int(raw[0]), size, self.stream.ptr)
                return
            self._copy(buffer.address, raw.ctypes.data, raw.size)
            self.stream.synchronize()  # the host's copy of the pattern may now go
            done = raw.size
            while done < buffer.n_bytes:
                size = min(done, buffer.n_bytes - done)
                self._copy(buffer.address + done, buffer.address, size)
                done += size

    def read(self, buffer: CudaMemory, n_bytes: int) -> Array:
        """The first bytes of the buffer, once everything enqueued before is done."""
        raw = np.empty(n_bytes, dtype=np.uint8)
        with _named("reading the GPU's memory"):
            self._copy(raw.ctypes.data, buffer.address, n_bytes)
            self.stream.synchronize()
        return raw

    def record(self, *, spin: bool = False) -> Any:
        """Enqueue a mark; without ``spin`` the CPU sleeps while it is waited for.

        On a board a CPU that polls would draw power of its own beside the kernel.
        """
        import cupy

        with _named("marking time"):
            event = cupy.cuda.Event(block=not spin)
            event.record(self.stream)
        return event

    def synchronize(self, event: Any) -> None:
        """Wait until the GPU has passed the mark; a kernel that failed is told here."""
        with _named("waiting for the GPU"):
            event.synchronize()

    def elapsed_s(self, first: Any, second: Any) -> float:
        """Seconds between two marks; CUDA tells milliseconds, in steps of about 0.5 µs."""
        import cupy

        with _named("reading marks of time"):
            return float(cupy.cuda.get_elapsed_time(first, second)) * 1e-3

    def _copy(self, target: int, source: int, n_bytes: int) -> None:
        from cupy.cuda import runtime

        runtime.memcpyAsync(target, source, n_bytes, runtime.memcpyDefault, self.stream.ptr)


@contextmanager
def _named(doing: str) -> Iterator[None]:
    """Errors of CUDA, which CuPy raises as RuntimeError, in our words; too little memory as is."""
    try:
        yield
    except RuntimeError as error:
        if getattr(error, "status", None) == _OUT_OF_MEMORY:
            raise MemoryError(str(error)) from error
        raise cuda_error(doing, error) from error


def cuda_error(doing: str, error: BaseException) -> MeasurementError:
    """What CUDA, a compiler or a library of CUDA said, in one line."""
    words = " ".join(str(error).split()) or type(error).__name__
    return MeasurementError(
        f"{doing} failed: {printable(words, _LONGEST_ERROR)}",
        where="CUDA",
        fix="look at 'dmesg' and nvidia-smi; after an illegal access only a new process helps",
    )


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


# Blocks that stamp before the kernel: some for every SM, wherever they land.
_STAMPS_PER_SM = 4
_MOST_SMS = 1024  # as sources/stamp.cu has it
_WARP = 32


class Stamps:
    """Stamps on the runtime's stream; their memory goes with the last reference to them."""

    def __init__(self, runtime: CupyDevice, clock: CudaMemory) -> None:
        source = _source()
        self._before = compile_function(source, "stamp_before")
        self._after = compile_function(source, "stamp_after")
        self._grid = (_STAMPS_PER_SM * runtime.n_sms,)
        self._clock = clock
        self._memory = runtime.allocate(_MOST_SMS * CLOCK_WORDS * WORD_BYTES, "device")
        runtime.fill(self._memory, np.zeros(1, dtype=np.uint8))

    def before(self) -> None:
        """Enqueue the stamp before a sample, on CuPy's current stream."""
        self._before(self._grid, (_WARP,), (self._memory.address,))

    def after(self, slot: int) -> None:
        """Enqueue the stamp after it, which leaves the sample's clock words."""
        words = self._clock.address + slot * CLOCK_WORDS * WORD_BYTES
        self._after((1,), (_WARP,), (self._memory.address, words))


@cache
def _source() -> str:
    return (Path(__file__).parent / "sources" / "stamp.cu").read_text(encoding="utf-8")
