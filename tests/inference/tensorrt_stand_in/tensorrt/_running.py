"""Engines: a plan is run by ONNX Runtime on the CPU, in the precision of its file.

STAND_IN_NO_PROFILED_GRAPH=1: what has a profiler cannot be captured. STAND_IN_ENQUEUE_S: what the
host takes to enqueue a call.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from typing import Any

import stand_in_device as device

from tensorrt._building import MAGIC
from tensorrt._release import (
    CLASSES,
    ENUMS,
    SEVERITIES,
    VERSION,
    Dims,
    base,
    published,
    settable,
)

_NUMPY = {
    "FLOAT": "float32",
    "HALF": "float16",
    "INT8": "int8",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "BOOL": "bool",
    "BF16": "uint16",
}
_ORT_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
}
IProfiler = CLASSES["IProfiler"] = base("IProfiler", ["report_layer_time"])
_ALLOCATES = ["reallocate_output", "notify_shape"]
IOutputAllocator = CLASSES["IOutputAllocator"] = base("IOutputAllocator", _ALLOCATES)


class Runtime:
    """Reads plans."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    DLA_core = settable("DLA_core", -1)
    num_DLA_cores = property(lambda self: device.machine().n_dla_cores)

    def deserialize_cuda_engine(self, serialized_engine: Any) -> Any:
        content = bytes(serialized_engine)
        refusal = self._refusal(content)
        if refusal:
            self._logger.log(SEVERITIES.ERROR, refusal)
            return None
        start = len(MAGIC) + 8
        end = start + int.from_bytes(content[len(MAGIC) : start], "little")
        header = json.loads(content[start:end])
        return CLASSES["ICudaEngine"](header, content, end, self._logger)

    def _refusal(self, content: bytes) -> str:
        if not device.machine().n_devices:
            return "Error Code 1: Cuda Runtime (CUDA driver version is insufficient)"
        if not content.startswith(MAGIC):
            return (
                "Error Code 1: Serialization (Serialization assertion"
                " magicTagRead == kMAGIC_TAG failed. Magic tag does not match)"
            )
        start = len(MAGIC) + 8
        end = start + int.from_bytes(content[len(MAGIC) : start], "little")
        try:
            header = json.loads(content[start:end])
        except ValueError:
            return "Error Code 1: Serialization (the plan is cut or damaged)"
        return self._mismatch(header)

    def _mismatch(self, header: dict[str, Any]) -> str:
        if header["version"] != VERSION:
            return (
                "Error Code 6: API Usage Error (The engine plan file is not compatible with this"
                f" version of TensorRT, expecting library version {VERSION} got"
                f" {header['version']}, please rebuild.)"
            )
        found, here = tuple(header["capability"]), device.machine().capability
        if found != here:
            return (
                "Error Code 6: API Usage Error (The engine plan file is generated on an"
                f" incompatible device, expecting compute {here[0]}.{here[1]} got compute"
                f" {found[0]}.{found[1]}, please rebuild.)"
            )
        if header["dla_core"] >= 0 and not 0 <= self.DLA_core < device.machine().n_dla_cores:
            return "Error Code 4: Internal Error (the DLA core of the runtime is not set)"
        return ""


class ICudaEngine:
    """A plan that was read."""

    def __init__(self, header: dict[str, Any], content: bytes, end: int, logger: Any) -> None:
        self._header, self._content, self._end, self._logger = header, content, end, logger
        self._inputs = {name: (tuple(shape), kind) for name, shape, kind in header["inputs"]}
        self._outputs = {name: (tuple(shape), kind) for name, shape, kind in header["outputs"]}
        self._tensors = self._inputs | self._outputs
        self._session: Any = None

    num_io_tensors = property(lambda self: len(self._tensors))

    def get_tensor_name(self, index: int) -> str:
        return list(self._tensors)[index]

    def get_tensor_mode(self, name: str) -> Any:
        values = ENUMS["TensorIOMode"]
        if name not in self._tensors:
            return values.NONE
        return values.INPUT if name in self._inputs else values.OUTPUT

    def get_tensor_shape(self, name: str) -> Any:
        return Dims(self._tensors[name][0])

    def get_tensor_dtype(self, name: str) -> Any:
        return ENUMS["DataType"][self._tensors[name][1]]

    def get_tensor_location(self, name: str) -> Any:
        values = ENUMS["TensorLocation"]
        return values.HOST if name in self._header["on_host"] else values.DEVICE

    def create_execution_context(self, *_: Any) -> Any:
        return CLASSES["IExecutionContext"](self)

    def create_engine_inspector(self) -> Any:
        return CLASSES["EngineInspector"](self)

    def _open(self) -> Any:
        """The session that runs it."""
        if self._session is None:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.intra_op_num_threads = 1
            model = self._content[self._end :]
            self._session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
        return self._session


