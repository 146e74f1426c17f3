"""The GPU through CuPy: memory, marks of time, and kernels compiled by NVRTC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from mansard.core.errors import MeasurementError
from mansard.core.records import MemoryKind
from mansard.core.text import printable
from mansard.microbench.cuda.kernel import Array, CudaCase, CudaKernel, Launch
from mansard.microbench.cuda.runtime import MemoryInfo, Start

_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
_LONGEST_ERROR = 400  # of a compiler's message


@dataclass
class CudaMemory:
    """Memory that CUDA gave; it is freed when nobody holds ``owner`` any more."""

    owner: Any
    address: int
    n_bytes: int


class CupyRuntime:
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

    def load(
        self,
        kernel: CudaKernel,
        case: CudaCase,
        launch: Launch,
        arrays: Sequence[CudaMemory],
        clock: CudaMemory,
    ) -> Start:
        """Compile what runs the case: CUDA C++ here, Numba and cuBLAS in files of their own."""
        if kernel.backend == "numba-cuda":
            from mansard.microbench.cuda.numba_runtime import load_numba

            return load_numba(self, kernel, case, launch, arrays, clock)
        if kernel.backend == "cublas":
            from mansard.microbench.cuda.gemm_runs import load_gemm

            return load_gemm(self, case, launch, arrays, clock)
        from mansard.microbench.cuda.raw_module import load_raw

        return load_raw(self, kernel, case, launch, arrays, clock)

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
