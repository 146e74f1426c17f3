"""Resize and Upsample. https://onnx.ai/onnx/operators/onnx__Resize.html, …__Upsample"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape


@rule("Resize", "Upsample")
def _resize(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    axes = node.integers("axes") or tuple(range(data.rank))
    sizes, scales = _resize_values(node)
    shape = list(data.shape)
    if sizes is not None and len(sizes) == len(axes):
        places = [data.axis(axis) for axis in axes]
        for place, size in zip(places, _kept_in_ratio(node, places, sizes), strict=True):
            shape[place] = size
    elif scales is not None and len(scales) == len(axes):
        if not all(0 < scale < math.inf for scale in scales):
            raise node.error(f"scales {list(scales)} must be positive")
        for axis, scale in zip(axes, scales, strict=True):
            shape[data.axis(axis)] = math.floor(shape[data.axis(axis)] * scale)
    else:
        raise node.error(f"gives neither sizes nor scales for {list(data.shape)}")
    return [(data.dtype, tuple(shape))]


def _kept_in_ratio(node: Node, places: Sequence[int], sizes: Shape) -> Shape:
    """``sizes``, or the nearest ones with the input's aspect ratio where that is asked for."""
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes
    before = [node.input(0).shape[place] for place in places]
    ratios = [size / old for size, old in zip(sizes, before, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return tuple(math.floor(scale * old + 0.5) for old in before)


def _resize_values(node: Node) -> tuple[Shape | None, tuple[float, ...] | None]:
    """(sizes, scales), whichever the operator's version and the file give."""
    if node.has(3):
        return node.value_ints(3), None
    position = 1 if node.op_type == "Upsample" or node.opset < 11 else 2
    if node.has(position):
        return None, tuple(float(scale) for scale in node.value(position).reshape(-1))
    scales = node.attributes.get("scales")
    if not isinstance(scales, tuple):
        return None, None
    return None, tuple(float(scale) for scale in scales)
