"""Pooling of windows and of regions.

https://onnx.ai/onnx/operators/onnx__MaxPool.html, …__AveragePool, …__LpPool, …__MaxRoiPool,
…__RoiAlign
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.interpolation import interpolation_cost, weights_cost
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


@register("MaxRoiPool", not_weights=(1,))
def max_roi_pool(node: Node) -> Cost:
    """As if each region were the whole image: every element of a channel is compared once.

    How large the regions are depends on data; this is the most they can be.
    """
    data, n_regions = node.input(0), node.input(1).shape[0]
    return Cost(simple=n_regions * math.prod(data.shape[1:]))


_ADAPTIVE = 2


@register("RoiAlign", not_weights=(1, 2))
def roi_align(node: Node) -> Cost:
    """Each bin is the mean, or maximum, of ``sampling_ratio``² bilinear samples.

    A sample interpolates each channel (7 operations) and is added or compared; a mean
    divides once. Its place (2 operations a coordinate) and weights are made once for all
    channels. With a ratio of 0 a region's size decides, which depends on data: 2 are
    taken, as regions matched to their level of a feature pyramid have (224 pixels at
    stride 16 are 14 for 7 bins; Lin et al., CVPR 2017, equation 1).
    """
    n_samples = (node.integer("sampling_ratio", 0) or _ADAPTIVE) ** 2
    each = n_samples * interpolation_cost(2, 2) + Cost(simple=n_samples - 1)
    if node.text("mode", "avg") == "avg":
        each += Cost(simple=1)
    n_channels = max(node.output.shape[1], 1)
    n_places = node.output.n_elements // n_channels * n_samples
    place = weights_cost("linear", 2) + Cost(simple=2 * 2)
    return node.output.n_elements * each + n_places * place


# order p -> operations of |x|^p: absolute value, square, or absolute value and two products
_POWERS = {1.0: Cost(simple=1), 2.0: Cost(simple=1), 3.0: Cost(simple=3)}


def _norm(node: Node, n_terms: int) -> Cost:
    n, order = node.output.n_elements, node.number("p", 2)
    additions = Cost(simple=max(n_terms - n, 0))
    roots = Cost(functions=0 if order == 1 else n)
    return _POWERS.get(order, Cost(simple=1, functions=1)) * n_terms + additions + roots


def _window(node: Node) -> int:
    return math.prod(node.integers("kernel_shape") or ())
