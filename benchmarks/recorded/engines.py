"""TensorRT engines that others recorded (../shared/data/trtexec), and their networks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mansard.core.precision import PRECISIONS, Precision
from mansard.estimator import zoo
from recorded.networks import HALF, keras_resnet50, quantized_resnet18

_WIDTHS = {"FP32": 4, "Float": 4, "Int32": 4, "FP16": 2, "Half": 2, "Int8": 1}
_EDGE = "fuzzylabs+edge-vision-power-estimation__"
_TREX = "trex-v10.8.0__"


@dataclass(frozen=True)
class Engine:
    """A TensorRT engine as its inspector wrote it, in bytes that its layers read and write.

    ``kernel_bytes`` leaves out layers that only change a tensor's format or type;
    ``all_bytes`` has them. Layers called NoOp are views. ``n_kernels`` are those of the
    first kind.
    """

    kernel_bytes: int
    all_bytes: int
    n_kernels: int


@dataclass(frozen=True)
class Case:
    """A recorded engine and the network that it was built of."""

    name: str
    file: str
    draw: Callable[[], bytes]
    precision: Precision | None = None
    batch: int | None = None
    has_casts: bool = False  # the network says itself where types change


CASES = (
    Case(
        "resnet18 fp32",
        f"{_TREX}A100__fp32__resnet.graph.json",
        lambda: zoo.read("resnet18"),
        None,
        32,
    ),
    Case(
        "resnet18 fp16",
        f"{_TREX}A100__fp16__resnet.graph.json",
        lambda: zoo.read("resnet18"),
        PRECISIONS["fp16"],
        32,
    ),
    Case(
        "resnet18 int8",
        f"{_TREX}A100__qat__resnet-qat.graph.json",
        lambda: quantized_resnet18(32),
        has_casts=True,
    ),
    Case(
        "resnet50 fp32", f"{_TREX}RTX3090-tf__fp32__resnet.graph.json", lambda: keras_resnet50(32)
    ),
    Case(
        "resnet50 fp16",
        f"{_TREX}RTX3090-tf__fp16__resnet.graph.json",
        lambda: keras_resnet50(32, HALF),
        has_casts=True,
    ),
    Case(
        "resnet50 int8",
        f"{_TREX}RTX3090-tf__qat__resnet-qat.graph.json",
        lambda: keras_resnet50(32, is_quantized=True),
    ),
    *(
        Case(f"{name} fp16", _EDGE + file, lambda name=name: zoo.read(name), PRECISIONS["fp16"], 1)  # type: ignore[misc]
        for name, file in (
            ("alexnet", "desktop__torch_onnx_trtexec__results__alexnet__alexnet_fp16.graph.json"),
            (
                "mobilenet_v2",
                "desktop__torch_onnx_trtexec__results__mobilenet_v2__mobilenet_v2_fp16.graph.json",
            ),
            ("vgg16", "model_training__sample_data__vgg16_trt_engine_info.json"),
        )
    ),
)


def read_engine(path: Path) -> Engine:
    """Sum up the layers of an engine; weights and biases are read once each."""
    kernels = everything = n_kernels = 0
    for layer in json.loads(path.read_text())["Layers"]:
        kind, name = layer["LayerType"], layer["Name"]
        if kind in ("NoOp", "shape_call"):
            continue
        moved = _layer_bytes(layer)
        everything += moved
        # A quantiser of the network's own is a layer called Reformat, too.
        if kind != "Reformat" or (name.startswith("Quant") and "CopyNode" not in name):
            kernels += moved
            n_kernels += 1
    return Engine(kernels, everything, n_kernels)


def _layer_bytes(layer: dict[str, Any]) -> int:
    moved: int = sum(
        math.prod(tensor["Dimensions"]) * _width(tensor["Format/Datatype"])
        for tensor in (*layer["Inputs"], *layer["Outputs"])
    )
    for stored in (layer.get("Weights"), layer.get("Bias")):
        if stored:
            moved += int(stored["Count"]) * _width(stored["Type"])
    return moved


def _width(text: str) -> int:
    return next(width for name, width in _WIDTHS.items() if name in text)
