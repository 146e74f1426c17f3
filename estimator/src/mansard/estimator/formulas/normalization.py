"""Normalisations and softmax.

https://onnx.ai/onnx/operators/onnx__BatchNormalization.html, …__LayerNormalization, …__Softmax
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node


@register("BatchNormalization", statistics=(3, 4))
def batch_normalization(node: Node) -> Cost:
    """Inference: the four vectors fold into one factor and one summand for each channel.

    With ``training_mode`` mean and variance of the batch are taken first.
    """
    n = node.output.n_elements
    if node.integer("training_mode", 0):
        return Cost(simple=6 * n, functions=node.input(1).n_elements)
    return Cost(simple=2 * n)


@register("LayerNormalization", "InstanceNormalization", "GroupNormalization")
def layer_normalization(node: Node) -> Cost:
    """For each element: sum, deviation, square, sum, factor; 1 each for scale and bias.

    For each group that is normalised: two divisions, an addition and a root.
    """
    n, n_groups = node.output.n_elements, _groups(node)
    affine = sum(node.has(position) for position in (1, 2))
    return Cost(simple=(5 + affine) * n + 3 * n_groups, functions=n_groups)


@register("RMSNormalization")
def rms_normalization(node: Node) -> Cost:
    """For each element: square, sum, factor, scale; for each group a division, sum and root."""
    n, n_groups = node.output.n_elements, _groups(node)
    return Cost(simple=(3 + node.has(1)) * n + 2 * n_groups, functions=n_groups)


@register("SkipLayerNormalization", domain="com.microsoft")
def skip_layer_normalization(node: Node) -> Cost:
    """An addition, then layer normalisation with scale and bias."""
    n, width = node.output.n_elements, max(node.output.shape[-1], 1)
    biases = sum(node.has(position) for position in (3, 4))
    return Cost(simple=(7 + biases) * n + 3 * (n // width), functions=n // width)


@register("MeanVarianceNormalization")
def mean_variance_normalization(node: Node) -> Cost:
    """For each element: sum, deviation, square, sum, factor.

    For each group that is normalised: two divisions, an addition and a root.
    """
    data = node.input(0)
    axes = node.integers("axes")
    averaged = {data.axis(axis) for axis in ((0, 2, 3) if axes is None else axes)}
    n_groups = math.prod(size for i, size in enumerate(data.shape) if i not in averaged)
    return Cost(simple=5 * data.n_elements + 3 * n_groups, functions=n_groups)


@register("LpNormalization")
def lp_normalization(node: Node) -> Cost:
    """Power, sum and factor of each element; for p = 2 a root of each group's sum."""
    n = node.output.n_elements
    width = node.output.shape[node.output.axis(node.integer("axis", -1))]
    n_groups = n // max(width, 1)
    return Cost(simple=3 * n, functions=0 if node.integer("p", 2) == 1 else n_groups)


@register("Softmax")
def softmax(node: Node) -> Cost:
    """Maximum, difference, sum and quotient of each element, and an exp."""
    n = node.output.n_elements
    return Cost(simple=4 * n, functions=n)


@register("LogSoftmax")
def log_softmax(node: Node) -> Cost:
    """As Softmax, with a difference in place of the quotient and a logarithm for each row."""
    data = node.output
    if node.opset < 13:
        # The axes from this one on are one row.
        width = math.prod(data.shape[data.axis(node.integer("axis", 1)) :])
    else:
        width = data.shape[data.axis(node.integer("axis", -1))]
    n = data.n_elements
    return Cost(simple=4 * n, functions=n + n // max(width, 1))


@register("Hardmax")
def hardmax(node: Node) -> Cost:
    """A comparison for each element."""
    return Cost(simple=node.output.n_elements)


@register("LRN")
def local_response_normalization(node: Node) -> Cost:
    """Square, sum over ``size`` channels, factor, summand, power, quotient of each element."""
    n, size = node.output.n_elements, node.integer("size", 1)
    if size < 1:
        raise node.error(f"a window of {size} channels holds nothing")
    return Cost(simple=(size + 3) * n, functions=n)


def _groups(node: Node) -> int:
    """How many sets of elements have a mean of their own."""
    data = node.input(0)
    if node.op_type == "InstanceNormalization":
        return data.shape[0] * data.shape[1]
    if node.op_type == "GroupNormalization":
        n_groups = node.integer("num_groups", 1)
        if n_groups < 1 or data.shape[1] % n_groups:
            raise node.error(f"{data.shape[1]} channels do not fit {n_groups} groups")
        return data.shape[0] * n_groups
    groups = 1
    for size in data.shape[: data.axis(node.integer("axis", -1))]:
        groups *= size
    return groups
