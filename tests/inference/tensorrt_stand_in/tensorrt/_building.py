"""The builder: checks what TensorRT checks, then keeps the ONNX file and the settings as a plan.

STAND_IN_STEP_S: seconds that a layer takes which the timing cache lacks. STAND_IN_BUILD_DIES=1:
the process is killed while it builds, as by the kernel for its memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

import stand_in_device as device

from tensorrt._layers import make_layers, runs_on_dla
from tensorrt._release import (
    CLASSES,
    ENUMS,
    MAJOR,
    SEVERITIES,
    VERSION,
    IHostMemory,
    base,
    published,
    settable,
)

MAGIC = b"ftrt-stand-in\n"
_FLAG = ENUMS["BuilderFlag"]
_TYPE = ENUMS["DataType"]
_DEVICE = ENUMS["DeviceType"]
_CALIBRATED = ("get_batch_size", "get_batch", "read_calibration_cache", "write_calibration_cache")
_ALGORITHMS = {
    "IInt8Calibrator": None,
    "IInt8LegacyCalibrator": "LEGACY_CALIBRATION",
    "IInt8EntropyCalibrator": "ENTROPY_CALIBRATION",
    "IInt8EntropyCalibrator2": "ENTROPY_CALIBRATION_2",
    "IInt8MinMaxCalibrator": "MINMAX_CALIBRATION",
}
for _name in _ALGORITHMS:
    CLASSES[_name] = base(_name, _CALIBRATED)
if MAJOR >= 10:
    CLASSES["IProgressMonitor"] = base(
        "IProgressMonitor", ("phase_start", "step_complete", "phase_finish")
    )


class _RefusedError(Exception):
    """The builder gives up: a message at severity ERROR."""


class ITimingCache:
    """The measured times of layers, by what they are."""

    def __init__(self, entries: dict[str, float]) -> None:
        self._entries = entries

    def serialize(self) -> IHostMemory:
        return IHostMemory(json.dumps({"version": VERSION, "entries": self._entries}).encode())


class IOptimizationProfile:
    """Ranges of the shapes of inputs."""

    def __init__(self) -> None:
        self._shapes: dict[str, tuple[tuple[int, ...], ...]] = {}

    def set_shape(self, input: str, min: Any, opt: Any, max: Any) -> None:
        if not len(min) == len(opt) == len(max):
            raise ValueError("The dimensions do not have the same length.")
        self._shapes[input] = (tuple(min), tuple(opt), tuple(max))

    def __bool__(self) -> bool:
        return all(
            low <= usual <= high
            for shapes in self._shapes.values()
            for low, usual, high in zip(*shapes, strict=True)
        )


class IBuilderConfig:
    """How a network is built."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._flag_bits = 1 << int(_FLAG.TF32)
        self._profiles: list[Any] = []
        self._pools: dict[int, int] = {}
        self._cache: Any = None
        self._devices: dict[str, Any] = {}

    int8_calibrator = settable("int8_calibrator", None)
    default_device_type = settable("default_device_type", _DEVICE.GPU)
    DLA_core = settable("DLA_core", -1)
    profiling_verbosity = settable(
        "profiling_verbosity", ENUMS["ProfilingVerbosity"].LAYER_NAMES_ONLY
    )
    builder_optimization_level = settable("builder_optimization_level", 3)
    progress_monitor = settable("progress_monitor", None)

    def set_flag(self, flag: Any) -> None:
        self._flag_bits |= 1 << int(flag)

    def clear_flag(self, flag: Any) -> None:
        self._flag_bits &= ~(1 << int(flag))

    def get_flag(self, flag: Any) -> bool:
        return bool(self._flag_bits >> int(flag) & 1)

    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None:
        self._pools[int(pool)] = pool_size

    def add_optimization_profile(self, profile: Any) -> int:
        self._profiles.append(profile)
        return len(self._profiles) - 1 if profile else -1

    def set_calibration_profile(self, profile: Any) -> bool:
        return bool(profile)

    def create_timing_cache(self, serialized_timing_cache: bytes) -> Any:
        made = CLASSES["ITimingCache"]
        if not serialized_timing_cache:
            return made({})
        try:
            found = json.loads(bytes(serialized_timing_cache))
        except ValueError:
            self._logger.log(SEVERITIES.WARNING, "The timing cache is damaged and is not used!")
            return made({})
        if found["version"] != VERSION:
            text = f"of TensorRT {found['version']}: The timing cache will not be used!"
            self._logger.log(SEVERITIES.WARNING, f"A timing cache was {text}")
            return made({})
        return made(dict(found["entries"]))

    def set_timing_cache(self, cache: Any, ignore_mismatch: bool) -> bool:
        self._cache = cache
        return True

    def get_timing_cache(self) -> Any:
        return self._cache

    def set_device_type(self, layer: Any, device_type: Any) -> None:
        self._devices[layer.name] = device_type

    def get_device_type(self, layer: Any) -> Any:
        return self._devices.get(layer.name, self.default_device_type)

    def can_run_on_DLA(self, layer: Any) -> bool:
        return runs_on_dla(layer._node.op_type)


