"""Each tool as a function from a file to the FLOP of its matrix products and convolutions.

Every function imports its tool itself, so that a process that measures one tool loads
that tool and nothing else. FLOP are two for each multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

# Only these are compared: tools disagree on purpose about the work of everything else.
PRODUCTS = frozenset(
    {"Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "Gemm", "MatMul", "MatMulInteger"}
    | {"QLinearMatMul", "Einsum", "LSTM", "GRU", "RNN", "Attention"}
)


def score_ours(path: str) -> int:
    """Mansard."""
    from pathlib import Path

    from mansard.estimator import score

    scored = score(Path(path), allow_unknown=True)
    return sum(layer.multiply_add_flop or 0 for layer in scored.layers)


def score_onnx_tool(path: str) -> int:
    """onnx-tool: wants an array for every input."""
    import numpy as np
    import onnx
    import onnx_tool

    model = onnx.load(path, load_external_data=False)
    stored = {tensor.name for tensor in model.graph.initializer}
    given = {
        value.name: _array(value, np) for value in model.graph.input if value.name not in stored
    }
    peer = onnx_tool.Model(path, {"verbose": False})
    peer.graph.graph_reorder_nodes()
    peer.graph.shape_infer(given)
    peer.graph.profile()
    nodes = peer.graph.nodemap.values()
    return sum(2 * _first(node.macs) for node in nodes if node.op_type in PRODUCTS)


def score_onnx_tool_bare(path: str) -> int:
    """onnx-tool's bare API: load, infer shapes, profile; no arrays, nothing printed."""
    import onnx_tool

    peer = onnx_tool.Model(path, {"verbose": False})
    peer.graph.shape_infer()
    peer.graph.profile()
    nodes = peer.graph.nodemap.values()
    return sum(2 * _first(node.macs) for node in nodes if node.op_type in PRODUCTS)


def score_onnxsim(path: str) -> int:
    """onnxsim's ModelInfo; reads the file through onnx, as its command does."""
    import onnx
    from onnxsim.model_info import ModelInfo

    return int(2 * ModelInfo(onnx.load(path)).macs)


def score_haoline(path: str) -> int:
    """haoline's loader and metrics, without its report."""
    from haoline import MetricsEngine, ONNXGraphLoader

    _, graph = ONNXGraphLoader().load(path)
    counts = MetricsEngine().estimate_flops(graph).by_op_type
    return int(sum(flop for op_type, flop in counts.items() if op_type in PRODUCTS))


SIDES: MappingProxyType[str, Callable[[str], int]] = MappingProxyType(
    {
        "mansard": score_ours,
        "onnx-tool": score_onnx_tool,
        "onnx-tool, bare": score_onnx_tool_bare,
        "onnxsim": score_onnxsim,
        "haoline": score_haoline,
    }
)


def _array(value: Any, np: Any) -> Any:
    kind = value.type.tensor_type
    shape = [size.dim_value for size in kind.shape.dim]
    types = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16}
    return np.zeros(shape, types.get(kind.elem_type, np.float32))


def _first(macs: Any) -> int:
    # One figure, or one for each column of the profile, by version.
    return int(macs[0]) if isinstance(macs, (list, tuple)) else int(macs)
