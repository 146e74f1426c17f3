"""An engine with its inputs and outputs in place: run one by one, or as a CUDA graph.

Where the GPU shares the host's memory both use the same managed bytes, and calls say who uses them
next. Elsewhere each has its own, the host's pinned, and they are copied.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from mansard.core.errors import MeasurementError
from mansard.core.records import Copies, Waiting
from mansard.inference.engines.tensorrt.cuda_calls import Cuda, Graph, Stream
from mansard.inference.engines.tensorrt.messages import collect_messages, without_places

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
    """The memory of one tensor; ``host`` is a NumPy array on the host's side."""

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
        """Make ``host`` available to the device."""
        if self._is_managed:
            stream.attach(self.device, to_host=False)
        else:
            stream.copy(self.device, self.host_address, self._n_bytes, to_device=True)

    def to_host(self, stream: Stream) -> None:
        """Make the device's result available in ``host`` once the stream is done."""
        if self._is_managed:
            stream.attach(self.device, to_host=True)
        else:
            stream.copy(self.host_address, self.device, self._n_bytes, to_device=False)

    def lend(self, stream: Stream, *, to_host: bool) -> None:
        """Announce which side uses managed memory next; does nothing for separate memory."""
        if self._is_managed:
            stream.attach(self.device, to_host=to_host)

    def close(self) -> None:
        """Free the memory; ``host`` must not be used afterwards."""
        while self._frees:
            self._frees.pop()()


class GrowingBuffer:
    """The memory of an output whose shape depends on data: TensorRT allocates it in each call."""

    def __init__(self, cuda: Cuda, dtype: Any) -> None:
        self.shape: tuple[int, ...] = ()
        self._cuda, self._dtype, self._address, self._n_bytes = cuda, dtype, 0, 0

    def place(self, n_bytes: int) -> int:
        """The address of at least ``n_bytes`` bytes; 0 where there is too little memory."""
        if n_bytes > self._n_bytes or not self._address:
            self.close()
            try:
                self._address = self._cuda.allocate(n_bytes)
            except MeasurementError:
                return 0
            self._n_bytes = n_bytes
        return self._address

    def array(self) -> Any:
        """The result, copied to the host."""
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
    """An output allocator for ``buffer``; the caller keeps a reference while the engine runs."""

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


_IN, _OUT = ("in", "both"), ("out", "both")
_NO_REASON = "TensorRT gives no reason"