class Builder:
    """Builds networks."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        if not device.machine().n_devices:
            text = "CUDA initialization failure with error: 35. Please check your CUDA installation"
            logger.log(SEVERITIES.INTERNAL_ERROR, text)
            raise TypeError("pybind11::init(): factory function returned nullptr")

    logger = property(lambda self: self._logger)
    num_DLA_cores = property(lambda self: device.machine().n_dla_cores)
    platform_has_fast_fp16 = property(lambda self: True)
    platform_has_fast_int8 = property(lambda self: True)

    def create_network(self, flags: int = 0) -> Any:
        return CLASSES["INetworkDefinition"](self._logger, flags)

    def create_builder_config(self) -> Any:
        return CLASSES["IBuilderConfig"](self._logger)

    def create_optimization_profile(self) -> Any:
        return CLASSES["IOptimizationProfile"]()

    def build_serialized_network(self, network: Any, config: Any) -> IHostMemory | None:
        try:
            return _build(network, config, self._logger)
        except _RefusedError as error:
            self._logger.log(SEVERITIES.ERROR, str(error))
            return None


def _build(network: Any, config: Any, logger: Any) -> IHostMemory:
    explicit = 1 << int(ENUMS["NetworkDefinitionCreationFlag"].EXPLICIT_BATCH)
    if MAJOR < 10 and not network._flags & explicit:
        raise _RefusedError(
            "Error Code 3: API Usage Error (EXPLICIT_BATCH is required by the parser)"
        )
    if network._model is None:
        raise _RefusedError("Error Code 4: Internal Error (Network must have at least one output)")
    on_dla = frozenset(
        layer.name for layer in network._layers if config.get_device_type(layer) == _DEVICE.DLA
    )
    is_typed = MAJOR >= 10 and network.get_flag(
        ENUMS["NetworkDefinitionCreationFlag"].STRONGLY_TYPED
    )
    low = [name for name in ("FP16", "BF16", "INT8", "FP8") if name in _FLAG.__members__]
    low = [name for name in low if config.get_flag(_FLAG[name])]
    if is_typed and low:
        raise _RefusedError(
            "Error Code 3: API Usage Error (a strongly typed network takes no precision flags)"
        )
    _check_profiles(network, config)
    nodes = [(layer.name, layer._node) for layer in network._layers]
    if on_dla:
        _check_dla(network, config, [node for node in nodes if node[0] in on_dla], low)
    if "INT8" in low:
        _calibrate(network, config, logger, nodes)
    content = network._model.SerializeToString()
    if len(content) > device.memory_bytes():
        logger.log(
            SEVERITIES.WARNING, f"Requested amount of GPU memory ({len(content)} bytes) could not"
            " be allocated. There may not be enough free memory for allocation to succeed."
        )  # fmt: skip
        raise _RefusedError("Error Code 2: OutOfMemory (no further information)")
    layers = make_layers(nodes, on_dla=on_dla, is_low=bool(low))
    _time(layers, config, logger)
    verbosity = ENUMS["ProfilingVerbosity"]
    header = {
        "version": VERSION,
        "capability": device.machine().capability,
        "device": device.machine().name,
        "dla_core": int(config.DLA_core) if on_dla else -1,
        "precisions": low,
        "allows_tf32": config.get_flag(_FLAG.TF32),
        "is_detailed": config.profiling_verbosity == verbosity.DETAILED,
        "layers": layers,
        "inputs": [_spec(each) for each in network._inputs],
        "outputs": [_spec(each) for each in network._outputs],
        "on_host": [each.name for each in network._inputs if _sets_shape(each.name, nodes)],
        "profiles": [profile._shapes for profile in config._profiles],
    }
    text = json.dumps(header).encode()
    return IHostMemory(MAGIC + len(text).to_bytes(8, "little") + text + content)


def _sets_shape(name: str, nodes: Sequence[tuple[str, Any]]) -> bool:
    """Whether the values of an input are a shape: TensorRT then reads them on the host."""
    return any(
        node.op_type in {"Reshape", "Expand", "Tile"} and name in node.input[1:]
        for _, node in nodes
    )


def _spec(tensor: Any) -> tuple[str, tuple[int, ...], str]:
    return tensor.name, tuple(tensor.shape), tensor.dtype.name


def _check_profiles(network: Any, config: Any) -> None:
    for tensor in network._inputs:
        if -1 not in tensor.shape:
            continue
        if not config._profiles:
            raise _RefusedError(
                "Error Code 4: API Usage Error (Network has dynamic or shape inputs, but no"
                " optimization profile has been defined.)"
            )
        if any(tensor.name not in profile._shapes for profile in config._profiles):
            raise _RefusedError(
                f"Error Code 4: Internal Error ({tensor.name}: optimization profile is missing"
                " values for shape input)"
            )


def _check_dla(
    network: Any, config: Any, nodes: Sequence[tuple[str, Any]], low: Sequence[str]
) -> None:
    if not 0 <= config.DLA_core < device.machine().n_dla_cores:
        raise _RefusedError("Error Code 3: API Usage Error (DLA core is out of range)")
    if not {"FP16", "INT8"} & set(low):
        raise _RefusedError(
            "Error Code 4: Internal Error (DLA only supports FP16 and INT8 precision type."
            " Switching DLA's default precision to FP16 failed)"
        )
    if any(-1 in tensor.shape for tensor in network._inputs):
        raise _RefusedError("Error Code 4: Internal Error (DLA does not support dynamic shapes)")
    lacking = [(name, node) for name, node in nodes if not runs_on_dla(node.op_type)]
    if lacking and not config.get_flag(_FLAG.GPU_FALLBACK):
        name, node = lacking[0]
        raise _RefusedError(
            f"Error Code 4: Internal Error (Layer {name} ({node.op_type}) is not supported on DLA"
            " and GPU fallback is not enabled)"
        )


def _calibrate(network: Any, config: Any, logger: Any, nodes: Sequence[tuple[str, Any]]) -> None:
    if any(node.op_type == "QuantizeLinear" for _, node in nodes):
        return
    calibrator = config.int8_calibrator
    if calibrator is None:
        raise _RefusedError(
            "Error Code 4: Internal Error (Calibration failure occurred with no scaling factors"
            " detected. This could be due to no int8 calibrator or insufficient custom scales for"
            " network layers. Please see int8 sample to setup calibration correctly.)"
        )
    kind = next(name for name in _ALGORITHMS if isinstance(calibrator, CLASSES[name]))
    title = f"TRT-{VERSION.replace('.', '0')}-{kind.removeprefix('IInt8')}"
    cache = calibrator.read_calibration_cache()
    if cache and bytes(cache).decode().partition("\n")[0] == title:
        logger.log(SEVERITIES.INFO, "Reading Calibration Cache for calibrator: " + kind)
        return
    names = [tensor.name for tensor in network._inputs]
    shapes = config._profiles[0]._shapes if config._profiles else {}
    largest: dict[str, float] = {}
    n_batches = 0
    if calibrator.get_batch_size() < 1:
        raise _RefusedError(
            "Error Code 3: API Usage Error (batch size of the calibrator is below 1)"
        )
    while batch := calibrator.get_batch(names):
        n_batches += 1
        for tensor, address in zip(network._inputs, batch, strict=True):
            shape = shapes[tensor.name][1] if tensor.name in shapes else tensor.shape
            most = _largest(int(address), shape, tensor.dtype.name)
            largest[tensor.name] = max(most, largest.get(tensor.name, 0.0))
    if not n_batches:
        raise _RefusedError("Error Code 4: Internal Error (Calibration got no batch)")
    lines = [title, *(f"{name}: {most:08.6g}" for name, most in largest.items())]
    calibrator.write_calibration_cache("\n".join(lines).encode())


def _largest(address: int, shape: Sequence[int], type_name: str) -> float:
    """The largest magnitude in a tensor; a fault of the process where it is no device memory."""
    import numpy as np

    types = {"FLOAT": "float32", "HALF": "float16", "INT32": "int32", "INT64": "int64"}
    dtype = np.dtype(types.get(type_name, "uint8"))
    size = int(np.prod(shape)) * dtype.itemsize
    if not device.holds(address, size):
        raise _RefusedError("Error Code 1: Cuda Runtime (an illegal memory access was encountered)")
    data = np.frombuffer(ctypes.string_at(address, size), dtype)
    return float(np.abs(data.astype(np.float64)).max(initial=0.0))


def _time(layers: list[dict[str, Any]], config: Any, logger: Any) -> None:
    """Time the layers that the timing cache lacks, and say how far that is."""
    cache = config._cache
    known = {} if cache is None else cache._entries
    used = "Local timing cache in use" if cache is None else "Global timing cache in use"
    logger.log(SEVERITIES.INFO, f"{used}. Profiling results in this builder pass will be stored.")
    monitor = config.progress_monitor if MAJOR >= 10 else None
    if monitor is not None:
        monitor.phase_start("Building Engine", None, 1)
        monitor.phase_start("Tactic Selection", "Building Engine", len(layers))
    for step, layer in enumerate(layers):
        if os.environ.get("STAND_IN_BUILD_DIES") and step == len(layers) // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        text = json.dumps([layer[key] for key in ("Name", "LayerType")]) + str(config._flag_bits)
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        if key not in known:
            time.sleep(float(os.environ.get("STAND_IN_STEP_S", "0")))
            known[key] = 1.0
        if monitor is not None and not monitor.step_complete("Tactic Selection", step):
            raise _RefusedError(
                "Error Code 10: Internal Error (the build was cancelled by the monitor)"
            )
    if monitor is not None:
        monitor.phase_finish("Tactic Selection")
        monitor.phase_finish("Building Engine")


for _impl in (ITimingCache, IOptimizationProfile, IBuilderConfig, Builder):
    published(_impl)
