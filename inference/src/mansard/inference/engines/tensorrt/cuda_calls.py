"""The calls of the CUDA runtime that engines need; a failure becomes an error in one line.

https://nvidia.github.io/cuda-python/cuda-bindings/latest/module/runtime.html
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import time
from collections.abc import Callable
from typing import Any

from mansard.core.errors import MeasurementError
from mansard.core.text import printable

# cuda-bindings, and what it was called in cuda-python up to 12.6.
_MODULES = ("cuda.bindings.runtime", "cuda.cudart")
_REMEDY = "install cuda-bindings of the machine's CUDA (it comes with numba-cuda)"
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
_IN_USE = 708  # cudaErrorSetOnActiveProcess


class Cuda:
    """Device 0. Nothing is imported or called before the first call."""

    @functools.cached_property
    def runtime(self) -> Any:
        """The module with the calls; raises MeasurementError where there is none."""
        for name in _MODULES:
            try:
                return importlib.import_module(name)
            except ModuleNotFoundError:
                continue
            except (ImportError, OSError, RuntimeError) as error:
                what = printable(str(error).splitlines()[0])
                raise MeasurementError(f"{name} cannot be imported: {what}", fix=_REMEDY) from error
        raise MeasurementError("cuda.bindings is not installed", fix=_REMEDY)

    def call(self, name: str, *arguments: Any) -> Any:
        """The result of one call: None, a value or a tuple; raises MeasurementError."""
        error, *results = getattr(self.runtime, name)(*arguments)
        self._check(name, error)
        return results[0] if len(results) == 1 else tuple(results) or None

    def prepared(self, name: str, *arguments: Any) -> Callable[[], None]:
        """A bound call without a result, for work that every call of a network repeats."""
        function = getattr(self.runtime, name)

        def call() -> None:
            (error,) = function(*arguments)
            if int(error):
                self._check(name, error)

        return call

    def _check(self, name: str, error: Any) -> None:
        if int(error):
            text = self.runtime.cudaGetErrorString(error)[1].decode(errors="replace")
            if int(error) == _OUT_OF_MEMORY:
                fix = "close other programs, or use a smaller batch"
                raise MeasurementError("the GPU has too little memory", fix=fix)
            raise MeasurementError(f"{name}: {printable(text)}")

    def n_devices(self) -> int:
        """How many GPUs CUDA can use here; raises MeasurementError without a driver."""
        return int(self.call("cudaGetDeviceCount"))

    def compute_capability(self) -> tuple[int, int]:
        return (
            self._attribute("cudaDevAttrComputeCapabilityMajor"),
            self._attribute("cudaDevAttrComputeCapabilityMinor"),
        )

    def is_integrated(self) -> bool:
        """Whether the GPU shares the host's memory."""
        return bool(self._attribute("cudaDevAttrIntegrated"))

    def versions(self) -> dict[str, str]:
        """The versions of the runtime and the driver, which can change a timing."""
        calls = {"cuda": "cudaRuntimeGetVersion", "cuda driver": "cudaDriverGetVersion"}
        numbers = {name: int(self.call(call)) for name, call in calls.items()}
        return {name: f"{number // 1000}.{number % 1000 // 10}" for name, number in numbers.items()}

    def wait_by(self, waiting: str) -> bool:
        """Let threads that wait for the GPU from now on ``spin``, or be blocked.

        False: it stays as it was, for the device is in use; CUDA before 12 cannot change it then.
        """
        runtime = self.runtime
        spins = waiting == "spin"
        flag = runtime.cudaDeviceScheduleSpin if spins else runtime.cudaDeviceScheduleBlockingSync
        (error,) = runtime.cudaSetDeviceFlags(flag)
        if int(error) == _IN_USE:
            return False
        self._check("cudaSetDeviceFlags", error)
        return True

    def allocate(self, n_bytes: int) -> int:
        """Allocate device memory; returns its address."""
        return int(self.call("cudaMalloc", max(1, n_bytes)))

    def allocate_managed(self, n_bytes: int) -> int:
        """Allocate managed memory, which host and device share; returns its address."""
        flag = self.runtime.cudaMemAttachGlobal
        return int(self.call("cudaMallocManaged", max(1, n_bytes), flag))

    def allocate_pinned(self, n_bytes: int) -> int:
        """Allocate pinned host memory, which the device copies by DMA; returns its address."""
        flag = self.runtime.cudaHostAllocDefault
        return int(self.call("cudaHostAlloc", max(1, n_bytes), flag))

    def free(self, address: int) -> None:
        """Free memory of ``allocate`` or ``allocate_managed``."""
        self.call("cudaFree", address)

    def free_pinned(self, address: int) -> None:
        self.call("cudaFreeHost", address)

    def copy_in(self, address: int, array: Any) -> None:
        """Copy a NumPy array to the device, and wait for it."""
        import numpy as np

        whole = np.ascontiguousarray(array)
        kind = self.runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
        self.call("cudaMemcpy", address, whole.ctypes.data, whole.nbytes, kind)

    def copy_out(self, array: Any, address: int) -> None:
        """Copy from the device into a contiguous NumPy array."""
        kind = self.runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        self.call("cudaMemcpy", array.ctypes.data, address, array.nbytes, kind)

    def _attribute(self, name: str) -> int:
        return int(
            self.call("cudaDeviceGetAttribute", getattr(self.runtime.cudaDeviceAttr, name), 0)
        )


