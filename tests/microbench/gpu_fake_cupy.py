"""CuPy's interface over the host's own memory, as far as the runtime uses it.

Addresses are real, so copies, fills and products land where a wrong address or size would
show. Kernels are not run: what they were launched with is kept. Matrix products are
computed as cuBLAS defines them, by columns.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

OUT_OF_MEMORY = 2
_TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 3: np.int8, 10: np.int32}


class FakeCudaError(RuntimeError):
    """As CuPy raises CUDA's errors: a RuntimeError with a status."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.status = status


class CompileException(Exception):  # noqa: N818 - as CuPy calls it
    """What NVRTC refuses."""


@dataclass
class Fake:
    """What was asked of the fake, and what it is to refuse."""

    total_bytes: int = 1 << 26
    live_bytes: int = 0
    broken_source: str = "does not compile"
    launches: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[Any, ...], int]] = field(
        default_factory=list
    )
    products: list[tuple[int, ...]] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    settings: dict[str, int] = field(default_factory=dict)
    n_records: int = 0
    n_captured: int = 0  # launches of the graph that is captured now
    started: list[tuple[str, int]] = field(default_factory=list)  # graphs, launches by the driver

    def modules(self) -> dict[str, ModuleType]:
        """By their names, for sys.modules."""
        cupy, cuda = ModuleType("cupy"), ModuleType("cupy.cuda")
        compiler, device = ModuleType("cupy.cuda.compiler"), ModuleType("cupy.cuda.device")
        api = ModuleType("cupy_backends.cuda.api")
        api.driver = SimpleNamespace(launchKernel=self._launch)  # type: ignore[attr-defined]
        backends, libs = ModuleType("cupy_backends"), ModuleType("cupy_backends.cuda.libs")
        compiler.CompileException = CompileException  # type: ignore[attr-defined]
        device.get_cublas_handle = lambda: 7  # type: ignore[attr-defined]
        libs.cublas = SimpleNamespace(gemmEx=self._gemm)  # type: ignore[attr-defined]
        values: dict[str, Any] = {
            "Device": self._device,
            "Stream": lambda non_blocking: _Stream(self),
            "Event": lambda block: self._event(),
            "get_elapsed_time": lambda first, second: float(second.number - first.number),
            "Memory": self._memory,
            "PinnedMemory": self._pinned,
            "runtime": self._runtime(),
            "compiler": compiler,
            "device": device,
        }
        for name, value in values.items():
            setattr(cuda, name, value)
        cupy.cuda = cuda  # type: ignore[attr-defined]
        cupy.RawModule = self._raw_module  # type: ignore[attr-defined]
        return {
            "cupy": cupy,
            "cupy.cuda": cuda,
            "cupy.cuda.compiler": compiler,
            "cupy.cuda.device": device,
            "cupy_backends": backends,
            "cupy_backends.cuda": ModuleType("cupy_backends.cuda"),
            "cupy_backends.cuda.libs": libs,
            "cupy_backends.cuda.api": api,
        }

    def _device(self, number: int) -> Any:
        assert number == 0
        return SimpleNamespace(
            use=lambda: None,
            compute_capability="87",
            mem_info=(self.total_bytes - self.live_bytes, self.total_bytes),
        )

    def _runtime(self) -> Any:
        return SimpleNamespace(
            hostAllocMapped=2,
            hostAllocPortable=1,
            memcpyDefault=4,
            cudaDevAttrMultiProcessorCount=16,
            deviceGetAttribute=lambda number, device: 16,
            runtimeGetVersion=lambda: 13000,
            memsetAsync=lambda ptr, value, size, stream: ctypes.memset(ptr, value, size),
            memcpyAsync=lambda to, source, size, kind, stream: ctypes.memmove(to, source, size),
        )

    def _memory(self, n_bytes: int) -> Any:
        if self.live_bytes + n_bytes > self.total_bytes:
            raise FakeCudaError("cudaErrorMemoryAllocation: out of memory", OUT_OF_MEMORY)
        self.live_bytes += n_bytes
        raw = np.full(n_bytes, 0xA5, dtype=np.uint8)
        return SimpleNamespace(ptr=raw.ctypes.data, raw=raw)

    def _pinned(self, n_bytes: int, flags: int) -> Any:
        self.flags.append(flags)
        return self._memory(n_bytes)

    def _event(self) -> Any:
        event = SimpleNamespace(number=0, synchronize=lambda: None)

        def record(stream: Any) -> None:
            self.n_records += 1
            event.number = self.n_records  # one millisecond from each mark to the next

        event.record = record
        return event

    def _raw_module(self, *, code: str, options: tuple[str, ...]) -> Any:
        if self.broken_source in code:
            raise CompileException("kern.cu(3): error: identifier is undefined\n1 error")
        return SimpleNamespace(get_function=lambda name: _Function(self, name))

    def _launch(self, function: int, *arguments: int) -> None:
        assert function == _Function.POINTER
        *shape, shared, stream, parameters, extra = arguments
        assert (shape, shared, parameters, extra) == ([1, 1, 1, 32, 1, 1], 0, 0, 0)
        if stream:
            self.n_captured += 1
        else:
            self.started.append(("launch", 1))

    def _gemm(self, handle: int, *arguments: Any) -> None:
        ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc = arguments[
            :16
        ]
        assert (ta, tb, lda, ldb, ldc) == (1, 0, k, k, m)
        scalar = (
            ctypes.c_int if c_type == 10 else ctypes.c_double if c_type == 1 else ctypes.c_float
        )
        assert ctypes.cast(alpha, ctypes.POINTER(scalar))[0] == 1
        assert ctypes.cast(beta, ctypes.POINTER(scalar))[0] == 0
        self.products.append((handle, m, n, k, *arguments[16:]))
        # By columns: A is k × m with its columns one after the other, which are rows here.
        left = as_array(a, _TYPES[a_type], m * k).reshape(m, k).astype(np.float64)
        right = as_array(b, _TYPES[b_type], n * k).reshape(n, k).astype(np.float64)
        as_array(c, _TYPES[c_type], m * n)[:] = (left @ right.T).T.reshape(-1)


class _Stream:
    """Its address says whether launches on it are captured."""

    def __init__(self, fake: Fake) -> None:
        self._fake = fake
        self.ptr = 0

    def begin_capture(self) -> None:
        assert self.ptr == 0
        self.ptr = 1
        self._fake.n_captured = 0

    def end_capture(self) -> Any:
        self.ptr = 0
        n_nodes = self._fake.n_captured

        def launch(stream: Any) -> None:
            self._fake.started.append(("graph", n_nodes))

        return SimpleNamespace(launch=launch)

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        pass


class _Function:
    POINTER = 0xF0
    _fake: Fake
    _name: str

    @property
    def kernel(self) -> Any:
        return SimpleNamespace(ptr=self.POINTER)

    def __init__(self, fake: Fake, name: str) -> None:
        self.__dict__["_fake"] = fake
        self.__dict__["_name"] = name

    def __setattr__(self, name: str, value: int) -> None:
        self._fake.settings[name] = value

    def compile(self) -> None:
        pass

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: tuple[Any, ...],
        *,
        shared_mem: int = 0,
    ) -> None:
        self._fake.launches.append((self._name, grid, block, arguments, shared_mem))


def as_array(address: int, dtype: Any, n_elements: int) -> Any:
    """The host's memory at an address."""
    n_bytes = n_elements * np.dtype(dtype).itemsize
    raw = (ctypes.c_uint8 * n_bytes).from_address(address)
    return np.frombuffer(raw, dtype=dtype)
