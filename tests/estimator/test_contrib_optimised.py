"""Files that ONNX Runtime's optimiser wrote: what it fused counts as much as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from mansard.core.records import ModelScore
from mansard.estimator import score
from mansard.estimator.reading import read_model
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.inference import infer_shapes
from tests.estimator.zoo_sessions import with_random_weights
from tools.zoo import bert, gpt2
from tools.zoo.builder import Graph
from tools.zoo.serialise import to_model

SIZES = {"batch": 2, "sequence": 7, "past_sequence": 5}
NCHWC = "com.microsoft.nchwc"


def optimised(model: onnx.ModelProto, folder: Path, level: str = "EXTENDED") -> onnx.ModelProto:
    """The model as ONNX Runtime would run it, its dimensions set."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}"
    )
    for name, size in SIZES.items():
        options.add_free_dimension_override_by_name(name, size)
    onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return onnx.load(folder / "optimised.onnx")


def counts(scored: ModelScore) -> tuple[int, int]:
    """(multiply-adds, work) of the whole."""
    return (
        sum(layer.macs or 0 for layer in scored.layers),
        sum(layer.work_flop or 0 for layer in scored.layers),
    )


def operators(model: onnx.ModelProto, domain: str = "com.microsoft") -> set[str]:
    return {node.op_type for node in model.graph.node if node.domain == domain}


@pytest.mark.parametrize(
    ("graph", "fused"),
    [
        (
            bert.draw("small", bert.Sizes(n_layers=2, n_heads=4, features=64)),
            {"FusedGemm", "FusedMatMul", "Gelu", "SkipLayerNormalization"},
        ),
        (
            gpt2.draw("small", gpt2.Sizes(n_layers=2, n_heads=4, features=64, n_tokens=500)),
            {"FastGelu", "FusedMatMul", "SkipLayerNormalization"},
        ),
    ],
    ids=["encoder", "decoder"],
)
def test_fused_transformers_count_what_they_counted(
    graph: Graph, fused: set[str], tmp_path: Path
) -> None:
    model = with_random_weights(to_model(graph), 3)
    after = optimised(model, tmp_path)
    assert fused <= operators(after)
    names = {dim.dim_param for value in model.graph.input for dim in _dims(value)}
    dims = {name: size for name, size in SIZES.items() if name in names}
    before = score(model.SerializeToString(), dims=dims)
    assert counts(score(after.SerializeToString())) == counts(before)


def _dims(value: onnx.ValueInfoProto) -> Any:
    return value.type.tensor_type.shape.dim


def _network(channels: int) -> onnx.ModelProto:
    """Convolutions with activations, depthwise ones, a sum, pools; 16 pixels wide."""
    generator = np.random.default_rng(3)
    nodes, stored = [], []

    def conv(source: str, name: str, shape: tuple[int, ...], group: int = 1) -> None:
        weights = generator.uniform(-1, 1, shape).astype(np.float32)
        stored.append(numpy_helper.from_array(weights, f"{name}.w"))
        stored.append(numpy_helper.from_array(weights[:, 0, 0, 0].copy(), f"{name}.b"))
        inputs = [source, f"{name}.w", f"{name}.b"]
        nodes.append(helper.make_node("Conv", inputs, [name], name, pads=[1] * 4, group=group))

    conv("x", "first", (channels, 3, 3, 3))
    nodes.append(helper.make_node("Relu", ["first"], ["relu"]))
    conv("relu", "depthwise", (channels, 1, 3, 3), channels)
    pool = helper.make_node("MaxPool", ["depthwise"], ["pool"], kernel_shape=[2, 2], strides=[2, 2])
    nodes.append(pool)
    conv("pool", "wide", (2 * channels, channels, 3, 3))
    conv("wide", "last", (2 * channels, 2 * channels, 3, 3))
    nodes.append(helper.make_node("Add", ["wide", "last"], ["sum"]))
    nodes.append(helper.make_node("Relu", ["sum"], ["end"]))
    nodes.append(helper.make_node("GlobalAveragePool", ["end"], ["mean"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 16, 16])],
        [helper.make_empty_tensor_value_info("mean")],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_fused_convolutions_count_what_they_counted(tmp_path: Path) -> None:
    model = _network(20)
    after = optimised(model, tmp_path)
    assert operators(after) == {"FusedConv"}
    assert counts(score(after.SerializeToString())) == counts(score(model.SerializeToString()))


def test_blocks_of_channels_have_the_shapes_of_the_runtime(tmp_path: Path) -> None:
    model = _network(16)
    after = optimised(model, tmp_path, "ALL")
    if not operators(after, NCHWC):
        pytest.skip("this processor does not work on blocks of channels")
    assert {"Conv", "MaxPool", "GlobalAveragePool"} <= operators(after, NCHWC)
    # Whole blocks need no padding, so nothing is added to the work.
    assert counts(score(after.SerializeToString())) == counts(score(model.SerializeToString()))
    names = [name for node in after.graph.node for name in node.output if name]
    real = _run(after, names)
    network = infer_shapes(read_model(after.SerializeToString()), _bound(after))
    ours = {tensor.name: tensor.shape for node in network.nodes for tensor in node.outputs}
    assert {name: real[name].shape for name in names} == {name: ours[name] for name in names}


def _bound(model: onnx.ModelProto) -> Any:
    return bind(read_model(model.SerializeToString()))


def _run(model: onnx.ModelProto, names: list[str]) -> dict[str, Any]:
    """All tensors of an optimised model; it is not optimised again."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    runner = onnxruntime.InferenceSession(
        whole.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = runner.run(names, {"x": np.zeros((2, 3, 16, 16), np.float32)})
    return dict(zip(names, found, strict=True))


def test_weights_of_four_bits_are_as_many_as_before(tmp_path: Path) -> None:
    k, n = 64, 32
    weights = helper.make_tensor("w", TensorProto.INT4, [k, n], [1] * (k * n))
    scales = numpy_helper.from_array(np.ones((k // 32, n), np.float32), "s")
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], "d", axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "d"], ["y"], "y"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, n])],
        [weights, scales],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    after = optimised(model, tmp_path, "ALL")
    if operators(after) != {"MatMulNBits"}:
        pytest.skip("this ONNX Runtime leaves such products alone")
    (row,) = score(after.SerializeToString()).layers
    assert (row.macs, row.parameters) == (3 * k * n, k * n)
    # 4 bits each, and 64 scales of 4 bytes
    assert row.weight_bytes == k * n // 2 + 64 * 4
    before = score(model.SerializeToString())
    assert sum(layer.parameters or 0 for layer in before.layers) == row.parameters