class Stream:
    """A CUDA stream: calls return before the work is done, except ``wait``."""

    def __init__(self, cuda: Cuda, waiting: str) -> None:
        runtime = cuda.runtime
        self._cuda = cuda
        self._stream = cuda.call("cudaStreamCreateWithFlags", runtime.cudaStreamNonBlocking)
        flags = runtime.cudaEventDisableTiming
        if waiting == "block":
            flags |= runtime.cudaEventBlockingSync
        self._event = cuda.call("cudaEventCreateWithFlags", flags)
        self.handle = int(self._stream)  # what TensorRT takes for it
        self._record = cuda.prepared("cudaEventRecord", self._event, self._stream)
        self._synchronise = cuda.prepared("cudaEventSynchronize", self._event)

    def copy(self, target: int, source: int, n_bytes: int, *, to_device: bool) -> None:
        kinds = self._cuda.runtime.cudaMemcpyKind
        kind = kinds.cudaMemcpyHostToDevice if to_device else kinds.cudaMemcpyDeviceToHost
        self._cuda.call("cudaMemcpyAsync", target, source, n_bytes, kind, self._stream)

    def attach(self, address: int, *, to_host: bool) -> None:
        """Say who uses managed memory next: the host, or the device.

        On a device that cannot use it at the same time as the host (a Jetson), this moves caches.
        """
        runtime = self._cuda.runtime
        flag = runtime.cudaMemAttachHost if to_host else runtime.cudaMemAttachGlobal
        self._cuda.call("cudaStreamAttachMemAsync", self._stream, address, 0, flag)

    def wait(self) -> None:
        """Wait until all work is done."""
        self._record()
        self._synchronise()

    def time(self, enqueue: Callable[[], None]) -> tuple[float, float]:
        """Seconds of the host in ``enqueue``, and of the GPU for the work; waits until it is done.

        The GPU's time is measured between an event before the work and one after it. It includes
        gaps in which the GPU waits for the host.
        """
        cuda, runtime = self._cuda, self._cuda.runtime
        with contextlib.ExitStack() as held:
            events = []
            for _ in range(2):
                event = cuda.call("cudaEventCreateWithFlags", runtime.cudaEventDefault)
                held.callback(cuda.call, "cudaEventDestroy", event)
                events.append(event)
            cuda.call("cudaEventRecord", events[0], self._stream)
            start_s = time.perf_counter()
            enqueue()
            enqueue_s = time.perf_counter() - start_s
            cuda.call("cudaEventRecord", events[1], self._stream)
            self.wait()
            return enqueue_s, 1e-3 * float(cuda.call("cudaEventElapsedTime", *events))

    def begin_capture(self) -> None:
        """Record work from now on instead of running it; other threads are not affected."""
        modes = self._cuda.runtime.cudaStreamCaptureMode
        mode = modes.cudaStreamCaptureModeThreadLocal
        self._cuda.call("cudaStreamBeginCapture", self._stream, mode)

    def end_capture(self) -> Graph:
        """The recorded graph; raises MeasurementError where the work cannot be a graph."""
        graph = self._cuda.call("cudaStreamEndCapture", self._stream)
        try:
            made = self._cuda.call("cudaGraphInstantiateWithFlags", graph, 0)
        finally:
            self._cuda.call("cudaGraphDestroy", graph)
        return Graph(self._cuda, made, self._stream)

    def close(self) -> None:
        self._cuda.call("cudaEventDestroy", self._event)
        self._cuda.call("cudaStreamDestroy", self._stream)


class Graph:
    """A CUDA graph: recorded work that one call launches."""

    def __init__(self, cuda: Cuda, made: Any, stream: Any) -> None:
        self.launch = cuda.prepared("cudaGraphLaunch", made, stream)
        self.close = cuda.prepared("cudaGraphExecDestroy", made)
