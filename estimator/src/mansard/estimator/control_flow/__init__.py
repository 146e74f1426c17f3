"""Operators with graphs inside them: what runs there, and how often."""

from __future__ import annotations

from types import MappingProxyType

from mansard.estimator.control_flow.branches import place_if
from mansard.estimator.control_flow.course import Course, Outer
from mansard.estimator.control_flow.loops import place_loop
from mansard.estimator.control_flow.maps import place_sequence_map
from mansard.estimator.control_flow.modifiers import place_flex_attention
from mansard.estimator.control_flow.scans import place_scan
from mansard.estimator.tensors import Body, Node, Tensor


def place_inner(
    node: Node, outer: Outer, course: Course
) -> tuple[tuple[Tensor, ...], tuple[Body, ...]]:
    """Outputs and bodies of a node with graphs inside; ``outer`` is what these see."""
    return _PLACES[node.op_type](node, outer, course)


_PLACES = MappingProxyType(
    {
        "FlexAttention": place_flex_attention,
        "If": place_if,
        "Loop": place_loop,
        "Scan": place_scan,
        "SequenceMap": place_sequence_map,
    }
)
# operator -> its domain
OPERATORS = MappingProxyType(dict.fromkeys(_PLACES, "") | {"FlexAttention": "ai.onnx.preview"})
