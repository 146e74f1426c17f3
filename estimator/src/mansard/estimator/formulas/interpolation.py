"""Resize and sampling: neighbours, and what they are weighted by.

https://onnx.ai/onnx/operators/onnx__Resize.html, …__Upsample, …__GridSample, …__AffineGrid
"""

from __future__ import annotations

import math

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node

# Neighbours along one axis; nearest has one and no weights.
TAPS = {"linear": 2, "bilinear": 2, "trilinear": 2, "cubic": 4, "bicubic": 4}

# Weights along one axis, of a position t behind its lower neighbour. Both: floor and
# difference. Linear: t and 1 - t. Cubic, R. Keys, IEEE Trans. ASSP 29(6), 1981, as in
# ONNX's Resize: two inner polynomials ((a + 2)·t - (a + 3))·t·t + 1 of 5 operations, two
# outer ones ((a·t - 5·a)·t + 8·a)·t - 4·a of 6, of the distances t, 1 + t, 1 - t, 2 - t.
_AXIS_WEIGHTS = {2: 3, 4: 2 + 2 * 5 + 2 * 6 + 3}


def interpolation_cost(taps: int, n_axes: int) -> Cost:
    """One element from taps^n neighbours: a product for each, one addition less."""
    window = taps**n_axes
    return Cost(simple=2 * window - 1) if window > 1 else NOTHING


def weights_cost(mode: str, n_axes: int) -> Cost:
    """The weights of one sample, which all its channels share; nearest rounds each coordinate.

    Those of each axis, and the products that make them the weights of all neighbours.
    """
    taps = TAPS.get(mode, 1)
    if taps == 1:
        return Cost(simple=n_axes)
    products = sum(taps**i for i in range(2, n_axes + 1))
    return Cost(simple=_AXIS_WEIGHTS[taps] * n_axes + products)


@register("Resize", "Upsample", not_weights=(1, 2, 3))
def resize(node: Node) -> Cost:
    """Nearest: none. Linear: 2 neighbours, cubic: 4, along each axis that changes.

    Each neighbour is a multiplication and an addition, one addition less in all; weights
    are made once for an axis and left out. With ``antialias`` a window that shrinks by s
    holds s times as many neighbours, and the axes are resized one after the other.
    """
    taps = TAPS.get(node.text("mode", "nearest"), 1)
    data, result = node.input(0).shape, node.output.shape
    if taps > 1 and node.integer("antialias", 0):
        return _antialiased(taps, data, result)
    changed = sum(a != b for a, b in zip(data, result, strict=True))
    return interpolation_cost(taps, changed) * node.output.n_elements


def _antialiased(taps: int, data: tuple[int, ...], result: tuple[int, ...]) -> Cost:
    """Axes from the last to the first, each over what the ones before have left."""
    shape, total = list(data), NOTHING
    for axis in reversed(range(len(data))):
        if data[axis] == result[axis]:
            continue
        shape[axis] = result[axis]
        window = max(taps, -(-taps * data[axis] // max(result[axis], 1)))
        total += interpolation_cost(window, 1) * math.prod(shape)
    return total


@register("GridSample")
def grid_sample(node: Node) -> Cost:
    """As Resize over all spatial axes, and for each sample its place and weights.

    A coordinate takes 4 operations to the image's scale. Nearest rounds it. Linear: floor,
    t, 1 - t; cubic: 27 for the four polynomials; then their products over the axes.
    """
    mode = node.text("mode", "linear")
    n_axes = node.input(0).rank - 2
    n_samples = node.input(1).n_elements // max(n_axes, 1)
    place = weights_cost(mode, n_axes) + Cost(simple=4 * n_axes)
    each = interpolation_cost(TAPS.get(mode, 1), n_axes)
    return n_samples * place + node.output.n_elements * each


@register("AffineGrid", not_weights=(1,))
def affine_grid(node: Node) -> Cost:
    """The product of theta [n, n + 1] with each place's coordinates and 1: n·n multiply-adds.

    The last column is added; the coordinates themselves are made once for an axis.
    """
    n = node.output.shape[-1]
    return Cost(macs=node.output.n_elements * n, simple=node.output.n_elements)