class ExecutionContext:
    """One context of an engine.

    Raises MeasurementError where it cannot be made, ``capture`` where it cannot be a graph.
    """

    def __init__(
        self,
        bindings: Any,
        engine: Any,
        cuda: Cuda,
        inputs: Mapping[str, Any],
        waiting: Waiting,
        profiler: Any = None,
    ) -> None:
        self._bindings, self._engine, self._cuda = bindings, engine, cuda
        self._graph: Graph | None = None
        self._allocators: list[Any] = []  # TensorRT holds none of them
        self._held = contextlib.ExitStack()
        with contextlib.ExitStack() as made:
            made.callback(self.close)
            self._stream = Stream(cuda, waiting)
            self._held.callback(self._stream.close)
            self._context = self._checked("make a context", engine.create_execution_context)
            self._held.callback(self._drop_context)
            self._profiler = profiler
            if profiler is not None:  # times are taken after each call, also of a graph
                self._context.profiler = profiler
                self._context.enqueue_emits_profile = False
            self._inputs = self._place_inputs(inputs)
            self._outputs = self._place_outputs()
            every = self._outputs.values()
            self._fixed = [buffer for buffer in every if isinstance(buffer, Buffer)]
            self._growing = [buffer for buffer in every if isinstance(buffer, GrowingBuffer)]
            made.pop_all()

    def capture(self) -> None:
        """Record a call as a graph that later calls launch."""
        self.run()  # work that TensorRT defers to the first call cannot be recorded
        self._stream.begin_capture()
        failed: MeasurementError | None = None
        try:
            self._enqueue()
        except MeasurementError as error:
            failed = error
        try:
            self._graph = self._stream.end_capture()
        except MeasurementError as error:
            raise failed or error from None
        self._held.callback(self._graph.close)
        if failed is not None:
            raise failed
        self.run()

    def run(self, copies: Copies = "none") -> None:
        """Run once with the copies that belong to a call, and wait."""
        self._begin(copies)
        self._start()
        self._end(copies)
        self._stream.wait()
        if self._profiler is not None:
            self._checked("time its layers", self._context.report_to_profiler)
        if copies in _OUT:
            for growing in self._growing:
                growing.array()

    def time_enqueue(self) -> tuple[float, float] | None:
        """Seconds of the host to enqueue a call without copies, and of the GPU to run it.

        None where a call returns when the sizes of its outputs are known, and so waits.
        """
        return None if self._growing else self._stream.time(self._start)

    def feed(self, inputs: Mapping[str, Any]) -> None:
        """Set the inputs of the next runs, host arrays by name."""
        buffers = [self._inputs[name] for name in inputs]
        for buffer in buffers:
            buffer.lend(self._stream, to_host=True)
        self._stream.wait()
        for name, array in inputs.items():
            self._inputs[name].host[...] = self._fitting(name, array)
        for buffer in buffers:
            buffer.to_device(self._stream)
        self._stream.wait()

    def fetch(self) -> dict[str, Any]:
        """Every output of the last run by name, as arrays that the caller may keep."""
        for buffer in self._fixed:
            buffer.to_host(self._stream)
        self._stream.wait()
        arrays = {
            name: buffer.host.copy() if isinstance(buffer, Buffer) else buffer.array()
            for name, buffer in self._outputs.items()
        }
        for buffer in self._fixed:
            buffer.lend(self._stream, to_host=False)
        return arrays

    def close(self) -> None:
        """Free its memory."""
        self._graph = None
        self._held.close()

    def _begin(self, copies: Copies) -> None:
        if copies in _IN:
            for buffer in self._inputs.values():
                buffer.to_device(self._stream)
        if copies in _OUT:
            for buffer in self._fixed:
                buffer.lend(self._stream, to_host=False)

    def _end(self, copies: Copies) -> None:
        if copies in _OUT:
            for buffer in self._fixed:
                buffer.to_host(self._stream)
        if copies in _IN:
            for buffer in self._inputs.values():
                buffer.lend(self._stream, to_host=True)

    def _start(self) -> None:
        if self._graph is not None:
            self._graph.launch()
        else:
            self._enqueue()

    def _drop_context(self) -> None:
        self._context = None

    def _enqueue(self) -> None:
        self._checked("run it", lambda: self._context.execute_async_v3(self._stream.handle))

    def _place_inputs(self, arrays: Mapping[str, Any]) -> dict[str, Buffer]:
        placed = {}
        for name in self._names(self._bindings.TensorIOMode.INPUT):
            if name not in arrays:
                raise MeasurementError(f"nothing is fed to the input {name!r}")
            array = self._fitting(name, arrays[name])
            shape = array.shape
            self._checked("take the shape", lambda: self._context.set_input_shape(name, shape))  # noqa: B023
            placed[name] = buffer = self._buffer(array.shape, array.dtype)
            buffer.host[...] = array
            buffer.to_device(self._stream)
            self._context.set_tensor_address(name, self._address(name, buffer))
        self._stream.wait()
        return placed

    def _place_outputs(self) -> dict[str, Buffer | GrowingBuffer]:
        placed: dict[str, Buffer | GrowingBuffer] = {}
        for name in self._names(self._bindings.TensorIOMode.OUTPUT):
            dtype, shape = self._type_of(name), tuple(self._context.get_tensor_shape(name))
            if all(size >= 0 for size in shape):
                placed[name] = buffer = self._buffer(shape, dtype)
                self._context.set_tensor_address(name, self._address(name, buffer))
                continue
            placed[name] = growing = GrowingBuffer(self._cuda, dtype)
            self._held.callback(growing.close)
            self._allocators.append(allocator(self._bindings, growing))
            self._context.set_output_allocator(name, self._allocators[-1])
        return placed

    def _address(self, name: str, buffer: Buffer) -> int:
        """The memory of a tensor: on the host where its values set a shape, else on the device."""
        location = self._engine.get_tensor_location(name)
        is_hosts = location == self._bindings.TensorLocation.HOST
        return buffer.host_address if is_hosts else buffer.device

    def _buffer(self, shape: tuple[int, ...], dtype: Any) -> Buffer:
        made = Buffer(self._cuda, shape, dtype, is_managed=self._cuda.is_integrated())
        self._held.callback(made.close)
        return made

    def _names(self, mode: Any) -> list[str]:
        every = [self._engine.get_tensor_name(n) for n in range(self._engine.num_io_tensors)]
        return [name for name in every if self._engine.get_tensor_mode(name) == mode]

    def _type_of(self, name: str) -> Any:
        return numpy_type(self._engine.get_tensor_dtype(name).name, name)

    def _fitting(self, name: str, array: Any) -> Any:
        """The array in the engine's type; raises MeasurementError where values would change."""
        import numpy as np

        dtype = self._type_of(name)
        if array.dtype == dtype:
            return array
        if np.issubdtype(array.dtype, np.integer) and np.issubdtype(dtype, np.integer):
            fits = array.astype(dtype)
            if np.array_equal(fits, array):
                return fits
        raise MeasurementError(f"the input {name!r} of {array.dtype} cannot be fed as {dtype}")

    def _checked(self, what: str, call: Callable[[], Any]) -> Any:
        """What ``call`` returns; raises MeasurementError where TensorRT returns nothing.

        The reason is asked for by a second call: keeping messages takes longer than many a call.
        """
        result = call()
        if result is not None and result is not False:
            return result
        with collect_messages(self._bindings) as (_, messages):
            call()
        said = without_places(messages.errors[0]) if messages.errors else _NO_REASON
        raise MeasurementError(f"TensorRT cannot {what}: {said}")
