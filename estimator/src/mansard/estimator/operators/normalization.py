"""Normalisations and softmax, counted row by row: a sum of n numbers is n - 1 additions.

https://onnx.ai/onnx/operators/onnx__BatchNormalization.html, …__LayerNormalization,
…__GroupNormalization, …__Softmax and kin; where ONNX defines an operator by a function of
others, its operations are counted.
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import BY_CODE
from mansard.estimator.operators.costs import rows
from mansard.estimator.operators.registry import Specs, operator
from mansard.estimator.operators.shapes import broadcast, check_length, same
from mansard.estimator.tensors import Node


def softmax_cost(n_rows: int, width: int) -> Cost:
    """Softmax of rows: n - 1 comparisons, n differences, n exp, n - 1 additions, n quotients."""
    return n_rows * Cost(simple=4 * width - 2, functions=width) if width else Cost()


def layer_norm_cost(n_elements: int, width: int, n_affine: int) -> Cost:
    """(x - mean) / sqrt(variance + epsilon) of rows of n, with ``n_affine`` of scale and bias.

    A mean is n - 1 additions and a quotient. Mean, its square, n squares and their mean,
    their difference, epsilon, root, n deviations, n quotients; then one operation for
    each element and parameter.
    """
    return rows(n_elements, width) * Cost(simple=(5 + n_affine) * width + 3, functions=1)


def rms_norm_cost(n_elements: int, width: int, n_affine: int) -> Cost:
    """x / sqrt(mean square + epsilon) of rows of n.

    n squares and their mean, epsilon, root, n quotients; then one operation for each
    element and parameter.
    """
    return rows(n_elements, width) * Cost(simple=(3 + n_affine) * width + 1, functions=1)


def trailing_width(node: Node) -> int:
    """Elements of a row that all axes from attribute ``axis`` on make."""
    data = node.input(0)
    return math.prod(data.shape[data.axis(node.integer("axis", -1)) :])


def _softmax_rows(node: Node) -> tuple[int, int]:
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
    return rows(data.n_elements, width), width


def _softmax_shape(node: Node) -> Specs:
    data = node.input(0)
    if node.opset >= 13:
        data.axis(node.integer("axis", -1))
    else:
        _softmax_rows(node)
    return [(data.dtype, data.shape)]


@operator("Softmax", shape=_softmax_shape)
def softmax(node: Node) -> Cost:
    """4·n - 2 operations and n functions for each row of n.

    Before version 13 a row is all axes from ``axis`` on.
    """
    return softmax_cost(*_softmax_rows(node))


@operator("LogSoftmax", shape=_softmax_shape)
def log_softmax(node: Node) -> Cost:
    """As Softmax, a difference instead of the quotient, a logarithm for each row."""
    n_rows, width = _softmax_rows(node)
    return softmax_cost(n_rows, width) + Cost(functions=n_rows)


@operator("Hardmax", shape=_softmax_shape)
def hardmax(node: Node) -> Cost:
    """n - 1 comparisons for each row of n."""
    n_rows, width = _softmax_rows(node)
    return Cost(simple=n_rows * max(width - 1, 0))


def _lp_normalization_shape(node: Node) -> Specs:
    data = node.input(0)
    data.axis(node.integer("axis", -1))
    return [same(data)]


@operator("LpNormalization", shape=_lp_normalization_shape)
def lp_normalization(node: Node) -> Cost:
    """n powers, n - 1 additions, n quotients for each row of n; a root for p = 2."""
    data = node.output
    width = data.shape[data.axis(node.integer("axis", -1))]
    n_rows = rows(data.n_elements, width)
    n_roots = 0 if node.integer("p", 2) == 1 else n_rows
    return Cost(simple=3 * data.n_elements - n_rows, functions=n_roots)


def _mean_variance_normalization_shape(node: Node) -> Specs:
    data = node.input(0)
    axes = node.integers("axes")
    for axis in (0, 2, 3) if axes is None else axes:
        data.axis(axis)
    return [same(data)]


@operator("MeanVarianceNormalization", shape=_mean_variance_normalization_shape)
def mean_variance_normalization(node: Node) -> Cost:
    """5·n + 3 operations and a root for each row of n."""
    data = node.input(0)
    axes = node.integers("axes")
    averaged = {data.axis(axis) for axis in ((0, 2, 3) if axes is None else axes)}
    width = math.prod(size for i, size in enumerate(data.shape) if i in averaged)
    n_rows = rows(data.n_elements, width)
    return Cost(simple=5 * data.n_elements + 3 * n_rows, functions=n_rows)


def _local_response_normalization_shape(node: Node) -> Specs:
    if node.integer("size", 0) < 1:
        raise node.error(f"a window of {node.integer('size', 0)} channels holds nothing")
    return [same(node.input(0))]


@operator("LRN", shape=_local_response_normalization_shape)
def local_response_normalization(node: Node) -> Cost:
    """Square, sum over ``size`` channels, factor, summand, power, quotient for each element."""
    n, size = node.output.n_elements, node.integer("size", 1)
    return Cost(simple=(size + 3) * n, functions=n)


def _batch_normalization_shape(node: Node) -> Specs:
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


@operator("BatchNormalization", shape=_batch_normalization_shape, statistics=(3, 4))
def batch_normalization(node: Node) -> Cost:
    """Inference: a factor and a summand for each element.

    ``training_mode`` adds mean, deviation, square and its mean for each element, a root for
    each channel.
    """
    n = node.output.n_elements
    if node.integer("training_mode", 0):
        return Cost(simple=6 * n, functions=node.input(1).n_elements)
    return Cost(simple=2 * n)


def _instance_normalization_shape(node: Node) -> Specs:
    data = node.input(0)
    if data.rank < 2:
        raise node.error(f"needs [batch, channels, …], the input is {list(data.shape)}")
    for position in (1, 2):
        node.input(position)
        check_length(node, position, data.shape[1], "channels")
    return [same(data)]


@operator("InstanceNormalization", shape=_instance_normalization_shape)
def instance_normalization(node: Node) -> Cost:
    """As LayerNormalization with scale and bias; a row is a channel of a sample."""
    data = node.input(0)
    return layer_norm_cost(data.n_elements, math.prod(data.shape[2:]), 2)


def _group_normalization_shape(node: Node) -> Specs:
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


@operator("GroupNormalization", shape=_group_normalization_shape)
def group_normalization(node: Node) -> Cost:
    """As LayerNormalization with scale and bias; a row is a group of a sample."""
    data = node.input(0)
    n_rows = data.shape[0] * node.integer("num_groups", 1)
    return layer_norm_cost(data.n_elements, data.n_elements // max(n_rows, 1), 2)


def _layer_normalization_shape(node: Node) -> Specs:
    data = node.input(0)
    axis = data.axis(node.integer("axis", -1))
    _check_affine(node, axis)
    if len(node.output_names) == 1:
        return [(data.dtype, data.shape)]
    moments = data.shape[:axis] + (1,) * (data.rank - axis)
    stash = BY_CODE.get(node.integer("stash_type", 1), data.dtype)
    return [(data.dtype, data.shape), (stash, moments), (stash, moments)]


@operator("LayerNormalization", shape=_layer_normalization_shape)
def layer_normalization(node: Node) -> Cost:
    """5·n + 3 operations and a root for each row of n; scale and bias 1 an element each.

    The reciprocal of the deviation is 1 more if it is an output.
    """
    n, width = node.input(0).n_elements, trailing_width(node)
    gives_reciprocal = len(node.output_names) > 2 and node.output_names[2]
    extra = Cost(simple=rows(n, width) if gives_reciprocal else 0)
    return layer_norm_cost(n, width, node.has(1) + node.has(2)) + extra


def _rms_normalization_shape(node: Node) -> Specs:
    data, scale = node.input(0), node.input(1)
    _check_affine(node, data.axis(node.integer("axis", -1)))
    return [(scale.dtype, data.shape)]


@operator("RMSNormalization", shape=_rms_normalization_shape)
def rms_normalization(node: Node) -> Cost:
    """A row of n: 3·n + 1 operations and a root; the scale an operation for each element.

    Squares n, their mean n, epsilon 1, quotients n.
    """
    return rms_norm_cost(node.input(0).n_elements, trailing_width(node), int(node.has(1)))


def _check_affine(node: Node, axis: int) -> None:
    """Scale and bias must broadcast to the axes from ``axis`` on."""
    shape = node.input(0).shape
    for position in range(1, len(node.inputs)):
        values = node.optional(position)
        if values is None or values.shape == shape[axis:]:
            continue
        if broadcast(node, shape, values.shape) != shape:
            raise node.error(f"{values.name!r} {list(values.shape)} does not fit {list(shape)}")
