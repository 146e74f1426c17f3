"""Where the inputs and outputs of an engine are, for the device and for the host.

Where the GPU shares the host's memory both use the same managed bytes, and calls say who uses them
next. Elsewhere each has its own, the host's pinned, and they are copied.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

from mansard.core.errors import MeasurementError
from mansard.inference.engines.tensorrt.cuda_calls import Cuda, Stream

# The types of TensorRT's tensors as NumPy's; bfloat16, which NumPy lacks, as its bits.
_TYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "INT8": "int8",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "BOOL": "bool",
    "BF16": "uint16",
}


def numpy_type(type_name: str, tensor: str) -> Any:
    """The NumPy type of what TensorRT calls ``type_name``; raises MeasurementError without one."""
    import numpy as np

    if type_name not in _TYPES:
        raise MeasurementError(f"the type of {tensor!r}, {type_name}, cannot be fed")
    return np.dtype(_TYPES[type_name])


class Buffer:
    """The bytes of one tensor, by their addresses; ``host`` is an array on those of the host."""

    def __init__(self, cuda: Cuda, shape: tuple[int, ...], dtype: Any, *, is_managed: bool) -> None:
        import numpy as np

        n_bytes = int(np.prod(shape)) * dtype.itemsize
        self._cuda, self._is_managed = cuda, is_managed
        self._frees: list[Callable[[], None]] = []
        with contextlib.ExitStack() as made:  # all or nothing
            made.callback(self.close)
            if is_managed:
                host = self.device = cuda.allocate_managed(n_bytes)
                self._frees.append(lambda: cuda.free(self.device))
            else:
                self.device = cuda.allocate(n_bytes)
                self._frees.append(lambda: cuda.free(self.device))
                host = cuda.allocate_pinned(n_bytes)
                self._frees.append(lambda: cuda.free_pinned(host))
            made.pop_all()
        self.host_address, self._n_bytes = host, n_bytes
        block = (ctypes.c_char * max(1, n_bytes)).from_address(host)
        self.host = np.frombuffer(block, dtype, n_bytes // dtype.itemsize).reshape(shape)

    def to_device(self, stream: Stream) -> None:
        """Let the device use what is in ``host``."""
        if self._is_managed:
            stream.attach(self.device, to_host=False)
        else:
            stream.copy(self.device, self.host_address, self._n_bytes, to_device=True)

    def to_host(self, stream: Stream) -> None:
        """Let ``host`` be used once the stream is done: it holds what the device wrote."""
        if self._is_managed:
            stream.attach(self.device, to_host=True)
        else:
            stream.copy(self.host_address, self.device, self._n_bytes, to_device=False)

    def lend(self, stream: Stream, *, to_host: bool) -> None:
        """Say who uses it next, where both use the same bytes; nothing is copied elsewhere."""
        if self._is_managed:
            stream.attach(self.device, to_host=to_host)

    def close(self) -> None:
        """Give the memory back; ``host`` must not be used any more."""
        while self._frees:
            self._frees.pop()()


class GrowingBuffer:
    """The bytes of an output whose shape depends on data: TensorRT asks for them in each call."""

    def __init__(self, cuda: Cuda, dtype: Any) -> None:
        self.shape: tuple[int, ...] = ()
        self._cuda, self._dtype, self._address, self._n_bytes = cuda, dtype, 0, 0

    def place(self, n_bytes: int) -> int:
        """An address with room for so many bytes; 0 where there is too little memory."""
        if n_bytes > self._n_bytes or not self._address:
            self.close()
            try:
                self._address = self._cuda.allocate(n_bytes)
            except MeasurementError:
                return 0
            self._n_bytes = n_bytes
        return self._address

    def array(self) -> Any:
        """What the device wrote, copied to the host."""
        import numpy as np

        made = np.empty(self.shape, self._dtype)
        if made.size:
            self._cuda.copy_out(made, self._address)
        return made

    def close(self) -> None:
        if self._address:
            self._cuda.free(self._address)
            self._address = self._n_bytes = 0


def allocator(bindings: Any, buffer: GrowingBuffer) -> Any:
    """``buffer`` as TensorRT asks for it; the caller keeps the result while the engine runs."""

    class Allocator(bindings.IOutputAllocator):  # type: ignore[misc]
        """Places the output in ``buffer``."""

        def __init__(self) -> None:
            bindings.IOutputAllocator.__init__(self)

        def reallocate_output(self, _tensor: str, _memory: int, size: int, *_: Any) -> int:
            return buffer.place(size)

        reallocate_output_async = reallocate_output  # what TensorRT 10 asks instead

        def notify_shape(self, _tensor: str, shape: Any) -> None:
            buffer.shape = tuple(shape)

    return Allocator()
