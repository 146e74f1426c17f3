"""Resize and sampling: neighbours, and what they are weighted by.

https://onnx.ai/onnx/operators/onnx__Resize.html, …__Upsample, …__GridSample, …__AffineGrid
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.operators.registry import Specs, operator, shape_of
from mansard.estimator.operators.shapes import check_rank, distinct_axes, known_ints
from mansard.estimator.tensors import Node, Shape

# Neighbours along one axis; nearest has one and no weights.
_TAPS = {"linear": 2, "bilinear": 2, "trilinear": 2, "cubic": 4, "bicubic": 4}

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
    taps = _TAPS.get(mode, 1)
    if taps == 1:
        return Cost(simple=n_axes)
    products = sum(taps**i for i in range(2, n_axes + 1))
    return Cost(simple=_AXIS_WEIGHTS[taps] * n_axes + products)


def resize(node: Node) -> Cost:
    """2·k - 1 operations for k neighbours: 2 (linear) or 4 (cubic) along each axis; nearest 0.

    ``antialias``: s times as many neighbours where an axis shrinks by s.
    """
    taps = _TAPS.get(node.text("mode", "nearest"), 1)
    data, result = node.input(0).shape, node.output.shape
    if taps > 1 and node.integer("antialias", 0):
        return _antialiased(taps, data, result)
    changed = sum(a != b for a, b in zip(data, result, strict=True))
    return interpolation_cost(taps, changed) * node.output.n_elements


@shape_of("Upsample", cost=resize, not_weights=(1, 2, 3))
def _upsample_shape(node: Node) -> Specs:
    data = node.input(0)
    if node.opset >= 9:
        if node.input(1).value is None:
            return [(data.dtype, (None,) * data.rank)]
        scales = _floats(node, 1)
    elif node.opset >= 7:
        scales = _scales_attribute(node)
    else:
        check_rank(node, 0, 4)
        scales = (1.0, 1.0, node.number("height_scale", 0.0), node.number("width_scale", 0.0))
    return [(data.dtype, _scaled(node, list(range(data.rank)), scales, (1.0,) * data.rank))]


@shape_of("Resize", cost=resize, not_weights=(1, 2, 3))
def _resize_shape(node: Node) -> Specs:
    data = node.input(0)
    given = node.integers("axes")
    axes = distinct_axes(node, data, range(data.rank) if given is None else given)
    position = 1 if node.opset < 11 else 2
    sizes = node.has(3) and node.input(3).n_elements > 0
    steering = node.input(3) if sizes else node.input(position)
    if steering.value is None:
        return [(data.dtype, tuple(None if i in axes else n for i, n in enumerate(data.shape)))]
    if sizes:
        return [(data.dtype, _sized(node, axes, node.value_ints(3)))]
    crop = _crop(node, len(axes))
    if crop is None:
        return [(data.dtype, (None,) * data.rank)]
    return [(data.dtype, _scaled(node, axes, _floats(node, position), crop))]


def _scaled(
    node: Node, axes: Sequence[int], scales: tuple[float, ...], crop: tuple[float, ...]
) -> Shape:
    shape = list(node.input(0).shape)
    if len(scales) != len(axes):
        raise node.error(f"{len(scales)} scales for {list(shape)}")
    if not all(0 < scale < math.inf for scale in scales):
        raise node.error(f"scales {list(scales)} must be positive")
    for axis, scale, part in zip(axes, scales, crop, strict=True):
        # In fp32, as ONNX's inference and runtimes have it: 0.7 of 10 are 7, not 6.99.
        exact = _single(_single(_single(shape[axis]) * _single(part)) * _single(scale))
        shape[axis] = math.floor(exact)
    return tuple(shape)


def _single(number: float) -> float:
    """``number`` rounded to fp32; OverflowError beyond its range."""
    (rounded,) = struct.unpack("f", struct.pack("f", number))
    return float(rounded)


def _sized(node: Node, axes: Sequence[int], sizes: Shape) -> Shape:
    shape = list(node.input(0).shape)
    if len(sizes) != len(axes) or any(size < 0 for size in sizes):
        raise node.error(f"sizes {list(sizes)} do not fit {list(shape)}")
    for axis, size in zip(axes, _kept_in_ratio(node, axes, sizes), strict=True):
        shape[axis] = size
    return tuple(shape)


def _kept_in_ratio(node: Node, axes: Sequence[int], sizes: Shape) -> Shape:
    """``sizes``, or the nearest ones with the input's aspect ratio where that is asked for."""
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes
    before = [node.input(0).shape[axis] for axis in axes]
    ratios = [size / old for size, old in zip(sizes, before, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return tuple(math.floor(scale * old + 0.5) for old in before)


def _crop(node: Node, n: int) -> tuple[float, ...] | None:
    """The share of each axis that is kept before it is scaled; None where it depends on data."""
    mode = node.text("coordinate_transformation_mode", "half_pixel")
    if mode != "tf_crop_and_resize" or not node.has(1):
        return (1.0,) * n
    if node.input(1).value is None:
        return None
    region = _floats(node, 1)
    if len(region) != 2 * n:
        raise node.error(f"a region of {len(region)} numbers for {n} axes")
    return tuple(end - start for start, end in zip(region[:n], region[n:], strict=True))


def _floats(node: Node, position: int) -> tuple[float, ...]:
    return tuple(float(number) for number in node.value(position).flat)


def _scales_attribute(node: Node) -> tuple[float, ...]:
    scales = node.attributes.get("scales")
    if not isinstance(scales, tuple):
        raise node.error("the scales are missing")
    return tuple(float(scale) for scale in scales)


def _grid_sample_shape(node: Node) -> Specs:
    """[batch, channels, points…] for a grid [batch, points…, axes of the image]."""
    data, grid = node.input(0), node.input(1)
    n = data.rank - 2
    if n < 1 or grid.rank != data.rank or grid.shape[0] != data.shape[0] or grid.shape[-1] != n:
        raise node.error(f"grid {list(grid.shape)} does not fit {list(data.shape)}")
    return [(data.dtype, (*data.shape[:2], *grid.shape[1:-1]))]


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


@operator("GridSample", shape=_grid_sample_shape)
def grid_sample(node: Node) -> Cost:
    """As Resize over all spatial axes, with coordinates and weights for each sample.

    A coordinate: 4 operations, then 1 (nearest), 3 (linear) or 27 (cubic); then the weights'
    products.
    """
    mode = node.text("mode", "linear")
    n_axes = node.input(0).rank - 2
    n_samples = node.input(1).n_elements // max(n_axes, 1)
    point = weights_cost(mode, n_axes) + Cost(simple=4 * n_axes)
    each = interpolation_cost(_TAPS.get(mode, 1), n_axes)
    return n_samples * point + node.output.n_elements * each


def _affine_grid_shape(node: Node) -> Specs:
    """[batch, image…, n] for theta [batch, n, n + 1] and the sizes [batch, channels, image…]."""
    theta, sizes = check_rank(node, 0, 3), known_ints(node, 1)
    n = theta.shape[1]
    if n not in (2, 3) or theta.shape[2] != n + 1 or node.input(1).n_elements != n + 2:
        raise node.error(f"theta {list(theta.shape)} does not fit {node.input(1).n_elements} sizes")
    if sizes is None:
        return [(theta.dtype, (theta.shape[0], *(None,) * n, n))]
    if sizes[0] != theta.shape[0]:
        raise node.error(f"theta {list(theta.shape)} does not fit sizes {list(sizes)}")
    return [(theta.dtype, (theta.shape[0], *sizes[2:], n))]


@operator("AffineGrid", shape=_affine_grid_shape, not_weights=(1,))
def affine_grid(node: Node) -> Cost:
    """n·n multiply-adds and n additions for each point of n coordinates."""
    n = node.output.shape[-1]
    return Cost(macs=node.output.n_elements * n, simple=node.output.n_elements)
