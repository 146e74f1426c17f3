"""Convolutions. https://onnx.ai/onnx/operators/onnx__Conv.html, …__ConvTranspose"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node, Shape


def conv_macs(output: Shape, weights: Shape) -> int:
    """Multiply-adds: each output element sums over its group's channels and the kernel."""
    return math.prod(output) * math.prod(weights[1:])


@register("Conv")
def conv(node: Node) -> Cost:
    """Padding counts like data; a bias adds once per output element."""
    macs = conv_macs(node.output.shape, node.input(1).shape)
    return Cost(macs=macs, simple=node.output.n_elements if node.has(2) else 0)


@register("ConvInteger", not_weights=(2, 3))
def conv_integer(node: Node) -> Cost:
    """Zero points are folded into the weights' sums."""
    return Cost(macs=conv_macs(node.output.shape, node.input(1).shape))


@register("QLinearConv", not_weights=(1, 2, 4, 5, 6, 7))
def qlinear_conv(node: Node) -> Cost:
    """Convolution, the bias, and 5 operations for each output.

    They are: scale, round, add the zero point, clamp twice.
    """
    per_element = 6 if node.has(8) else 5
    macs = conv_macs(node.output.shape, node.input(3).shape)
    return Cost(macs=macs, simple=per_element * node.output.n_elements)


@register("ConvTranspose")
def conv_transpose(node: Node) -> Cost:
    """Each input element is multiplied into a whole kernel of its group's filters."""
    macs = conv_macs(node.input(0).shape, node.input(1).shape)
    return Cost(macs=macs, simple=node.output.n_elements if node.has(2) else 0)
