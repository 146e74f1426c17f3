"""TensorRT's plugins, which exporters for it write into ONNX files.

https://github.com/NVIDIA/TensorRT/tree/main/plugin, each with a README of its inputs and
outputs. Exporters disagree about the domain: none (graph surgeon), "TRT" (detectors), and
"trt.plugins" (ONNX Runtime) mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mansard.estimator.element_types import FLOAT32, INT32
from mansard.estimator.shapes.checks import check_length, check_rank
from mansard.estimator.shapes.contrib_parts import as_standard, required, standard_specs
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Rule, Spec, rule
from mansard.estimator.tensors import Node

PLUGIN_DOMAINS = ("", "TRT", "trt.plugins")


def _plugin(*op_types: str) -> Callable[[Rule], Rule]:
    def decorate(function: Rule) -> Rule:
        for domain in PLUGIN_DOMAINS:
            rule(*op_types, domain=domain)(function)
        return function

    return decorate


def detection_sizes(node: Node) -> tuple[int, int, int]:
    """(batch, boxes, classes); boxes have a dimension of classes, or of 1, or none."""
    boxes, scores = node.input(0), node.input(1)
    fits = scores.rank == 3 and boxes.rank in (3, 4) and boxes.shape[-1] == 4
    if not fits or boxes.shape[:2] != scores.shape[:2]:
        raise node.error(f"boxes {list(boxes.shape)} and scores {list(scores.shape)} do not fit")
    batch, n_boxes, classes = scores.shape
    if boxes.rank == 4 and boxes.shape[2] not in (1, classes):
        raise node.error(f"boxes {list(boxes.shape)} are not of {classes} classes")
    return batch, n_boxes, classes


@_plugin("BatchedNMS_TRT", "BatchedNMSDynamic_TRT")
def _batched_nms(node: Node) -> Sequence[Spec]:
    """How many, boxes, scores and classes, for up to keepTopK detections of an image."""
    batch, _, _ = detection_sizes(node)
    kept, dtype = required(node, "keepTopK"), node.input(0).dtype
    return [(INT32, (batch, 1)), (dtype, (batch, kept, 4)), *[(dtype, (batch, kept))] * 2]


@_plugin("EfficientNMS_TRT")
def _efficient_nms(node: Node) -> Sequence[Spec]:
    """As BatchedNMS; classes are integers."""
    batch, _, _ = detection_sizes(node)
    kept, dtype = required(node, "max_output_boxes"), node.input(0).dtype
    return [
        (INT32, (batch, 1)),
        (dtype, (batch, kept, 4)),
        (dtype, (batch, kept)),
        (INT32, (batch, kept)),
    ]


@_plugin("InstanceNormalization_TRT")
def _instance_normalization(node: Node) -> Sequence[Spec]:
    """Scale and bias are inputs, or weights in the attributes."""
    data = node.input(0)
    if data.rank < 3:
        raise node.error(f"needs [batch, channels, …], the input is {list(data.shape)}")
    for position in (1, 2):
        check_length(node, position, data.shape[1], "channels")
    return [same(data)]


@_plugin("ROIAlign_TRT")
def _roi_align(node: Node) -> Sequence[Spec]:
    return standard_specs(as_standard(node, "RoiAlign"))


@_plugin("PyramidROIAlign_TRT", "MultilevelCropAndResize_TRT")
def _pyramid_align(node: Node) -> Sequence[Spec]:
    """[batch, regions, channels, size, size] from whichever level fits a region."""
    regions, level, size = node.input(0), node.input(1), required(node, "pooled_size")
    check_rank(node, 0, 3)
    check_rank(node, 1, 4)
    return [(level.dtype, (*regions.shape[:2], level.shape[1], size, size))]


@_plugin("GridAnchor_TRT", "GridAnchorRect_TRT")
def _grid_anchor(node: Node) -> Sequence[Spec]:
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


@_plugin("DisentangledAttention_TRT")
def _disentangled(node: Node) -> Sequence[Spec]:
    """Scores [batch · heads, steps, steps], with those that depend on relative positions."""
    scores = node.input(0)
    check_rank(node, 0, 3)
    for position in (1, 2):
        check_rank(node, position, 3)
    return [same(scores)]


@_plugin("MultiscaleDeformableAttnPlugin_TRT")
def _deformable(node: Node) -> Sequence[Spec]:
    """[batch, queries, heads, width] of values [batch, places, heads, width]."""
    value, places = node.input(0), node.input(3)
    check_rank(node, 0, 4)
    check_rank(node, 3, 6)
    return [(value.dtype, (value.shape[0], places.shape[1], *value.shape[2:]))]


@_plugin("ModulatedDeformConv2d")
def _deformed_convolution(node: Node) -> Sequence[Spec]:
    """[batch, filters, height, width]: the offsets have the output's size."""
    data, offsets, weights = node.input(0), node.input(1), node.input(3)
    for position in (0, 1, 3):
        check_rank(node, position, 4)
    check_length(node, 4, weights.shape[0], "filters")
    return [(data.dtype, (data.shape[0], weights.shape[0], *offsets.shape[2:]))]


@_plugin("ResizeNearest_TRT")
def _resize(node: Node) -> Sequence[Spec]:
    data, scale = node.input(0), node.number("scale", 0.0)
    check_rank(node, 0, 4)
    if scale <= 0:
        raise node.error("attribute 'scale' is missing, or not positive")
    sizes = tuple(int(size * scale) for size in data.shape[2:])
    return [(data.dtype, (*data.shape[:2], *sizes))]


@_plugin("LReLU_TRT", "Clip_TRT", "CustomGeluPluginDynamic")
def _elementwise(node: Node) -> Sequence[Spec]:
    return [same(node.input(0))]


@_plugin("CustomSkipLayerNormPluginDynamic")
def _skip_normalization(node: Node) -> Sequence[Spec]:
    data, skip = node.input(0), node.input(1)
    if data.shape != skip.shape:
        raise node.error(f"skip {list(skip.shape)} is not of shape {list(data.shape)}")
    return [same(data)]
