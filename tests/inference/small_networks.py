"""Small networks whose nodes are labelled, and plans that run them on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mansard.core.power_mode import core_count_mode
from mansard.device.identity import identify
from mansard.inference.engines import find_engine
from mansard.inference.plan import InputSpec, NetworkPlan, NetworkTrial, make_plan


def write(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    stored: dict[str, Any],
    *,
    inputs: dict[str, tuple[int | str, ...]],
    output: str = "y",
) -> None:
    """A file of ``nodes`` in their order, each named by its place; all tensors are float."""
    for number, node in enumerate(nodes):
        node.name = f"@{number}@"
    given = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in inputs.items()
    ]
    taken = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "small", given, taken, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def uniform(name: str, shape: tuple[int, ...]) -> InputSpec:
    return InputSpec(name=name, type_name="float32", shape=shape, fill="uniform")


def trial(file: str, *specs: InputSpec, **changes: Any) -> NetworkTrial:
    made = NetworkTrial(
        model=file.removesuffix(".onnx"),
        model_hash="0" * 16,
        file=file,
        file_hash="0" * 16,
        inputs_file="",
        inputs_hash="",
        input_specs=specs,
        inputs="uniform random numbers",
        engine="ort",
        provider="cpu",
        precision="fp32",
        batch=1,
        dimensions={},
        n_threads=1,
    )
    return msgspec.structs.replace(made, **changes)


def plan(*trials: NetworkTrial) -> NetworkPlan:
    """A plan that takes a fraction of a second for each trial."""
    machine = identify()
    versions = find_engine("ort").probe().versions
    made = make_plan(
        NetworkPlan, machine, core_count_mode(1), trials, versions, None, profile="brief"
    )
    protocol = msgspec.structs.replace(made.protocol, time_cap_s=0.2)
    return msgspec.structs.replace(made, protocol=protocol)


def perceptron(path: Path, width: int = 64, batch: int | str = 1) -> InputSpec:
    """Gemm, Relu, Gemm: what ONNX Runtime runs as a fused Gemm and a plain one."""
    random = np.random.default_rng(3)
    weights = random.standard_normal((2, width, width), dtype=np.float32)
    nodes = [
        helper.make_node("Gemm", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "w1"], ["y"]),
    ]
    stored = {"w0": weights[0], "w1": weights[1]}
    write(path, nodes, stored, inputs={"x": (batch, width)})
    return uniform("x", (1, width))
