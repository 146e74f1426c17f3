"""Pooling, its inverse, and pooling of regions.

https://onnx.ai/onnx/operators/onnx__MaxPool.html, …__AveragePool, …__LpPool, …__MaxUnpool,
…__MaxRoiPool, …__RoiAlign
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import INT64
from mansard.estimator.shapes.checks import check_length, check_rank, known_ints
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.shapes.windows import pool_shape, transposed_shape
from mansard.estimator.tensors import Node


@rule("MaxPool")
def _max_pool(node: Node) -> Sequence[Spec]:
    shape = pool_shape(node)
    return [(node.input(0).dtype, shape), (INT64, shape)]


@rule("AveragePool", "LpPool")
def _average_pool(node: Node) -> Sequence[Spec]:
    return [(node.input(0).dtype, pool_shape(node))]


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    if data.rank < 3:
        raise node.error(f"needs [batch, channels, …], the input is {list(data.shape)}")
    return [(data.dtype, data.shape[:2] + (1,) * (data.rank - 2))]


@rule("MaxUnpool")
def _max_unpool(node: Node) -> Sequence[Spec]:
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


@rule("MaxRoiPool")
def _max_roi_pool(node: Node) -> Sequence[Spec]:
    """[regions, channels, height, width] for regions [n, 5]: an image's number and 4 edges."""
    data, regions = node.input(0), node.input(1)
    pooled = node.integers("pooled_shape") or ()
    check_rank(node, 0, 4)
    if regions.rank != 2 or regions.shape[1] != 5 or len(pooled) != 2 or min(pooled) < 1:
        raise node.error(f"regions {list(regions.shape)} or pooled_shape {list(pooled)} do not fit")
    return [(data.dtype, (regions.shape[0], data.shape[1], *pooled))]


@rule("RoiAlign")
def _roi_align(node: Node) -> Sequence[Spec]:
    """[regions, channels, height, width] for regions [n, 4] and the number of an image for each."""
    data, regions = node.input(0), node.input(1)
    check_rank(node, 0, 4)
    height, width = node.integer("output_height", 1), node.integer("output_width", 1)
    if regions.rank != 2 or regions.shape[1] != 4 or height < 1 or width < 1:
        raise node.error(f"regions {list(regions.shape)} or output {height} x {width} do not fit")
    node.input(2)
    check_length(node, 2, regions.shape[0], "regions")
    return [(data.dtype, (regions.shape[0], data.shape[1], height, width))]
