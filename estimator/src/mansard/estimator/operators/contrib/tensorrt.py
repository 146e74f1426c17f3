"""TensorRT's plugins, which exporters for it write into ONNX files.

https://github.com/NVIDIA/TensorRT/tree/main/plugin, each with a README of its inputs and
outputs. Exporters disagree about the domain: none (graph surgeon), "TRT" (detectors), and
"trt.plugins" (ONNX Runtime) mean the same. Selections of boxes depend on data: their
counts are upper bounds.
"""

from __future__ import annotations

import math
from functools import partial

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.numbers import FLOAT32, INT32
from mansard.estimator.operators.contrib.parts import as_standard, cost_of, required, standard_specs
from mansard.estimator.operators.costs import (
    GELU,
    SIGMOID,
    copy,
    per_element,
    reads_only,
    sort_comparisons,
)
from mansard.estimator.operators.normalization import layer_norm_cost
from mansard.estimator.operators.registry import Specs, operator, shape_of
from mansard.estimator.operators.shapes import check_length, check_rank, same, same_as_first
from mansard.estimator.tensors import Node

_PLUGIN_DOMAINS = ("", "TRT", "trt.plugins")
plugin = partial(operator, domain=_PLUGIN_DOMAINS)
plugin_shape = partial(shape_of, domain=_PLUGIN_DOMAINS)


def _detection_sizes(node: Node) -> tuple[int, int, int]:
    """(batch, boxes, classes); boxes have a dimension of classes, or of 1, or none."""
    boxes, scores = node.input(0), node.input(1)
    fits = scores.rank == 3 and boxes.rank in (3, 4) and boxes.shape[-1] == 4
    if not fits or boxes.shape[:2] != scores.shape[:2]:
        raise node.error(f"boxes {list(boxes.shape)} and scores {list(scores.shape)} do not fit")
    batch, n_boxes, classes = scores.shape
    if boxes.rank == 4 and boxes.shape[2] not in (1, classes):
        raise node.error(f"boxes {list(boxes.shape)} are not of {classes} classes")
    return batch, n_boxes, classes


def _batched_nms_shape(node: Node) -> Specs:
    """How many, boxes, scores and classes, for up to keepTopK detections of an image."""
    batch, _, _ = _detection_sizes(node)
    kept, dtype = required(node, "keepTopK"), node.input(0).dtype
    return [(INT32, (batch, 1)), (dtype, (batch, kept, 4)), *[(dtype, (batch, kept))] * 2]


_OVERLAP = 13  # 4 extremes, 2 differences, 2 clamps, product, sum, difference, quotient, comparison

_SORTED = 4096  # boxes that EfficientNMS looks at, efficientNMSInference.cu


