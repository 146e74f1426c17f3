"""Pooling. https://onnx.ai/onnx/operators/onnx__MaxPool.html, …__AveragePool"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node


@register("MaxPool")
def max_pool(node: Node) -> Cost:
    """A window of n elements takes n - 1 comparisons."""
    return Cost(simple=(_window(node) - 1) * node.output.n_elements)


@register("AveragePool")
def average_pool(node: Node) -> Cost:
    """A window of n elements takes n - 1 additions and a division."""
    return Cost(simple=_window(node) * node.output.n_elements)


@register("LpPool")
def lp_pool(node: Node) -> Cost:
    """Powers of all elements of the window, additions, a root (none for p = 1).

    A power is one operation for p = 1 or 2, three for 3, otherwise one and a function.
    """
    return _norm(node, _window(node) * node.output.n_elements)


@register("GlobalMaxPool")
def global_max_pool(node: Node) -> Cost:
    """n elements of a channel take n - 1 comparisons."""
    return Cost(simple=max(node.input(0).n_elements - node.output.n_elements, 0))


@register("GlobalAveragePool")
def global_average_pool(node: Node) -> Cost:
    """n elements of a channel take n - 1 additions and a division."""
    return Cost(simple=node.input(0).n_elements)


@register("GlobalLpPool")
def global_lp_pool(node: Node) -> Cost:
    """Powers of all elements of a channel, additions, a root; counted as in LpPool."""
    return _norm(node, node.input(0).n_elements)


# order p -> operations of |x|^p: absolute value, square, or absolute value and two products
_POWERS = {1.0: Cost(simple=1), 2.0: Cost(simple=1), 3.0: Cost(simple=3)}


def _norm(node: Node, n_terms: int) -> Cost:
    n, order = node.output.n_elements, node.number("p", 2)
    additions = Cost(simple=max(n_terms - n, 0))
    roots = Cost(functions=0 if order == 1 else n)
    return _POWERS.get(order, Cost(simple=1, functions=1)) * n_terms + additions + roots


def _window(node: Node) -> int:
    return math.prod(node.integers("kernel_shape") or ())
