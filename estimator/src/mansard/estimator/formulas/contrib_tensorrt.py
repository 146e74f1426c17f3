"""TensorRT's plugins, which exporters for it write into ONNX files.

https://github.com/NVIDIA/TensorRT/tree/main/plugin. Selections of boxes depend on data:
their counts are upper bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, BytesFunction, Cost, FormulaFunction
from mansard.estimator.formulas.contrib_parts import (
    GELU,
    SIGMOID,
    reads_only,
    rows,
    standard_cost,
)
from mansard.estimator.formulas.normalization import layer_norm_cost
from mansard.estimator.formulas.picking import sort_comparisons
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_tensorrt import PLUGIN_DOMAINS, detection_sizes
from mansard.estimator.tensors import Node

OVERLAP = 13  # 4 extremes, 2 differences, 2 clamps, product, sum, difference, quotient, comparison
_SORTED = 4096  # boxes that EfficientNMS looks at, efficientNMSInference.cu


def _plugin(
    *op_types: str,
    not_weights: tuple[int, ...] = (),
    operands: tuple[int, ...] = (0, 1),
    reads: BytesFunction | None = None,
) -> Callable[[FormulaFunction], FormulaFunction]:
    def decorate(function: FormulaFunction) -> FormulaFunction:
        for domain in PLUGIN_DOMAINS:
            register(
                *op_types, domain=domain, not_weights=not_weights, operands=operands, reads=reads
            )(function)
        return function

    return decorate


@_plugin("BatchedNMS_TRT", "BatchedNMSDynamic_TRT")
def batched_nms(node: Node) -> Cost:
    """Compare each score, sort those of each class, overlap the best ``topK`` with each other.

    An overlap takes 13 operations, an area 3. Then the best of all classes are sorted. All
    of ``topK`` (a whole class where it is not given) are taken to pass the threshold: an
    upper bound.
    """
    batch, n_boxes, classes = detection_sizes(node)
    top = min(node.integer("topK", n_boxes) if node.integer("topK", -1) > 0 else n_boxes, n_boxes)
    each = n_boxes + sort_comparisons(n_boxes) + 3 * top + OVERLAP * (top * (top - 1) // 2)
    return Cost(simple=batch * (classes * each + sort_comparisons(classes * top)))


@_plugin("EfficientNMS_TRT", not_weights=(2,))
def efficient_nms(node: Node) -> Cost:
    """Compare each score, sort all, overlap the best 4096 with those that are kept.

    An overlap takes 13 operations, an area 3; a sigmoid for each box that is kept, where
    scores come without. Boxes as differences to anchors: 8 operations and 2 functions for
    each of the 4096. All are taken to pass the threshold: an upper bound.
    """
    batch, n_boxes, classes = detection_sizes(node)
    n = n_boxes * classes
    looked, kept = min(n, _SORTED), min(node.integer("max_output_boxes", 0), n)
    each = Cost(simple=n + sort_comparisons(n) + 3 * looked + OVERLAP * looked * kept)
    if node.integer("score_activation", 0):
        each += SIGMOID * kept
    if node.has(2):
        each += Cost(simple=8, functions=2) * looked
    return each * batch


@_plugin("InstanceNormalization_TRT")
def instance_normalization(node: Node) -> Cost:
    """As LayerNormalization with scale and shift; a row is one channel of one image."""
    data = node.input(0)
    width = math.prod(data.shape[2:])
    behind = (1 + (node.number("alpha", 0.0) != 0.0)) if node.integer("relu", 0) else 0
    work = layer_norm_cost(rows(data.n_elements, width), width, 2)
    return work + Cost(simple=behind * data.n_elements)


@_plugin("ROIAlign_TRT", not_weights=(1, 2))
def roi_align(node: Node) -> Cost:
    """As ONNX's RoiAlign."""
    return standard_cost(node, "RoiAlign")


@_plugin("PyramidROIAlign_TRT", "MultilevelCropAndResize_TRT", not_weights=(0,))
def pyramid_align(node: Node) -> Cost:
    """One bilinear sample for each element: 7 operations from 4 neighbours.

    For each place of a region 10 operations for its coordinates and weights; for each
    region a root, a logarithm and 8 operations to choose its level.
    """
    shape = node.output.shape
    regions = shape[0] * shape[1]
    places = regions * shape[3] * shape[4]
    simple = 7 * node.output.n_elements + 10 * places + 8 * regions
    return Cost(simple=simple, functions=2 * regions)


@_plugin("GridAnchor_TRT", "GridAnchorRect_TRT")
def grid_anchor(node: Node) -> Cost:
    """Two operations for each corner; the variances are copied."""
    return Cost(simple=sum(output.n_elements for output in node.outputs))


@_plugin("DisentangledAttention_TRT")
def disentangled_attention(node: Node) -> Cost:
    """Two sums and a factor for each score, 4 operations for each relative position.

    The place of a position in its row is the same for all heads, and made for each score.
    """
    return Cost(simple=7 * node.output.n_elements)


def _deformable_bytes(node: Node, precision: Precision | None) -> int:
    """Of the values no more than 4 neighbours of every sample."""
    value, weights = node.input(0), node.input(4)
    return reads_only(node, precision, {0: 4 * weights.n_elements * value.shape[-1]})


@_plugin("MultiscaleDeformableAttnPlugin_TRT", not_weights=(1, 2), reads=_deformable_bytes)
def deformable_attention(node: Node) -> Cost:
    """A bilinear sample (7 operations) for each element and point, weighed and added (2).

    For each point 14 operations for its place and its neighbours' weights.
    """
    n_points, width = node.input(4).n_elements, node.input(0).shape[-1]
    return Cost(simple=n_points * (9 * width + 14))


@_plugin("ModulatedDeformConv2d", not_weights=(1, 2), operands=(0, 3))
def deformed_convolution(node: Node) -> Cost:
    """As Conv; each element of a window is sampled (7 operations) and masked before.

    For each offset 8 operations for its place and its neighbours' weights.
    """
    weights, out = node.input(3), node.output
    macs = out.n_elements * math.prod(weights.shape[1:])
    places = out.n_elements // max(weights.shape[0], 1)
    samples = places * node.input(0).shape[1] * math.prod(weights.shape[2:])
    simple = 8 * samples + 8 * node.input(2).n_elements
    return Cost(macs=macs, simple=simple + (out.n_elements if node.has(4) else 0))


@_plugin("ResizeNearest_TRT")
def resize(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads its input and writes its output."""
    return NOTHING


@_plugin("LReLU_TRT", "Clip_TRT")
def limit(node: Node) -> Cost:
    """Two operations for each element."""
    return Cost(simple=2 * node.output.n_elements)


@_plugin("CustomGeluPluginDynamic")
def gelu(node: Node) -> Cost:
    """4 operations and a function for each element, a bias where one is given."""
    biased = Cost(simple=int("bias" in node.attributes))
    return (GELU + biased) * node.output.n_elements


@_plugin("CustomSkipLayerNormPluginDynamic")
def skip_normalization(node: Node) -> Cost:
    """The sum, a bias where one is given, then layer normalisation with scale and shift."""
    n, width = node.output.n_elements, node.output.shape[2] if node.output.rank > 2 else 1
    sums = 1 + ("bias" in node.attributes)
    return Cost(simple=sums * n) + layer_norm_cost(rows(n, width), width, 2)
