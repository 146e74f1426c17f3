"""Upper bounds of the dimensions that depend on data, from the shapes that are known.

Operators without a rule here have no such bound: the sizes of what a Range or an Expand writes
follow from numbers, which no shape limits.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from mansard.estimator.operators.shapes import known_int
from mansard.estimator.tensors import Node

Bounds = tuple[tuple[int | None, ...], ...]  # for each output, for each of its dimensions


def upper_bounds(node: Node) -> Bounds:
    """The most that each dimension of each output can be; nothing where no bound is known."""
    rule = RULES.get(node.op_type)
    return () if rule is None else rule(node)


def _non_zero(node: Node) -> Bounds:
    """All elements."""
    data = node.input(0)
    return ((data.rank, data.n_elements),)


def _non_max_suppression(node: Node) -> Bounds:
    """For each image and class ``max_output_boxes_per_class``, and not more than there are boxes.

    Without this input nothing is chosen: its default is 0.
    """
    boxes, scores = node.input(0), node.input(1)
    n_boxes, most = boxes.shape[1], known_int(node, 2) if node.has(2) else 0
    kept = n_boxes if most is None else min(max(most, 0), n_boxes)
    return ((scores.shape[0] * scores.shape[1] * kept, 3),)


def _compress(node: Node) -> Bounds:
    """As many as the condition has elements."""
    data, n = node.input(0), node.input(1).n_elements
    if "axis" not in node.attributes:
        return ((n,),)
    axis = data.axis(node.integer("axis", 0))
    return ((*data.shape[:axis], n, *data.shape[axis + 1 :]),)


def _unique(node: Node) -> Bounds:
    """All elements differ, or all slices along the axis."""
    data = node.input(0)
    if "axis" not in node.attributes:
        return ((data.n_elements,),) * 4
    n = data.shape[data.axis(node.integer("axis", 0))]
    return (data.shape, (n,), (n,), (n,))


def _part(node: Node) -> Bounds:
    """All of the first input, in each output."""
    return (node.input(0).shape,) * len(node.output_names)


RULES: MappingProxyType[str, Callable[[Node], Bounds]] = MappingProxyType(
    {
        "Compress": _compress,
        "DynamicSlice": _part,
        "NonMaxSuppression": _non_max_suppression,
        "NonZero": _non_zero,
        "Slice": _part,
        "Split": _part,
        "TopK": _part,
        "Unique": _unique,
    }
)
