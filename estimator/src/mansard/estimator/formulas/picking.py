"""Operators that pick elements: of the table they read only what they pick.

https://onnx.ai/onnx/operators/onnx__Gather.html, …__Slice, …__Compress, …__NonZero, …__Unique
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node

PICKING = ("Compress", "Gather", "GatherElements", "GatherND", "Slice")


def picked_bytes(node: Node, precision: Precision | None) -> int:
    """All inputs, but of the first only as much as is written."""
    whole = sum(tensor.n_bytes(precision) for tensor in node.distinct)
    table = node.input(0).n_bytes(precision)
    return whole - table + min(table, node.output.n_bytes(precision))


@register(*PICKING, not_weights=(1,), reads=picked_bytes)
def pick(node: Node) -> Cost:  # noqa: ARG001
    """No work; of the first input it reads only what it picks."""
    return NOTHING


@register("NonZero")
def non_zero(node: Node) -> Cost:
    """A comparison for each element of the input."""
    return Cost(simple=node.input(0).n_elements)


@register("OneHot", not_weights=(0, 1, 2))
def one_hot(node: Node) -> Cost:
    """A comparison for each element of the output: is this the index?"""
    return Cost(simple=node.output.n_elements)


def sort_comparisons(n: int) -> int:
    """Comparisons that sort ``n`` elements by merging, at most: n · ⌈log2 n⌉.

    D. E. Knuth, The Art of Computer Programming, vol. 3, section 5.2.4, less the
    lower-order term.
    """
    return n * max(n - 1, 0).bit_length()


@register("Unique")
def unique(node: Node) -> Cost:
    """Sort by n·⌈log2 n⌉ comparisons, then compare n - 1 neighbours.

    Along an axis each of them compares whole slices.
    """
    data = node.input(0)
    if "axis" not in node.attributes:
        return Cost(simple=_sorted(data.n_elements))
    n = data.shape[data.axis(node.integer("axis", 0))]
    return Cost(simple=_sorted(n) * (data.n_elements // max(n, 1)))


def _sorted(n: int) -> int:
    return sort_comparisons(n) + max(n - 1, 0)


@register("TopK", not_weights=(1,))
def top_k(node: Node) -> Cost:
    """A heap of k elements: up to ⌊log2 k⌋ + 1 comparisons for each input element."""
    data = node.input(0)
    k = node.output.shape[data.axis(node.integer("axis", -1))]
    return Cost(simple=data.n_elements * k.bit_length())
