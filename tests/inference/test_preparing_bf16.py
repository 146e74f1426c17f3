"""A network of fp32 in bf16, by the tool for fp16 and rounding of our own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mansard.inference.engines.tensorrt.versions import MODULE_VARIABLE
from mansard.inference.plan import BuildSettings
from mansard.inference.preparing import prepare, write
from mansard.inference.preparing.conversion import bf16_bits, to_bf16
from tests.inference.engine_builds import Bench


@pytest.mark.parametrize(
    ("number", "bits"),
    [
        (1.0, 0x3F80),
        (1 + 1 / 256, 0x3F80),  # half way between 0x3F80 and 0x3F81: to the even one
        (1 + 3 / 256, 0x3F82),  # half way between 0x3F81 and 0x3F82
        (1 + 1.01 / 256, 0x3F81),
        (-2.0, 0xC000),
        (1e-40, 0x0001),  # 1.09 times the least one, 2^-133
        (float("inf"), 0x7F80),
        (float("nan"), 0x7FC0),
    ],
)
def test_numbers_are_rounded_to_the_nearest(number: float, bits: int) -> None:
    assert bf16_bits(np.array([number])).tolist() == [bits]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """y = relu(x · w) in fp32, with a weight that fp16 cannot hold."""
    weight = np.full((8, 8), 1e6, np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])],
        [numpy_helper.from_array(weight, "w")],
    )
    path = tmp_path / "small.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def test_weights_keep_the_range_of_fp32_and_nodes_their_labels(
    source: Path, tmp_path: Path
) -> None:
    network = prepare(source, seed=1, precision="bf16")
    write(network, tmp_path / "files")
    graph = onnx.load(tmp_path / "files" / network.file).graph
    (weight,) = graph.initializer
    assert weight.data_type == TensorProto.BFLOAT16
    # 1e6 = 0x49742400: its upper half is nearest
    assert set(np.frombuffer(weight.raw_data, np.uint16)) == {0x4974}
    assert [node.name for node in graph.node if node.op_type != "Cast"] == ["@0@", "@1@"]
    types = [each.type.tensor_type.elem_type for each in (*graph.input, *graph.output)]
    assert types == [TensorProto.FLOAT, TensorProto.FLOAT]
    assert network.precision == "bf16"
    assert network.score.precision == "bf16"


def test_constants_are_rounded_from_fp32_in_bodies_too() -> None:
    """y = x · 1e9 where c, else x · 1e-9: numbers that fp16 makes 65504 and 0."""

    def scaled(number: float) -> onnx.GraphProto:
        constant = numpy_helper.from_array(np.float32(number).reshape(()), "k")
        nodes = [
            helper.make_node("Constant", [], ["k"], "@1@", value=constant),
            helper.make_node("Mul", ["x", "k"], ["z"], "@2@"),
        ]
        output = helper.make_tensor_value_info("z", TensorProto.FLOAT, [8])
        return helper.make_graph(nodes, "branch", [], [output])

    node = helper.make_node(
        "If", ["c"], ["y"], "@0@", then_branch=scaled(1e9), else_branch=scaled(1e-9)
    )
    ends = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [8]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [8]),
    ]
    graph = helper.make_graph([node], "g", ends[:2], ends[2:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (found,) = (node for node in to_bf16(made).graph.node if node.op_type == "If")
    bits = {
        attribute.name: np.frombuffer(inner.attribute[0].t.raw_data, np.uint16)[0]
        for attribute in found.attribute
        for inner in attribute.g.node
        if inner.op_type == "Constant"
    }
    # 1e9 = 0x4E6E6B28 and 1e-9 = 0x3089705F, rounded to their upper halves.
    assert bits == {"then_branch": 0x4E6E, "else_branch": 0x3089}


def test_a_real_builder_takes_it(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorrt_rtx_bindings", reason="the extra trt-test is not installed")
    monkeypatch.setenv(MODULE_VARIABLE, "tensorrt_rtx_bindings")
    network = prepare(source, seed=1, precision="bf16")
    bench = Bench(tmp_path / "files")
    write(network, bench.folder)
    settings = BuildSettings(compute_capability="8.6")
    bench.built(network.file, settings, precision="bf16", input_specs=network.input_specs)
    assert bench.engine.exists()
