"""A drawn network as an ONNX model: the same graph gives the same bytes every time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mansard.core.errors import ModelError
from tools.zoo.builder import Attribute, Graph, Tensor

if TYPE_CHECKING:
    import onnx

OPERATOR_SET = 17
"""The newest set that TensorRT 8.5 reads (onnx-tensorrt 8.5, operators.md): JetPack 5.1 has it."""

IR_VERSION = 8
"""The file format that came with operator set 17 (onnx's table of versions)."""

PRODUCER = "mansard"

DEFAULTS: Mapping[str, Mapping[str, Attribute]] = {
    "AveragePool": {"count_include_pad": 0, "pads": (0,) * 4, "strides": (1, 1)},
    "BatchNormalization": {"epsilon": 1e-5, "momentum": 0.9},
    "Conv": {"group": 1, "pads": (0,) * 4, "strides": (1, 1)},
    "Gather": {"axis": 0},
    "LayerNormalization": {"axis": -1, "epsilon": 1e-5},
    "MaxPool": {"ceil_mode": 0, "pads": (0,) * 4, "strides": (1, 1)},
    "Softmax": {"axis": -1},
}
"""What ONNX's specification assumes where an attribute is left out, which keeps files small."""


def to_model(graph: Graph) -> onnx.ModelProto:
    """The ONNX model of ``graph``, checked with full shape inference.

    Raises ModelError where the graph is not valid ONNX.
    """
    from onnx import checker, helper, numpy_helper

    nodes = [
        helper.make_node(
            node.operator,
            list(node.inputs),
            list(node.outputs),
            name=node.name,
            **{
                key: _attribute(value)
                for key, value in node.attributes.items()
                if key not in (usual := DEFAULTS.get(node.operator, {})) or usual[key] != value
            },
        )
        for node in graph.nodes
    ]
    weights = [numpy_helper.from_array(value, name) for name, value in graph.initializers.items()]
    proto = helper.make_graph(
        nodes, graph.name, _declare(graph.inputs), _declare(graph.outputs), weights
    )
    model = helper.make_model(
        proto,
        opset_imports=[helper.make_opsetid("", OPERATOR_SET)],
        ir_version=IR_VERSION,
        producer_name=PRODUCER,
    )
    try:
        checker.check_model(model, full_check=True)
    except Exception as error:
        raise ModelError(str(error), where=f"zoo network {graph.name}") from error
    return model


def to_bytes(model: onnx.ModelProto) -> bytes:
    """The file's content; equal models give equal bytes."""
    return bytes(model.SerializeToString(deterministic=True))


def _declare(tensors: Iterable[Tensor]) -> list[onnx.ValueInfoProto]:
    from onnx import helper

    return [
        helper.make_tensor_value_info(
            tensor.name, helper.np_dtype_to_tensor_dtype(np.dtype(tensor.element)), tensor.shape
        )
        for tensor in tensors
    ]


def _attribute(value: Attribute) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
