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
    """Powers of all elements of the window, additions, a root."""
    n = node.output.n_elements
    return Cost(simple=(2 * _window(node) - 1) * n, functions=n)


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
    """Powers of all elements of a channel, additions, a root."""
    n = node.output.n_elements
    return Cost(simple=max(2 * node.input(0).n_elements - n, 0), functions=n)


def _window(node: Node) -> int:
    return math.prod(node.integers("kernel_shape") or ())
