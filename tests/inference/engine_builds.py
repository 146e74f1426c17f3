"""Builds of small networks: by TensorRT's real builder, and by the stand-in of older versions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mansard.inference.engines.engine import Built
from mansard.inference.engines.tensorrt.building import build
from mansard.inference.plan import BuildSettings, BuildTrial, InputSpec

ENGINE = "small_random_fp32-0123456789ab.engine"


class NoDevice:
    """There is none; whoever asks it anything fails."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a device that is not there")


@dataclass
class Bench:
    """A folder of files, a folder of engines, and what was announced, each 5 s after the last."""

    folder: Path
    device: Any = field(default_factory=NoDevice)
    told: list[str] = field(default_factory=list)
    tell: Callable[[str], None] | None = None
    clock: Iterator[float] = field(default_factory=lambda: itertools.count(0.0, 5.0))

    def built(self, file: str, settings: BuildSettings, **changes: Any) -> Built:
        trial = make_trial(file, settings, **changes)
        self.into.mkdir(exist_ok=True)
        tell = self.tell or self.told.append
        return build(
            trial,
            self.folder,
            self.into,
            lambda now, _at_most_s: tell(now),
            self.device,
            lambda: next(self.clock),
        )

    @property
    def into(self) -> Path:
        return self.folder / "engines"

    @property
    def engine(self) -> Path:
        return self.into / ENGINE


def make_trial(file: str, settings: BuildSettings, **changes: Any) -> BuildTrial:
    made: dict[str, Any] = {
        "model": "small",
        "model_hash": "0" * 16,
        "file": file,
        "file_hash": "0" * 16,
        "input_specs": (InputSpec(name="x", type_name="float32", shape=(1, 8), fill="uniform"),),
        "precision": "fp32",
        "batch": 1,
        "dimensions": {},
        "engine": "tensorrt",
        "settings": settings,
        "engine_file": ENGINE,
    }
    return BuildTrial(**(made | changes))


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    stored: dict[str, Any],
    *,
    shape: tuple[int | str, ...] = (1, 8),
    types: tuple[int, int] = (TensorProto.FLOAT, TensorProto.FLOAT),
    domains: tuple[str, ...] = (),
) -> str:
    """A network from x to y, whose nodes are labelled by their place; returns the file's name."""
    for number, node in enumerate(nodes):
        node.name = f"@{number}@"
    tensors = [
        each if isinstance(each, onnx.TensorProto) else numpy_helper.from_array(each, name)
        for name, each in stored.items()
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", types[0], shape)],
        [helper.make_tensor_value_info("y", types[1], None)],
        tensors,
    )
    opsets = [helper.make_opsetid("", 19), *(helper.make_opsetid(name, 1) for name in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path.name


def weights(type_name: str = "float32") -> Any:
    return np.random.default_rng(3).normal(size=(8, 8)).astype(type_name)


def dense(path: Path, *, shape: tuple[int | str, ...] = (1, 8), type_name: str = "float32") -> str:
    """y = softmax(relu(x · w)); ``type_name`` of the product alone: casts stand around it."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"])]
    if type_name == "float16":
        nodes = [
            helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
            helper.make_node("MatMul", ["h", "w"], ["q"]),
            helper.make_node("Cast", ["q"], ["p"], to=TensorProto.FLOAT),
        ]
    nodes += [helper.make_node("Relu", ["p"], ["r"]), helper.make_node("Softmax", ["r"], ["y"])]
    return save(path, nodes, {"w": weights(type_name)}, shape=shape)


def quantised(path: Path, zero: Any) -> str:
    """The same product of numbers of the type of ``zero``, by QuantizeLinear nodes."""
    pairs = [
        helper.make_node(op_type, [*data, "s", "z"], [output])
        for source in ("x", "w")
        for op_type, data, output in (
            ("QuantizeLinear", [source], f"{source}q"),
            ("DequantizeLinear", [f"{source}q"], f"{source}d"),
        )
    ]
    nodes = [*pairs, helper.make_node("MatMul", ["xd", "wd"], ["y"])]
    return save(path, nodes, {"w": weights(), "s": np.float32(0.05), "z": zero})


FP8_ZERO = helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [], b"\0", raw=True)