class EngineInspector:
    """What is in an engine, as text."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def get_engine_information(self, format: Any) -> str:
        shown = self._shown()
        if format != ENUMS["LayerInformationFormat"].JSON:
            return "\n".join(each if isinstance(each, str) else each["Name"] for each in shown)
        return json.dumps({"Layers": shown, "Bindings": list(self._engine._tensors)})

    def _shown(self) -> list[Any]:
        layers = self._engine._header["layers"]
        if not self._engine._header["is_detailed"]:
            return [layer["Name"] for layer in layers]
        return [{key: layer[key] for key in layer if key != "n_nodes"} for layer in layers]


class IExecutionContext:
    """Runs an engine at the addresses that it was given."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._shapes = {name: shape for name, (shape, _) in engine._inputs.items()}
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, Any] = {}
        self._last_ms: list[float] | None = None

    profiler = settable("profiler", None)
    enqueue_emits_profile = settable("enqueue_emits_profile", True)

    def set_input_shape(self, name: str, shape: Any) -> bool:
        declared = self._engine._inputs[name][0]
        wanted = tuple(shape)
        fits = len(declared) == len(wanted) and all(
            size in {-1, now} for size, now in zip(declared, wanted, strict=True)
        )
        for profile in self._engine._header["profiles"][:1]:
            if fits and name in profile:
                least, _, most = profile[name]
                fits = all(a <= b <= c for a, b, c in zip(least, wanted, most, strict=True))
        if not fits:
            text = "Error Code 3: API Usage Error (IExecutionContext::setInputShape:"
            text += f" {name}: {wanted} is not within the range of the optimization profile)"
            self._engine._logger.log(SEVERITIES.ERROR, text)
            return False
        self._shapes[name] = wanted
        return True

    def get_tensor_shape(self, name: str) -> Any:
        if name in self._shapes:
            return Dims(self._shapes[name])
        declared = self._engine._outputs[name][0]
        if -1 not in declared or not self._are_shapes_known():
            return Dims(declared)
        # The real one infers shapes; those of its outputs are found by running it on ones.
        if name not in self._inferred():
            return Dims(declared)
        return Dims(self._inferred()[name])

    def set_tensor_address(self, name: str, memory: int) -> bool:
        self._addresses[name] = int(memory)
        return True

    def set_output_allocator(self, name: str, output_allocator: Any) -> bool:
        self._allocators[name] = output_allocator
        return True

    def execute_async_v3(self, stream_handle: int) -> bool:
        stream = device.STREAMS[int(stream_handle)]
        emits = self.enqueue_emits_profile and self.profiler is not None
        on_dla = any(layer["LayerType"] == "DLA" for layer in self._engine._header["layers"])
        free = not emits and not on_dla and not self._allocators
        if os.environ.get("STAND_IN_NO_PROFILED_GRAPH"):
            free &= self.profiler is None
        time.sleep(float(os.environ.get("STAND_IN_ENQUEUE_S", "0")))
        try:
            stream.put(lambda: self._run(emits=emits), can_be_captured=free)
        except device.CaptureError:
            text = "Error Code 1: Cuda Runtime (operation not permitted when stream is capturing)"
            self._engine._logger.log(SEVERITIES.ERROR, text)
            return False
        if emits or self._allocators:  # it waits for the GPU
            stream.flush()
        return True

    def report_to_profiler(self) -> bool:
        if self._last_ms is None or self.profiler is None:
            return False
        for layer, ms in zip(self._engine._header["layers"], self._last_ms, strict=True):
            self.profiler.report_layer_time(layer["Name"], ms)
        return True

    def _are_shapes_known(self) -> bool:
        return all(-1 not in shape for shape in self._shapes.values())

    def _inferred(self) -> dict[str, tuple[int, ...]]:
        import onnx
        from onnx import shape_inference

        model = onnx.load_from_string(self._engine._content[self._engine._end :])
        for value in model.graph.input:
            if value.name in self._shapes:
                dims = value.type.tensor_type.shape.dim
                for dim, size in zip(dims, self._shapes[value.name], strict=True):
                    dim.dim_value = size
        del model.graph.value_info[:]
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
        found = shape_inference.infer_shapes(model, data_prop=True)
        shapes = {}
        for value in found.graph.output:
            dims = value.type.tensor_type.shape.dim
            if value.type.tensor_type.HasField("shape"):
                shapes[value.name] = tuple(
                    each.dim_value if each.HasField("dim_value") else -1 for each in dims
                )
        return shapes

    def _run(self, *, emits: bool) -> None:
        import numpy as np

        session = self._engine._open()
        feeds = {}
        for given in session.get_inputs():
            kind = np.dtype(_NUMPY[self._engine._inputs[given.name][1]])
            shape = self._shapes[given.name]
            size = int(np.prod(shape)) * kind.itemsize
            address = self._addresses.get(given.name, 0)
            if given.name in self._engine._header["on_host"]:
                _check_host(address)
            data = _read(address, size)
            array = np.frombuffer(data, kind).reshape(shape)
            feeds[given.name] = array.astype(_ORT_TYPES[given.type])
        start_s = time.perf_counter()
        results = session.run(None, feeds)
        ms = (time.perf_counter() - start_s) * 1e3
        for made, array in zip(session.get_outputs(), results, strict=True):
            kind = np.dtype(_NUMPY[self._engine._outputs[made.name][1]])
            data = np.ascontiguousarray(array, kind).tobytes()
            _write(self._place(made.name, len(data), array.shape), data)
        layers = self._engine._header["layers"]
        self._last_ms = [ms / len(layers)] * len(layers)
        if emits:
            self.report_to_profiler()

    def _place(self, name: str, size: int, shape: tuple[int, ...]) -> int:
        allocator = self._allocators.get(name)
        if allocator is None:
            return self._addresses.get(name, 0)
        address = allocator.reallocate_output(name, self._addresses.get(name, 0), size, 256)
        allocator.notify_shape(name, Dims(shape))
        return int(address or 0)


def _check_host(address: int) -> None:
    block = device.BLOCKS.get(address)
    if block is None or block.kind == "device":
        raise device.AddressError(f"{address:#x} is not the host's")


def _read(address: int, size: int) -> bytes:
    if not device.holds(address, size):
        raise device.AddressError(hex(address))
    return ctypes.string_at(address, size)


def _write(address: int, data: bytes) -> None:
    if not device.holds(address, len(data)):
        raise device.AddressError(hex(address))
    ctypes.memmove(address, data, len(data))


for _impl in (Runtime, ICudaEngine, EngineInspector, IExecutionContext):
    published(_impl)