@plugin("BatchedNMS_TRT", "BatchedNMSDynamic_TRT", shape=_batched_nms_shape)
def batched_nms(node: Node) -> Cost:
    """Threshold, sort by class, overlap of the best ``topK``, sort of the rest: an upper bound.

    An overlap is 13 operations, an area 3.
    """
    batch, n_boxes, classes = _detection_sizes(node)
    top = min(node.integer("topK", n_boxes) if node.integer("topK", -1) > 0 else n_boxes, n_boxes)
    each = n_boxes + sort_comparisons(n_boxes) + 3 * top + _OVERLAP * (top * (top - 1) // 2)
    return Cost(simple=batch * (classes * each + sort_comparisons(classes * top)))


def _efficient_nms_shape(node: Node) -> Specs:
    """As BatchedNMS; classes are integers."""
    batch, _, _ = _detection_sizes(node)
    kept, dtype = required(node, "max_output_boxes"), node.input(0).dtype
    return [
        (INT32, (batch, 1)),
        (dtype, (batch, kept, 4)),
        (dtype, (batch, kept)),
        (INT32, (batch, kept)),
    ]


@plugin("EfficientNMS_TRT", shape=_efficient_nms_shape, not_weights=(2,))
def efficient_nms(node: Node) -> Cost:
    """Threshold, sort, overlap of the best 4096 with the selected: an upper bound.

    An overlap is 13 operations, an area 3, a decoded box 8 and 2 functions.
    """
    batch, n_boxes, classes = _detection_sizes(node)
    n = n_boxes * classes
    looked, kept = min(n, _SORTED), min(node.integer("max_output_boxes", 0), n)
    each = Cost(simple=n + sort_comparisons(n) + 3 * looked + _OVERLAP * looked * kept)
    if node.integer("score_activation", 0):
        each += SIGMOID * kept
    if node.has(2):
        each += Cost(simple=8, functions=2) * looked
    return each * batch


def _instance_normalization_shape(node: Node) -> Specs:
    """Scale and bias are inputs, or weights in the attributes."""
    data = node.input(0)
    if data.rank < 3:
        raise node.error(f"needs [batch, channels, …], the input is {list(data.shape)}")
    for position in (1, 2):
        check_length(node, position, data.shape[1], "channels")
    return [same(data)]


@plugin("InstanceNormalization_TRT", shape=_instance_normalization_shape)
def instance_normalization(node: Node) -> Cost:
    """As LayerNormalization with scale and bias; a row is a channel of a sample."""
    data = node.input(0)
    width = math.prod(data.shape[2:])
    behind = (1 + (node.number("alpha", 0.0) != 0.0)) if node.integer("relu", 0) else 0
    work = layer_norm_cost(data.n_elements, width, 2)
    return work + Cost(simple=behind * data.n_elements)


@plugin_shape("ROIAlign_TRT", cost=cost_of("RoiAlign"), not_weights=(1, 2))
def _roi_align_shape(node: Node) -> Specs:
    return standard_specs(as_standard(node, "RoiAlign"))


def _pyramid_align_shape(node: Node) -> Specs:
    """[batch, regions, channels, size, size] from whichever level fits a region."""
    regions, level, size = check_rank(node, 0, 3), node.input(1), required(node, "pooled_size")
    check_rank(node, 1, 4)
    return [(level.dtype, (*regions.shape[:2], level.shape[1], size, size))]


@plugin(
    *("PyramidROIAlign_TRT", "MultilevelCropAndResize_TRT"),
    shape=_pyramid_align_shape,
    not_weights=(0,),
)
def pyramid_align(node: Node) -> Cost:
    """7 operations for each element, 10 for each point, 8 and 2 functions for each region."""
    shape = node.output.shape
    regions = shape[0] * shape[1]
    points = regions * shape[3] * shape[4]
    simple = 7 * node.output.n_elements + 10 * points + 8 * regions
    return Cost(simple=simple, functions=2 * regions)


def _grid_anchor_shape(node: Node) -> Specs:
    """Corners and variances [2, 4 · anchors, 1] for each map of features.

    The first of several maps has 3 anchors a cell, the others one more than there are
    aspect ratios.
    """
    sizes = node.integers("featureMapShapes") or ()
    ratios = node.attributes.get("aspectRatios")
    if not isinstance(ratios, tuple) or not sizes or min(sizes) < 1:
        raise node.error("featureMapShapes or aspectRatios are missing")
    n_maps = len(node.output_names)
    if len(sizes) == n_maps:
        sizes = tuple(size for size in sizes for _ in range(2))  # squares, given by one edge
    if len(sizes) != 2 * n_maps:
        raise node.error(f"featureMapShapes {list(sizes)} do not fit {n_maps} outputs")
    cells = [sizes[2 * i] * sizes[2 * i + 1] for i in range(n_maps)]
    each = [3 if i == 0 and n_maps > 1 else len(ratios) + 1 for i in range(n_maps)]
    return [(FLOAT32, (2, 4 * n * m, 1)) for n, m in zip(cells, each, strict=True)]


@plugin("GridAnchor_TRT", "GridAnchorRect_TRT", shape=_grid_anchor_shape)
def grid_anchor(node: Node) -> Cost:
    """Two operations for each corner; the variances are copied."""
    return Cost(simple=sum(output.n_elements for output in node.outputs))


def _disentangled_shape(node: Node) -> Specs:
    """Scores [batch · heads, steps, steps], with those that depend on relative positions."""
    scores = check_rank(node, 0, 3)
    for position in (1, 2):
        check_rank(node, position, 3)
    return [same(scores)]


@plugin("DisentangledAttention_TRT", shape=_disentangled_shape)
def disentangled_attention(node: Node) -> Cost:
    """3 operations for each score, 4 for each relative position."""
    return Cost(simple=7 * node.output.n_elements)


def _deformable_shape(node: Node) -> Specs:
    """[batch, queries, heads, width] of values [batch, points, heads, width]."""
    value, points = check_rank(node, 0, 4), check_rank(node, 3, 6)
    return [(value.dtype, (value.shape[0], points.shape[1], *value.shape[2:]))]


def _deformable_bytes(node: Node, precision: Precision | None) -> int:
    """Of the values at most 4 neighbours of each sample."""
    value, weights = node.input(0), node.input(4)
    return reads_only(node, precision, {0: 4 * weights.n_elements * value.shape[-1]})


@plugin(
    "MultiscaleDeformableAttnPlugin_TRT",
    shape=_deformable_shape,
    not_weights=(1, 2),
    reads=_deformable_bytes,
)
def deformable_attention(node: Node) -> Cost:
    """9 operations for each element and point (bilinear, weighted sum), 14 for each point."""
    n_points, width = node.input(4).n_elements, node.input(0).shape[-1]
    return Cost(simple=n_points * (9 * width + 14))


def _deformed_convolution_shape(node: Node) -> Specs:
    """[batch, filters, height, width]: the offsets have the output's size."""
    data, offsets, weights = node.input(0), node.input(1), node.input(3)
    for position in (0, 1, 3):
        check_rank(node, position, 4)
    check_length(node, 4, weights.shape[0], "filters")
    return [(data.dtype, (data.shape[0], weights.shape[0], *offsets.shape[2:]))]


@plugin(
    "ModulatedDeformConv2d", shape=_deformed_convolution_shape, not_weights=(1, 2), operands=(0, 3)
)
def deformed_convolution(node: Node) -> Cost:
    """As Conv; each element of a window 7 for its sample and 1 for its mask, each offset 8."""
    weights, out = node.input(3), node.output
    macs = out.n_elements * math.prod(weights.shape[1:])
    points = out.n_elements // max(weights.shape[0], 1)
    samples = points * node.input(0).shape[1] * math.prod(weights.shape[2:])
    simple = 8 * samples + 8 * node.input(2).n_elements
    return Cost(macs=macs, simple=simple + (out.n_elements if node.has(4) else 0))


@plugin_shape("ResizeNearest_TRT", cost=copy)
def _resize_shape(node: Node) -> Specs:
    data, scale = check_rank(node, 0, 4), node.number("scale", 0.0)
    if scale <= 0:
        raise node.error("attribute 'scale' is missing, or not positive")
    sizes = tuple(int(size * scale) for size in data.shape[2:])
    return [(data.dtype, (*data.shape[:2], *sizes))]


plugin("LReLU_TRT", "Clip_TRT", shape=same_as_first)(per_element(2))


@plugin("CustomGeluPluginDynamic", shape=same_as_first)
def gelu(node: Node) -> Cost:
    """4 operations and a function for each element, 1 for a bias."""
    biased = Cost(simple=int("bias" in node.attributes))
    return (GELU + biased) * node.output.n_elements


def _skip_normalization_shape(node: Node) -> Specs:
    data, skip = node.input(0), node.input(1)
    if data.shape != skip.shape:
        raise node.error(f"skip {list(skip.shape)} is not of shape {list(data.shape)}")
    return [same(data)]


@plugin("CustomSkipLayerNormPluginDynamic", shape=_skip_normalization_shape)
def skip_normalization(node: Node) -> Cost:
    """1 for the sum, 1 for a bias, then as LayerNormalization with scale and bias."""
    n, width = node.output.n_elements, node.output.shape[2] if node.output.rank > 2 else 1
    sums = 1 + ("bias" in node.attributes)
    return Cost(simple=sums * n) + layer_norm_cost(n, width, 2)
