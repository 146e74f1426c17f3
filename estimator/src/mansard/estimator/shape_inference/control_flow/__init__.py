"""Operators with graphs inside them: what runs there, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mansard.estimator.shape_inference.context import InferenceContext, Outputs
from mansard.estimator.shape_inference.control_flow.branches import infer_if
from mansard.estimator.shape_inference.control_flow.loops import infer_loop, infer_scan
from mansard.estimator.shape_inference.control_flow.maps import (
    infer_flex_attention,
    infer_sequence_map,
)
from mansard.estimator.tensors import Node, Tensor


def infer_graphs(node: Node, outer: Mapping[str, Tensor], context: InferenceContext) -> Outputs:
    """Outputs and bodies of a node with graphs inside; ``outer`` is what these see."""
    return _INFER[node.op_type](node, outer, context)


_INFER = MappingProxyType(
    {
        "FlexAttention": infer_flex_attention,
        "If": infer_if,
        "Loop": infer_loop,
        "Scan": infer_scan,
        "SequenceMap": infer_sequence_map,
    }
)
# operator -> its domain
OPERATORS = MappingProxyType(dict.fromkeys(_INFER, "") | {"FlexAttention": "ai.onnx.preview"})
