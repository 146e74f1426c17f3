"""Operators that others ran under Nsight Compute on an A100, in fp32 without TF32.

ReLUs and linear layers are in ../shared/data/ncu. ``convolutions.csv`` beside this file has
110 of the convolutions of the same repository (leleucas/
Actual-Parameter-Collection-for-Machine-Learning-Operators, Apache-2.0, commit ef50400e,
conv2d/actualpara-perf-distribution: conv2d_results_count0929.csv and pd_a100_tc.csv), with
cuDNN's fastest algorithm: the first 71 rows, and of a stretch of 140 rows in the middle
(``later``) all that ran as Winograd or FFT.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from onnx import TensorProto, helper

A100_CACHE_BYTES = 20_000_000  # half of its L2

_VALUE = helper.make_tensor_value_info


@dataclass(frozen=True)
class Operator:
    """One operator from a cold cache: the sizes of its network's dimensions, and what moved."""

    dims: Mapping[str, int]
    memory_bytes: float


def relus(folder: Path) -> Iterator[Operator]:
    """4,237 ReLUs in fp32."""
    shapes = json.loads((folder / "ncu/leleucas__A100_relu_shapes.json").read_text())["input_size"]
    with (folder / "ncu/leleucas__A100_relu_ncu.csv").open(newline="") as stream:
        for row, shape in zip(csv.DictReader(stream), shapes, strict=True):
            yield Operator({"elements": prod(shape)}, float(row["dram__bytes.sum"]))


def linears(folder: Path) -> Iterator[Operator]:
    """1,381 linear layers in fp32."""
    with (folder / "ncu/leleucas__A100_linear_ncu.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            dims = {"rows": int(row["N"]), "inner": int(row["cin"]), "columns": int(row["cout"])}
            yield Operator(dims, float(row["dram__bytes.sum"]))


@dataclass(frozen=True)
class Convolution:
    """A convolution of stride 1 from a cold cache, and what moved.

    ``is_held_out``: it was not looked at when the model of Winograd was made.
    """

    algorithm: str
    is_held_out: bool
    given: tuple[int, int, int, int]  # batch, channels, height, width
    weights: tuple[int, int, int, int]  # filters, channels, height, width
    pads: tuple[int, int]
    memory_bytes: float

    def network(self) -> bytes:
        """It alone."""
        given = [_VALUE("x", TensorProto.FLOAT, self.given)]
        stored = TensorProto(name="w", dims=self.weights, data_type=TensorProto.FLOAT)
        node = helper.make_node("Conv", ["x", "w"], ["y"], "operator", pads=[*self.pads] * 2)
        made = [_VALUE("y", TensorProto.FLOAT, None)]
        graph = helper.make_graph([node], "g", given, made, [stored])
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        data: bytes = proto.SerializeToString()
        return data


def convolutions() -> Iterator[Convolution]:
    """Those in the repository."""
    with (Path(__file__).parent / "convolutions.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            part, algorithm, *numbers = row.values()
            n, c, h, w, k, r, s, pad_height, pad_width, memory_bytes = map(int, numbers)
            pads = (pad_height, pad_width)
            yield Convolution(
                algorithm, part == "later", (n, c, h, w), (k, c, r, s), pads, memory_bytes
            )


def relu_network() -> bytes:
    """One ReLU of ``elements``."""
    return _network("Relu", {"x": ["elements"]})


def linear_network() -> bytes:
    """A product of ``rows`` × ``inner`` and ``inner`` × ``columns``."""
    return _network("MatMul", {"x": ["rows", "inner"], "w": ["inner", "columns"]})


def _network(op_type: str, inputs: Mapping[str, list[str]]) -> bytes:
    given = [_VALUE(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    node = helper.make_node(op_type, list(inputs), ["y"], "operator")
    graph = helper.make_graph([node], "g", given, [_VALUE("y", TensorProto.FLOAT, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    data: bytes = proto.SerializeToString()
    return data
