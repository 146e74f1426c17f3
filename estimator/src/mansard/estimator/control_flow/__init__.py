"""If, Loop, Scan and SequenceMap: what runs in the graphs inside them, and how often."""

from __future__ import annotations

from types import MappingProxyType

from mansard.estimator.control_flow.branches import place_if
from mansard.estimator.control_flow.course import Course, Outer
from mansard.estimator.control_flow.loops import place_loop
from mansard.estimator.control_flow.maps import place_sequence_map
from mansard.estimator.control_flow.scans import place_scan
from mansard.estimator.tensors import Body, Node, Tensor


def place_inner(
    node: Node, outer: Outer, course: Course
) -> tuple[tuple[Tensor, ...], tuple[Body, ...]]:
    """Outputs and bodies of a node with graphs inside; ``outer`` is what these see."""
    return _PLACES[node.op_type](node, outer, course)


_PLACES = MappingProxyType(
    {"If": place_if, "Loop": place_loop, "Scan": place_scan, "SequenceMap": place_sequence_map}
)
OPERATORS = frozenset(_PLACES)
