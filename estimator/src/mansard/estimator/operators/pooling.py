"""Pooling of windows and of regions, and its inverse.

https://onnx.ai/onnx/operators/onnx__MaxPool.html, …__AveragePool, …__LpPool, …__MaxUnpool,
…__MaxRoiPool, …__RoiAlign
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import INT64
from mansard.estimator.operators.conv import pool_shape, transposed_shape
from mansard.estimator.operators.costs import folds, no_work
from mansard.estimator.operators.registry import Specs, operator, shape_of
from mansard.estimator.operators.resampling import interpolation_cost, weights_cost
from mansard.estimator.operators.shapes import check_length, check_rank, known_ints
from mansard.estimator.tensors import Node


def _max_pool_shape(node: Node) -> Specs:
    shape = pool_shape(node)
    return [(node.input(0).dtype, shape), (INT64, shape)]


@operator("MaxPool", shape=_max_pool_shape)
def max_pool(node: Node) -> Cost:
    """n - 1 comparisons for each window of n elements."""
    return Cost(simple=(_window(node) - 1) * node.output.n_elements)


def _average_pool_shape(node: Node) -> Specs:
    return [(node.input(0).dtype, pool_shape(node))]


@operator("AveragePool", shape=_average_pool_shape)
def average_pool(node: Node) -> Cost:
    """n - 1 additions and a division for each window of n elements."""
    return Cost(simple=_window(node) * node.output.n_elements)


@operator("LpPool", shape=_average_pool_shape)
def lp_pool(node: Node) -> Cost:
    """n powers, n - 1 additions, a root (none for p = 1) for each window of n.

    A power is 1 operation for p = 1 or 2, 3 for p = 3, else 1 and a function.
    """
    return _norm(node, _window(node) * node.output.n_elements)


def _global_pool_shape(node: Node) -> Specs:
    data = node.input(0)
    if data.rank < 3:
        raise node.error(f"needs [batch, channels, …], the input is {list(data.shape)}")
    return [(data.dtype, data.shape[:2] + (1,) * (data.rank - 2))]


@operator("GlobalMaxPool", shape=_global_pool_shape)
def global_max_pool(node: Node) -> Cost:
    """n - 1 comparisons for each channel of n elements."""
    return Cost(simple=folds(node))


@operator("GlobalAveragePool", shape=_global_pool_shape)
def global_average_pool(node: Node) -> Cost:
    """n - 1 additions and a division for each channel of n elements."""
    return Cost(simple=node.input(0).n_elements)


@operator("GlobalLpPool", shape=_global_pool_shape)
def global_lp_pool(node: Node) -> Cost:
    """As LpPool; a window is a channel."""
    return _norm(node, node.input(0).n_elements)


@shape_of(
    "MaxUnpool",
    cost=no_work("No work; writes the whole output, zeros among it."),
    not_weights=(1, 2),
)
def _max_unpool_shape(node: Node) -> Specs:
    data, indices = node.input(0), node.input(1)
    kernel = node.integers("kernel_shape")
    if data.rank < 3 or kernel is None or len(kernel) != data.rank - 2:
        raise node.error(f"kernel_shape does not fit input {list(data.shape)}")
    if indices.shape != data.shape:
        raise node.error(f"indices {list(indices.shape)} are not of shape {list(data.shape)}")
    if not node.has(2):
        return [(data.dtype, (*data.shape[:2], *transposed_shape(node, data, kernel)))]
    shape = known_ints(node, 2)
    if shape is None:
        return [(data.dtype, (*data.shape[:2], *(None,) * len(kernel)))]
    if len(shape) != data.rank or shape[:2] != data.shape[:2]:
        raise node.error(f"output_shape {list(shape)} does not fit {list(data.shape)}")
    return [(data.dtype, shape)]


def _max_roi_pool_shape(node: Node) -> Specs:
    """[regions, channels, height, width] for regions [n, 5]: an image's number and 4 edges."""
    data, regions = check_rank(node, 0, 4), node.input(1)
    pooled = node.integers("pooled_shape") or ()
    if regions.rank != 2 or regions.shape[1] != 5 or len(pooled) != 2 or min(pooled) < 1:
        raise node.error(f"regions {list(regions.shape)} or pooled_shape {list(pooled)} do not fit")
    return [(data.dtype, (regions.shape[0], data.shape[1], *pooled))]


@operator("MaxRoiPool", shape=_max_roi_pool_shape, not_weights=(1,))
def max_roi_pool(node: Node) -> Cost:
    """Each region as the whole image: an upper bound.

    1 comparison for each element of a channel.
    """
    data, n_regions = node.input(0), node.input(1).shape[0]
    return Cost(simple=n_regions * math.prod(data.shape[1:]))


def _roi_align_shape(node: Node) -> Specs:
    """[regions, channels, height, width] for regions [n, 4] and the number of an image for each."""
    data, regions = check_rank(node, 0, 4), node.input(1)
    height, width = node.integer("output_height", 1), node.integer("output_width", 1)
    if regions.rank != 2 or regions.shape[1] != 4 or height < 1 or width < 1:
        raise node.error(f"regions {list(regions.shape)} or output {height} x {width} do not fit")
    node.input(2)
    check_length(node, 2, regions.shape[0], "regions")
    return [(data.dtype, (regions.shape[0], data.shape[1], height, width))]


@operator("RoiAlign", shape=_roi_align_shape, not_weights=(1, 2))
def roi_align(node: Node) -> Cost:
    """Mean or maximum of ``sampling_ratio``² bilinear samples (7 operations and 1) for each bin.

    Coordinates (2 each) and weights once for all channels. A ratio of 0 counts as 2, which
    regions matched to their level of a feature pyramid have (Lin et al., CVPR 2017, equation
    1).
    """
    n_samples = (node.integer("sampling_ratio", 0) or 2) ** 2
    each = n_samples * interpolation_cost(2, 2) + Cost(simple=n_samples - 1)
    if node.text("mode", "avg") == "avg":
        each += Cost(simple=1)
    n_channels = max(node.output.shape[1], 1)
    n_points = node.output.n_elements // n_channels * n_samples
    point = weights_cost("linear", 2) + Cost(simple=2 * 2)
    return node.output.n_elements * each + n_points * point


# order p -> operations of |x|^p: absolute value, square, or absolute value and two products
_POWERS = {1.0: Cost(simple=1), 2.0: Cost(simple=1), 3.0: Cost(simple=3)}


def _norm(node: Node, n_terms: int) -> Cost:
    n, order = node.output.n_elements, node.number("p", 2)
    additions = Cost(simple=max(n_terms - n, 0))
    roots = Cost(functions=0 if order == 1 else n)
    return _POWERS.get(order, Cost(simple=1, functions=1)) * n_terms + additions + roots


def _window(node: Node) -> int:
    return math.prod(node.integers("kernel_shape") or ())
