"""Stands in for NVIDIA's trtexec: builds and runs by the stand-in of the bindings beside it.

It prints and exports what trtexec does, in its form. STAND_IN_TRTEXEC is its version, as 10.3.0;
up to 10.x calls copy, block and enqueue unless told otherwise, from 11.0 on they copy nothing,
spin and launch a CUDA graph, and the flags of precisions are gone. STAND_IN_START_S: seconds that
a run takes before its first query. STAND_IN_QUERY_MS and STAND_IN_ENQUEUE_MS: what each query
takes of the GPU and of the host, as exported. STAND_IN_LAYER_MS: JSON, what a layer of each type
takes, and "" any other one; a query then takes their sum, within 0.2 %.
STAND_IN_GRAPH_REFUSED=1: no engine can be a graph.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

VERSION = tuple(int(part) for part in os.environ.get("STAND_IN_TRTEXEC", "10.3.0").split("."))
os.environ.setdefault("STAND_IN_TENSORRT", "8.6.2" if VERSION[0] == 8 else "10.3.0")

import tensorrt  # noqa: E402

_EVER = (
    "help onnx saveEngine loadEngine skipInference iterations duration warmUp avgRuns exportTimes"
    " exportProfile exportLayerInfo dumpProfile separateProfileRun profilingVerbosity shapes"
    " loadInputs timingCacheFile memPoolSize builderOptimizationLevel useDLACore allowGPUFallback"
    " layerDeviceTypes"
    " minShapes optShapes maxShapes noDataTransfers useSpinWait useCudaGraph noTF32"
)
_UP_TO_10 = "fp16 int8 best calib"
_OF_10 = "bf16 fp8 stronglyTyped"


def main(words: list[str]) -> int:
    """What the program does; returns its exit code."""
    digits = "".join(f"{part:02}" for part in VERSION).lstrip("0")
    title = f"TensorRT.trtexec [TensorRT v{digits}+stand-in] # trtexec {' '.join(words)}"
    print(f"&&&& RUNNING {title}")
    given = dict(_split(word) for word in words)
    if "help" in given:
        print("=== Options ===", *(f"  --{flag}" for flag in _flags()), sep="\n")
        return 0
    unknown = [flag for flag in given if flag not in _flags()]
    if unknown:
        say("E", f"Unknown option: --{unknown[0]}")
    is_done = not unknown and (_build(given) if "onnx" in given else _run(given))
    print(f"&&&& {'PASSED' if is_done else 'FAILED'} {title}")
    return int(not is_done)


def say(level: str, text: str) -> None:
    print(f"[05/13/2026-12:54:14] [{level}] {text}")


def _split(word: str) -> tuple[str, str]:
    name, _, value = word.removeprefix("--").partition("=")
    return name, value


def _flags() -> list[str]:
    more = "" if VERSION[0] >= 11 else _UP_TO_10
    return f"{_EVER} {more} {_OF_10 if VERSION[0] == 10 else ''}".split()


class _Logger(tensorrt.ILogger):
    def __init__(self) -> None:
        super().__init__()

    def log(self, severity: int, message: str) -> None:
        say("EEWIV"[int(severity)], f"[TRT] {message}")


def _build(given: dict[str, str]) -> bool:
    builder = tensorrt.Builder(_Logger())
    creation = tensorrt.NetworkDefinitionCreationFlag
    typed = VERSION[0] >= 11 or "stronglyTyped" in given
    flag = creation.STRONGLY_TYPED if typed else creation.EXPLICIT_BATCH
    network = builder.create_network(1 << int(flag))
    if not tensorrt.OnnxParser(network, builder.logger).parse_from_file(given["onnx"]):
        say("E", "Failed to parse onnx file")
        return False
    config = builder.create_builder_config()
    for name in ("fp16", "bf16", "int8", "fp8"):
        if name in given:
            config.set_flag(getattr(tensorrt.BuilderFlag, name.upper()))
    if "noTF32" in given:
        config.clear_flag(tensorrt.BuilderFlag.TF32)
    _configure(given, builder, config, network)
    known = Path(given.get("timingCacheFile", os.devnull))
    content = known.read_bytes() if known.exists() else b""
    config.set_timing_cache(config.create_timing_cache(content), False)
    made = builder.build_serialized_network(network, config)
    if made is None:
        say("E", "Engine could not be created from network")
        return False
    if "timingCacheFile" in given:
        known.write_bytes(config.get_timing_cache().serialize())
    Path(given["saveEngine"]).write_bytes(made)
    _export_layers(given, _deserialised(made, given))
    return True


def _configure(given: dict[str, str], builder: Any, config: Any, network: Any) -> None:
    if given.get("profilingVerbosity") == "detailed":
        config.profiling_verbosity = tensorrt.ProfilingVerbosity.DETAILED
    if "useDLACore" in given:
        config.default_device_type = tensorrt.DeviceType.DLA
        config.DLA_core = int(given["useDLACore"])
        if "allowGPUFallback" in given:
            config.set_flag(tensorrt.BuilderFlag.GPU_FALLBACK)
    places = dict(
        each.rsplit(":", 1) for each in given.get("layerDeviceTypes", "").split(",") if each
    )
    for layer in network._layers:
        if layer.name in places:
            config.set_device_type(layer, tensorrt.DeviceType[places[layer.name]])
    if "minShapes" in given:
        profile = builder.create_optimization_profile()
        ranges = [_shapes(given[name]) for name in ("minShapes", "optShapes", "maxShapes")]
        for name in ranges[0]:
            profile.set_shape(name, *(each[name] for each in ranges))
        config.add_optimization_profile(profile)


def _shapes(text: str) -> dict[str, tuple[int, ...]]:
    pairs = (each.rsplit(":", 1) for each in text.split(","))
    return {name: tuple(int(size) for size in shape.split("x")) for name, shape in pairs}


def _deserialised(content: bytes, given: dict[str, str]) -> Any:
    runtime = tensorrt.Runtime(_Logger())
    if "useDLACore" in given:
        runtime.DLA_core = int(given["useDLACore"])
    return runtime.deserialize_cuda_engine(content)


def _export_layers(given: dict[str, str], engine: Any) -> None:
    if "exportLayerInfo" in given:
        text = engine.create_engine_inspector().get_engine_information(
            tensorrt.LayerInformationFormat.JSON
        )
        Path(given["exportLayerInfo"]).write_text(text)


def _run(given: dict[str, str]) -> bool:
    from cuda.bindings import runtime

    engine = _deserialised(Path(given["loadEngine"]).read_bytes(), given)
    if engine is None:
        say("E", "Engine deserialization failed")
        return False
    is_new = VERSION[0] >= 11
    copies = not is_new and "noDataTransfers" not in given
    _say_options(copies, is_new or "useSpinWait" in given, is_new or "useCudaGraph" in given)
    context = engine.create_execution_context()
    shapes = _shapes(given["shapes"]) if "shapes" in given else {}
    files = dict(each.split(":", 1) for each in given.get("loadInputs", "").split(",") if each)
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        if name in shapes and not context.set_input_shape(name, shapes[name]):
            return False
        if not _place(engine, context, name, files, runtime):
            return False
    time.sleep(float(os.environ.get("STAND_IN_START_S", "0")))
    seconds = []
    for _ in range(int(given.get("iterations", "10"))):
        start_s = time.perf_counter()
        if not context.execute_async_v3(0):
            return False
        runtime.cudaStreamSynchronize(0)
        seconds.append(time.perf_counter() - start_s)
    fixed = os.environ.get("STAND_IN_QUERY_MS")
    taken_ms = [each * 1e3 if fixed is None else float(fixed) for each in seconds]
    layers_ms = _layers_ms(engine)
    if layers_ms is not None:
        taken_ms = [sum(layers_ms) * (1 + 0.001 * (n % 5 - 2)) for n in range(len(seconds))]
    _export_times(given, taken_ms, copy_ms=0.25 if copies else 0.0)
    if "useCudaGraph" in given and os.environ.get("STAND_IN_GRAPH_REFUSED"):
        say("W", "The specified --useCudaGraph flag has been ignored. It is launched without.")
    _export_profile(given, engine, sum(seconds) / len(seconds) * 1e3, len(seconds), layers_ms)
    _export_layers(given, engine)
    say("I", "=== Performance summary ===")
    say("I", f"GPU Compute Time: min = 1 ms, max = 1 ms, mean = 1 ms, median = {seconds[0]} ms")
    return True


def _say_options(copies: bool, spins: bool, graph: bool) -> None:
    for name, is_on in (("Data transfers", copies), ("Spin-wait", spins), ("CUDA Graph", graph)):
        say("I", f"{name}: {'Enabled' if is_on else 'Disabled'}")


def _place(engine: Any, context: Any, name: str, files: dict[str, str], runtime: Any) -> bool:
    shape = context.get_tensor_shape(name)
    size = tensorrt.volume(shape) * {"INT64": 8, "HALF": 2, "INT8": 1}.get(
        engine.get_tensor_dtype(name).name, 4
    )
    _, address = runtime.cudaMallocManaged(max(1, size), runtime.cudaMemAttachGlobal)
    context.set_tensor_address(name, address)
    if name in files:
        import ctypes

        content = Path(files[name]).read_bytes()
        if len(content) != size:
            say("E", f"Input tensor {name} has {size} bytes, its file {len(content)}")
            return False
        ctypes.memmove(address, content, size)
    return True


def _export_times(given: dict[str, str], times_ms: list[float], copy_ms: float) -> None:
    if "exportTimes" not in given:
        return
    at_ms, queries = 0.0, []
    enqueue_ms = float(os.environ.get("STAND_IN_ENQUEUE_MS", "0"))
    for each in times_ms:
        query = {"startEnqMs": at_ms, "endEnqMs": at_ms + enqueue_ms, "startH2dMs": at_ms}
        query |= {"startComputeMs": at_ms + copy_ms, "endComputeMs": at_ms + copy_ms + each}
        query |= {"h2dMs": copy_ms, "computeMs": each, "d2hMs": 2 * copy_ms}
        queries.append(query | {"latencyMs": each + 3 * copy_ms})
        at_ms += each + 3 * copy_ms
    Path(given["exportTimes"]).write_text(json.dumps(queries))


def _lines(engine: Any, form: Any) -> str:
    """What the inspector says of its layers."""
    text: str = engine.create_engine_inspector().get_engine_information(form)
    return text


def _layers_ms(engine: Any) -> list[float] | None:
    """What STAND_IN_LAYER_MS says of each layer."""
    if "STAND_IN_LAYER_MS" not in os.environ:
        return None
    times_ms = json.loads(os.environ["STAND_IN_LAYER_MS"])
    layers = json.loads(_lines(engine, tensorrt.LayerInformationFormat.JSON))["Layers"]
    return [times_ms.get(layer["LayerType"], times_ms[""]) for layer in layers]


def _export_profile(
    given: dict[str, str],
    engine: Any,
    call_ms: float,
    n_calls: int,
    layers_ms: list[float] | None,
) -> None:
    if "exportProfile" not in given:
        return
    lines = _lines(engine, tensorrt.LayerInformationFormat.ONELINE).splitlines()
    entries: list[dict[str, Any]] = [{"count": n_calls}]
    for line, each_ms in zip(lines, layers_ms or [call_ms / len(lines)] * len(lines), strict=True):
        times = {"timeMs": each_ms * n_calls, "averageMs": each_ms, "medianMs": each_ms}
        entries.append({"name": line, **times, "percentage": 100 / len(lines)})
    Path(given["exportProfile"]).write_text(json.dumps(entries))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
