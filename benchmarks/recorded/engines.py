"""TensorRT engines that others recorded, and their networks.

Their layers are in ../shared/data/trtexec, or in ``engine_layers`` beside this file.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mansard.core.precision import PRECISIONS, Precision
from mansard.estimator import zoo
from recorded.networks import HALF, keras_resnet50
from recorded.qdq import quantize_modules

_WIDTHS = {"FP32": 4, "Float": 4, "Int32": 4, "FP16": 2, "Half": 2, "Int8": 1}
_HERE = Path(__file__).parent / "engine_layers"
_FP16 = PRECISIONS["fp16"]
_TABLE_WIDTHS = {"fp32": 4, "fp16": 2, "int8": 1}
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
    """A recorded engine and the network that it was built of.

    ``tolerance`` is what the tests allow for the bytes of its kernels. ``has_casts``: the
    network says itself where types change.
    """

    name: str
    gpu: str
    file: str
    draw: Callable[[], bytes]
    precision: Precision | None = None
    batch: int | None = None
    has_casts: bool = False
    tolerance: float = 0.001

    def read(self, trtexec: Path) -> Engine:
        """The engine; ``trtexec`` is the folder of the recorded JSON files."""
        if self.is_here:
            return _read_table(_HERE / self.file)
        return read_engine(trtexec / self.file)

    @property
    def is_here(self) -> bool:
        """Whether its layers are in this repository."""
        return self.file.endswith(".csv")


_RESNET18 = (
    Case(
        "resnet18 fp32",
        "A100",
        f"{_TREX}A100__fp32__resnet.graph.json",
        lambda: zoo.read("resnet18"),
        None,
        32,
    ),
    Case(
        "resnet18 fp16",
        "A100",
        f"{_TREX}A100__fp16__resnet.graph.json",
        lambda: zoo.read("resnet18"),
        _FP16,
        32,
    ),
    Case(
        "resnet18 int8",
        "A100",
        f"{_TREX}A100__qat__resnet-qat.graph.json",
        lambda: quantize_modules(zoo.read("resnet18")),
        _FP16,
        32,
        tolerance=0.03,  # the builder left the first pool's result in fp32
    ),
    Case(
        "resnet18 int8, residuals",
        "A100",
        "resnet18_qat_residual_a100.csv",
        lambda: quantize_modules(zoo.read("resnet18"), residuals=True),
        _FP16,
        32,
        tolerance=0.04,  # the builder left all floats, those of the last block, in fp32
    ),
    Case(
        "resnet18 int8, all",
        "A100",
        "resnet18_qat_residual_qgap_a100.csv",
        lambda: quantize_modules(zoo.read("resnet18"), residuals=True, pools=True),
        _FP16,
        32,
    ),
)
_KERAS = (
    Case(
        "resnet50 fp32",
        "RTX 3090",
        f"{_TREX}RTX3090-tf__fp32__resnet.graph.json",
        lambda: keras_resnet50(32),
    ),
    Case(
        "resnet50 fp16",
        "RTX 3090",
        f"{_TREX}RTX3090-tf__fp16__resnet.graph.json",
        lambda: keras_resnet50(32, HALF),
        has_casts=True,
    ),
    Case(
        "resnet50 int8",
        "RTX 3090",
        f"{_TREX}RTX3090-tf__qat__resnet-qat.graph.json",
        lambda: keras_resnet50(32, is_quantized=True),
    ),
)
_MOBILENET_V2 = (
    Case(
        "mobilenet_v2 int8",
        "not named",
        "mobilenet_v2_qat.csv",
        lambda: quantize_modules(zoo.read("mobilenet_v2")),
        _FP16,
        1,
        tolerance=0.01,  # the builder left three of the smallest blocks in fp32
    ),
    Case(
        "mobilenet_v2 int8, residuals",
        "not named",
        "mobilenet_v2_qat_residual.csv",
        lambda: quantize_modules(zoo.read("mobilenet_v2"), residuals=True),
        _FP16,
        1,
    ),
)
_EDGES = tuple(
    Case(f"{name} fp16", gpu, _EDGE + file, lambda name=name: zoo.read(name), _FP16, 1)  # type: ignore[misc]
    for name, gpu, file in (
        (
            "alexnet",
            "RTX 3060",
            "desktop__torch_onnx_trtexec__results__alexnet__alexnet_fp16.graph.json",
        ),
        (
            "mobilenet_v2",
            "RTX 3060",
            "desktop__torch_onnx_trtexec__results__mobilenet_v2__mobilenet_v2_fp16.graph.json",
        ),
        ("vgg16", "Orin Nano", "model_training__sample_data__vgg16_trt_engine_info.json"),
    )
)
CASES = (*_RESNET18, *_KERAS, *_EDGES, *_MOBILENET_V2)


def _read_table(path: Path) -> Engine:
    """As ``read_engine``, of a table of layers; engine_layers/README.md says what it holds."""
    kernels = everything = n_kernels = 0
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream):
            if row["kind"] == "NoOp":
                continue
            moved = int(row["int8_weights"] or 0) + 4 * int(row["float_biases"] or 0)
            for tensor in f"{row['reads']} {row['writes']}".split():
                kind, shape = tensor.split(":")
                moved += math.prod(map(int, shape.split("x"))) * _TABLE_WIDTHS[kind]
            everything += moved
            if row["kind"] != "Reformat" or row["layer"].startswith(("Quant", "Dequant")):
                kernels += moved
                n_kernels += 1
    return Engine(kernels, everything, n_kernels)


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
