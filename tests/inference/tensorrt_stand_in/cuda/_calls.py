"""Calls of the CUDA runtime by their published names and signatures.

https://nvidia.github.io/cuda-python/cuda-bindings/latest/module/runtime.html
"""

from __future__ import annotations

import ctypes
import enum
import functools
import os
import time
from collections.abc import Callable
from typing import Any

import stand_in_device as device


class cudaError_t(enum.IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorInsufficientDriver = 35
    cudaErrorNoDevice = 100
    cudaErrorInvalidDevice = 101
    cudaErrorInvalidResourceHandle = 400
    cudaErrorNotReady = 600
    cudaErrorIllegalAddress = 700
    cudaErrorSetOnActiveProcess = 708
    cudaErrorStreamCaptureUnsupported = 900
    cudaErrorStreamCaptureInvalidated = 901


class cudaMemcpyKind(enum.IntEnum):
    cudaMemcpyHostToHost = 0
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3
    cudaMemcpyDefault = 4


class cudaStreamCaptureMode(enum.IntEnum):
    cudaStreamCaptureModeGlobal = 0
    cudaStreamCaptureModeThreadLocal = 1
    cudaStreamCaptureModeRelaxed = 2


class cudaDeviceAttr(enum.IntEnum):
    cudaDevAttrIntegrated = 18
    cudaDevAttrComputeCapabilityMajor = 75
    cudaDevAttrComputeCapabilityMinor = 76
    cudaDevAttrManagedMemory = 83
    cudaDevAttrConcurrentManagedAccess = 89


cudaStreamDefault, cudaStreamNonBlocking = 0, 1
cudaEventDefault, cudaEventBlockingSync, cudaEventDisableTiming = 0, 1, 2
cudaMemAttachGlobal, cudaMemAttachHost, cudaMemAttachSingle = 1, 2, 4
cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped = 0, 1, 2
cudaDeviceScheduleAuto, cudaDeviceScheduleSpin, cudaDeviceScheduleYield = 0, 1, 2
cudaDeviceScheduleBlockingSync, cudaDeviceScheduleMask = 4, 7


class _Handle:
    """A handle of the runtime's, which ``int`` turns into a number."""

    def __init__(self, value: Any = None) -> None:
        self.value = next(device.HANDLES) if value is None else value

    def __int__(self) -> int:
        return int(self.value)

    def getPtr(self) -> int:
        return id(self)


class cudaStream_t(_Handle):
    pass


class cudaEvent_t(_Handle):
    flags = 0
    stream: device.Stream | None = None  # that it was recorded on
    time_s = 0.0


class cudaGraph_t(_Handle):
    work: tuple[Callable[[], None], ...] = ()


class cudaGraphExec_t(cudaGraph_t):
    pass


_TEXTS = {
    0: b"no error",
    1: b"invalid argument",
    2: b"out of memory",
    35: b"CUDA driver version is insufficient for CUDA runtime version",
    100: b"no CUDA-capable device is detected",
    700: b"an illegal memory access was encountered",
    901: b"operation failed due to a previous error during capture",
}
_NO_DRIVER = cudaError_t.cudaErrorInsufficientDriver
_OK, _INVALID = cudaError_t.cudaSuccess, cudaError_t.cudaErrorInvalidValue
_Call = Callable[..., "tuple[Any, ...]"]


def _call(n_results: int = 0) -> Callable[[_Call], _Call]:
    """A call of the runtime: kept in CALLS; without a driver none works."""

    def decorate(function: _Call) -> _Call:
        @functools.wraps(function)
        def call(*arguments: Any) -> tuple[Any, ...]:
            device.CALLS.append(function.__name__)
            if not device.machine().n_devices:
                return (_NO_DRIVER, *[None] * n_results)
            results = function(*arguments)
            return (*results, *[None] * (1 + n_results - len(results)))

        return call

    return decorate


def _stream(handle: Any) -> device.Stream:
    return device.STREAMS[int(handle or 0)]


def cudaGetErrorString(error: cudaError_t) -> tuple[cudaError_t, bytes]:
    return _OK, _TEXTS.get(int(error), b"unknown error")


def cudaGetErrorName(error: cudaError_t) -> tuple[cudaError_t, bytes]:
    return _OK, cudaError_t(error).name.encode()


@_call()
def cudaGetLastError() -> tuple[Any, ...]:
    return (_OK,)


@_call(1)
def cudaGetDeviceCount() -> tuple[Any, ...]:
    return _OK, device.machine().n_devices


@_call(1)
def cudaDeviceGetAttribute(attr: cudaDeviceAttr, number: int) -> tuple[Any, ...]:
    machine = device.machine()
    return _OK, {
        18: int(machine.is_integrated),
        75: machine.capability[0],
        76: machine.capability[1],
        83: 1,
        89: int(not machine.is_integrated),
    }[int(attr)]


@_call(1)
def cudaRuntimeGetVersion() -> tuple[Any, ...]:
    return _OK, 12060


@_call(1)
def cudaDriverGetVersion() -> tuple[Any, ...]:
    return _OK, 12060


@_call(2)
def cudaMemGetInfo() -> tuple[Any, ...]:
    used = sum(block.size for block in device.BLOCKS.values() if block.kind != "pinned")
    return _OK, device.memory_bytes() - used, device.memory_bytes()


@_call()
def cudaSetDevice(number: int) -> tuple[Any, ...]:
    return (_OK if number == 0 else cudaError_t.cudaErrorInvalidDevice,)


@_call()
def cudaSetDeviceFlags(flags: int) -> tuple[Any, ...]:
    if os.environ.get("STAND_IN_FLAGS_ONCE") and device.DEVICE_FLAGS:
        return (cudaError_t.cudaErrorSetOnActiveProcess,)
    device.DEVICE_FLAGS.append(flags)
    return (_OK,)


def _allocate(kind: str, size: int) -> tuple[Any, ...]:
    address = device.allocate(kind, size)
    return (_OK, address) if address else (cudaError_t.cudaErrorMemoryAllocation,)


@_call(1)
def cudaMalloc(size: int) -> tuple[Any, ...]:
    return _allocate("device", size)


@_call(1)
def cudaMallocManaged(size: int, flags: int) -> tuple[Any, ...]:
    if flags not in {cudaMemAttachGlobal, cudaMemAttachHost}:
        return (_INVALID,)
    return _allocate("managed", size)


@_call(1)
def cudaHostAlloc(size: int, flags: int) -> tuple[Any, ...]:
    return _allocate("pinned", size)


@_call()
def cudaFree(devPtr: int) -> tuple[Any, ...]:
    block = device.BLOCKS.get(int(devPtr))
    if block is None or block.kind == "pinned":
        return (_INVALID,)
    del device.BLOCKS[int(devPtr)]
    return (_OK,)


@_call()
def cudaFreeHost(ptr: int) -> tuple[Any, ...]:
    block = device.BLOCKS.get(int(ptr))
    if block is None or block.kind != "pinned":
        return (_INVALID,)
    del device.BLOCKS[int(ptr)]
    return (_OK,)


def _copy(dst: int, src: int, count: int, kind: cudaMemcpyKind, handle: Any) -> tuple[Any, ...]:
    to_device, from_device = kind in {1, 3}, kind in {2, 3}
    if (to_device and not device.holds(dst, count)) or (
        from_device and not device.holds(src, count)
    ):
        return (_INVALID,)
    try:
        _stream(handle).put(lambda: ctypes.memmove(dst, src, count) and None)
    except device.CaptureError:
        return (cudaError_t.cudaErrorStreamCaptureInvalidated,)
    return (_OK,)


def _flush(stream: device.Stream) -> tuple[Any, ...]:
    try:
        stream.flush()
    except device.AddressError:
        return (cudaError_t.cudaErrorIllegalAddress,)
    return (_OK,)


@_call()
def cudaMemcpy(dst: int, src: int, count: int, kind: cudaMemcpyKind) -> tuple[Any, ...]:
    error = _copy(dst, src, count, kind, 0)
    return error if error[0] != _OK else _flush(_stream(0))


@_call()
def cudaMemcpyAsync(
    dst: int, src: int, count: int, kind: cudaMemcpyKind, stream: Any
) -> tuple[Any, ...]:
    return _copy(dst, src, count, kind, stream)


@_call()
def cudaStreamAttachMemAsync(
    stream: Any,
    devPtr: int,
    length: int,
    flags: int,
) -> tuple[Any, ...]:
    block = device.BLOCKS.get(int(devPtr))
    if block is None or block.kind != "managed" or length not in {0, block.size}:
        return (_INVALID,)
    if _stream(stream).captured is not None:
        return (cudaError_t.cudaErrorStreamCaptureUnsupported,)
    block.attached.append(flags)
    return (_OK,)


@_call(1)
def cudaStreamCreateWithFlags(flags: int) -> tuple[Any, ...]:
    stream = cudaStream_t()
    device.STREAMS[int(stream)] = device.Stream(int(stream), flags)
    return _OK, stream


@_call()
def cudaStreamDestroy(stream: Any) -> tuple[Any, ...]:
    return (_OK if device.STREAMS.pop(int(stream), None) else _INVALID,)


@_call()
def cudaStreamSynchronize(stream: Any) -> tuple[Any, ...]:
    found = _stream(stream)
    if found.captured is not None:
        found.is_broken = True
        return (cudaError_t.cudaErrorStreamCaptureUnsupported,)
    found.n_waits += 1
    return _flush(found)


@_call()
def cudaStreamQuery(stream: Any) -> tuple[Any, ...]:
    return _flush(_stream(stream))


@_call()
def cudaDeviceSynchronize() -> tuple[Any, ...]:
    errors = [_flush(stream) for stream in list(device.STREAMS.values())]
    return max(errors)


@_call()
def cudaStreamBeginCapture(stream: Any, mode: cudaStreamCaptureMode) -> tuple[Any, ...]:
    found = _stream(stream)
    if not int(stream or 0) or found.captured is not None:
        return (cudaError_t.cudaErrorStreamCaptureUnsupported,)
    found.captured, found.is_broken = [], False
    return (_OK,)


@_call(1)
def cudaStreamEndCapture(stream: Any) -> tuple[Any, ...]:
    found = _stream(stream)
    if found.captured is None:
        return (_INVALID,)
    graph = cudaGraph_t()
    graph.work, found.captured = tuple(found.captured), None
    if found.is_broken:
        return (cudaError_t.cudaErrorStreamCaptureInvalidated,)
    return _OK, graph


@_call(1)
def cudaGraphInstantiateWithFlags(graph: cudaGraph_t, flags: int) -> tuple[Any, ...]:
    made = cudaGraphExec_t()
    made.work = graph.work
    return _OK, made


@_call()
def cudaGraphLaunch(graphExec: cudaGraphExec_t, stream: Any) -> tuple[Any, ...]:
    for work in graphExec.work:
        _stream(stream).put(work)
    return (_OK,)


@_call()
def cudaGraphExecDestroy(graphExec: cudaGraphExec_t) -> tuple[Any, ...]:
    return (_OK,)


@_call()
def cudaGraphDestroy(graph: cudaGraph_t) -> tuple[Any, ...]:
    return (_OK,)


@_call(1)
def cudaEventCreateWithFlags(flags: int) -> tuple[Any, ...]:
    event = cudaEvent_t()
    event.flags = flags
    return _OK, event


@_call()
def cudaEventRecord(event: cudaEvent_t, stream: Any) -> tuple[Any, ...]:
    event.stream = _stream(stream)
    if not event.flags & cudaEventDisableTiming:
        event.stream.put(lambda: setattr(event, "time_s", time.perf_counter()))
    return (_OK,)


@_call()
def cudaEventQuery(event: cudaEvent_t) -> tuple[Any, ...]:
    return cudaEventSynchronize(event)


@_call()
def cudaEventSynchronize(event: cudaEvent_t) -> tuple[Any, ...]:
    return _flush(event.stream) if event.stream is not None else (_OK,)


@_call(1)
def cudaEventElapsedTime(start: cudaEvent_t, end: cudaEvent_t) -> tuple[Any, ...]:
    if (start.flags | end.flags) & cudaEventDisableTiming:
        return (cudaError_t.cudaErrorInvalidResourceHandle,)
    return _OK, (end.time_s - start.time_s) * 1e3


@_call()
def cudaEventDestroy(event: cudaEvent_t) -> tuple[Any, ...]:
    return (_OK,)
