"""Normalisations and softmax: the input's shape, with parameters that must fit it.

https://onnx.ai/onnx/operators/onnx__BatchNormalization.html, …__LayerNormalization,
…__GroupNormalization, …__Softmax and kin
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.estimator.element_types import BY_CODE
from mansard.estimator.shapes.checks import check_length
from mansard.estimator.shapes.elementwise import broadcast, same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


def softmax_rows(node: Node) -> tuple[int, int]:
    """(rows, elements of a row); before version 13 all axes from ``axis`` on are one row."""
    data = node.input(0)
    if node.opset >= 13:
        width = data.shape[data.axis(node.integer("axis", -1))]
    else:
        axis = node.integer("axis", 1)
        # A vector counts as a matrix of one column: axis 1 is behind its last.
        if axis != data.rank:
            axis = data.axis(axis)
        width = math.prod(data.shape[axis:])
    return data.n_elements // width if width else 0, width


@rule("Softmax", "LogSoftmax", "Hardmax")
def _softmax(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    if node.opset >= 13:
        data.axis(node.integer("axis", -1))
    else:
        softmax_rows(node)
    return [(data.dtype, data.shape)]


@rule("LpNormalization")
def _lp_normalization(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    data.axis(node.integer("axis", -1))
    return [same(data)]


@rule("MeanVarianceNormalization")
def _mean_variance_normalization(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    axes = node.integers("axes")
    for axis in (0, 2, 3) if axes is None else axes:
        data.axis(axis)
    return [same(data)]


@rule("LRN")
def _local_response_normalization(node: Node) -> Sequence[Spec]:
    if node.integer("size", 0) < 1:
        raise node.error(f"a window of {node.integer('size', 0)} channels holds nothing")
    return [same(node.input(0))]


@rule("BatchNormalization")
def _batch_normalization(node: Node) -> Sequence[Spec]:
    """Outputs behind the first: running mean and variance, before version 14 also the batch's."""
    data = node.input(0)
    if not data.rank:
        raise node.error("needs an input of at least 1 dimension")
    channels = data.shape[1] if data.rank > 1 else 1
    if node.opset < 9 and not node.integer("spatial", 1):
        channels = math.prod(data.shape[1:])
    for position in range(1, 5):
        check_length(node, position, channels, "channels")
    statistics = [same(node.input(3)), same(node.input(4))]
    return [same(data), *statistics, *(statistics if node.opset < 14 else ())]


@rule("InstanceNormalization")
def _instance_normalization(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    if data.rank < 2:
        raise node.error(f"needs [batch, channels, …], the input is {list(data.shape)}")
    for position in (1, 2):
        node.input(position)
        check_length(node, position, data.shape[1], "channels")
    return [same(data)]


@rule("GroupNormalization")
def _group_normalization(node: Node) -> Sequence[Spec]:
    """Scale and bias have a value for each group, from version 21 on for each channel."""
    data, n_groups = node.input(0), node.integer("num_groups", 0)
    if data.rank < 2:
        raise node.error(f"needs [batch, channels, …], the input is {list(data.shape)}")
    channels = data.shape[1]
    if n_groups < 1 or channels % n_groups:
        raise node.error(f"{channels} channels do not fit {n_groups} groups")
    for position in (1, 2):
        size, per = (n_groups, "groups") if node.opset < 21 else (channels, "channels")
        check_length(node, position, size, per)
    return [same(data)]


@rule("LayerNormalization")
def _layer_normalization(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    axis = data.axis(node.integer("axis", -1))
    _check_affine(node, axis)
    if len(node.output_names) == 1:
        return [(data.dtype, data.shape)]
    rows = data.shape[:axis] + (1,) * (data.rank - axis)
    stash = BY_CODE.get(node.integer("stash_type", 1), data.dtype)
    return [(data.dtype, data.shape), (stash, rows), (stash, rows)]


@rule("RMSNormalization")
def _rms_normalization(node: Node) -> Sequence[Spec]:
    data, scale = node.input(0), node.input(1)
    _check_affine(node, data.axis(node.integer("axis", -1)))
    return [(scale.dtype, data.shape)]


def _check_affine(node: Node, axis: int) -> None:
    """Scale and bias must broadcast to the axes from ``axis`` on."""
    shape = node.input(0).shape
    for position in range(1, len(node.inputs)):
        values = node.optional(position)
        if values is None or values.shape == shape[axis:]:
            continue
        if broadcast(node, shape, values.shape) != shape:
            raise node.error(f"{values.name!r} {list(values.shape)} does not fit {list(shape)}")
