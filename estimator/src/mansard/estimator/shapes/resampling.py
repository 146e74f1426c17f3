"""Resize, Upsample, GridSample, AffineGrid.

https://onnx.ai/onnx/operators/onnx__Resize.html, …__Upsample, …__GridSample, …__AffineGrid
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from mansard.estimator.shapes.checks import check_rank, distinct_axes, known_ints
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape


@rule("Upsample")
def _upsample(node: Node) -> Sequence[Spec]:
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


@rule("Resize")
def _resize(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    axes = node.integers("axes")
    places = distinct_axes(node, data, range(data.rank) if axes is None else axes)
    position = 1 if node.opset < 11 else 2
    sizes = node.has(3) and node.input(3).n_elements > 0
    steering = node.input(3) if sizes else node.input(position)
    if steering.value is None:
        return [(data.dtype, tuple(None if i in places else n for i, n in enumerate(data.shape)))]
    if sizes:
        return [(data.dtype, _sized(node, places, node.value_ints(3)))]
    crop = _crop(node, len(places))
    if crop is None:
        return [(data.dtype, (None,) * data.rank)]
    return [(data.dtype, _scaled(node, places, _floats(node, position), crop))]


def _scaled(
    node: Node, places: Sequence[int], scales: tuple[float, ...], crop: tuple[float, ...]
) -> Shape:
    shape = list(node.input(0).shape)
    if len(scales) != len(places):
        raise node.error(f"{len(scales)} scales for {list(shape)}")
    if not all(0 < scale < math.inf for scale in scales):
        raise node.error(f"scales {list(scales)} must be positive")
    for place, scale, part in zip(places, scales, crop, strict=True):
        # In fp32, as ONNX's inference and runtimes have it: 0.7 of 10 are 7, not 6.99.
        exact = _single(_single(_single(shape[place]) * _single(part)) * _single(scale))
        shape[place] = math.floor(exact)
    return tuple(shape)


def _single(number: float) -> float:
    """``number`` rounded to fp32; OverflowError beyond its range."""
    (rounded,) = struct.unpack("f", struct.pack("f", number))
    return float(rounded)


def _sized(node: Node, places: Sequence[int], sizes: Shape) -> Shape:
    shape = list(node.input(0).shape)
    if len(sizes) != len(places) or any(size < 0 for size in sizes):
        raise node.error(f"sizes {list(sizes)} do not fit {list(shape)}")
    for place, size in zip(places, _kept_in_ratio(node, places, sizes), strict=True):
        shape[place] = size
    return tuple(shape)


def _kept_in_ratio(node: Node, places: Sequence[int], sizes: Shape) -> Shape:
    """``sizes``, or the nearest ones with the input's aspect ratio where that is asked for."""
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes
    before = [node.input(0).shape[place] for place in places]
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


@rule("GridSample")
def _grid_sample(node: Node) -> Sequence[Spec]:
    """[batch, channels, places…] for a grid [batch, places…, axes of the image]."""
    data, grid = node.input(0), node.input(1)
    n = data.rank - 2
    if n < 1 or grid.rank != data.rank or grid.shape[0] != data.shape[0] or grid.shape[-1] != n:
        raise node.error(f"grid {list(grid.shape)} does not fit {list(data.shape)}")
    return [(data.dtype, (*data.shape[:2], *grid.shape[1:-1]))]


@rule("AffineGrid")
def _affine_grid(node: Node) -> Sequence[Spec]:
    """[batch, image…, n] for theta [batch, n, n + 1] and the sizes [batch, channels, image…]."""
    theta, sizes = node.input(0), known_ints(node, 1)
    check_rank(node, 0, 3)
    n = theta.shape[1]
    if n not in (2, 3) or theta.shape[2] != n + 1 or node.input(1).n_elements != n + 2:
        raise node.error(f"theta {list(theta.shape)} does not fit {node.input(1).n_elements} sizes")
    if sizes is None:
        return [(theta.dtype, (theta.shape[0], *(None,) * n, n))]
    if sizes[0] != theta.shape[0]:
        raise node.error(f"theta {list(theta.shape)} does not fit sizes {list(sizes)}")
    return [(theta.dtype, (theta.shape[0], *sizes[2:], n))]
