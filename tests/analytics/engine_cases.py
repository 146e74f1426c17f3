"""A small residual network, and layers of engines as their tools describe them."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from mansard.analytics.data.published.cells import LayerRow, LayerTensor
from mansard.analytics.models.layers.network import NetworkGraph, network_graph
from mansard.core.records import ModelScore
from mansard.estimator.model import Given
from mansard.estimator.score_context import Settings
from mansard.estimator.scoring import load, score_loaded, shaped_nodes

# Elements of the tensors between layers: 8 channels of 16 × 16.
WIDE = (1, 8, 16, 16)
NODES = ("a", "a_relu", "b", "d", "sum", "sum_relu", "pool", "flat", "fc")


def residual_network() -> bytes:
    """x → a → Relu → b, beside d; their sum → Relu → pool → Flatten → fc.

    a and b are 3 × 3 with 8 · 8 · 9 = 576 weights, d is 1 × 1 with 64, fc has 8 · 4 = 32.
    """
    weights = {"wa": (8, 8, 3, 3), "wb": (8, 8, 3, 3), "wd": (8, 8, 1, 1), "wf": (4, 8)}
    nodes = [
        helper.make_node("Conv", ["x", "wa"], ["ta"], "a", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["ta"], ["ra"], "a_relu"),
        helper.make_node("Conv", ["ra", "wb"], ["tb"], "b", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["x", "wd"], ["td"], "d"),
        helper.make_node("Add", ["tb", "td"], ["ts"], "sum"),
        helper.make_node("Relu", ["ts"], ["rs"], "sum_relu"),
        helper.make_node("GlobalAveragePool", ["rs"], ["tp"], "pool"),
        helper.make_node("Flatten", ["tp"], ["tf"], "flat"),
        helper.make_node("Gemm", ["tf", "wf"], ["y"], "fc", transB=1),
    ]
    stored = [
        onnx.TensorProto(name=name, dims=dims, data_type=TensorProto.FLOAT)
        for name, dims in weights.items()
    ]
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, WIDE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4))],
        stored,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(model.SerializeToString())


def graph_of(model: bytes) -> tuple[NetworkGraph, ModelScore]:
    """The nodes of a model as layers are joined to them."""
    loaded, settings = load(model, "residual"), Settings(Given())
    score = score_loaded(loaded, settings)
    outputs = [output.name for output in loaded.model.outputs]
    return network_graph(shaped_nodes(loaded, settings), score, outputs, None), score


def described(
    name: str,
    op_type: str,
    reads: tuple[str, ...],
    writes: str,
    *,
    shape: tuple[int, ...] = WIDE,
    result: tuple[int, ...] = WIDE,
    n_weights: int | None = None,
    time_s: float = 1e-5,
    is_copy: bool = False,
) -> LayerRow:
    """A layer as an engine's inspector describes it, in fp32."""
    return LayerRow(
        name=name,
        op_type=op_type,
        reads=tuple(LayerTensor(tensor, shape, "fp32") for tensor in reads),
        writes=(LayerTensor(writes, result, "fp32"),),
        n_weights=n_weights,
        weight_precision="fp32" if n_weights else None,
        is_copy=is_copy,
        median_s=time_s,
    )


def fused_engine() -> list[LayerRow]:
    """The network as TensorRT fuses it, by names of another export, d before b."""
    conv = "CaskConvolution"
    copy = "Reformatting CopyNode for Input Tensor 0 to Conv_7"
    return [
        described(copy, "Reformat", ("x",), "x1", is_copy=True),
        described("Conv_7 + Relu_8", conv, ("x1",), "t1", n_weights=576, time_s=4e-5),
        described("Conv_10", conv, ("x1",), "t2", n_weights=64),
        described("Conv_9 + Add_11 + Relu_12", conv, ("t1", "t2"), "t3", n_weights=576),
        described("GlobalAveragePool_13", "CudaPooling", ("t3",), "t4", result=(1, 8, 1, 1)),
        described(
            "Gemm_15",
            "CublasConvolution",
            ("t4",),
            "t5",
            shape=(1, 8, 1, 1),
            result=(1, 4, 1, 1),
            n_weights=32,
        ),
        LayerRow(name="reshape_after_Gemm_15", op_type="NoOp", median_s=0.0),
    ]
