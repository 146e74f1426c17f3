"""Convolutions.

https://onnx.ai/onnx/operators/onnx__Conv.html, …__ConvTranspose, …__DeformConv,
…__CausalConvWithState
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.interpolation import interpolation_cost, weights_cost
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


@register("QLinearConv", not_weights=(1, 2, 4, 5, 6, 7), operands=(0, 3))
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


@register("DeformConv", not_weights=(2, 4))
def deform_conv(node: Node) -> Cost:
    """A convolution over interpolated samples; a bias adds once per output element.

    Each tap of each output position is a sample: an addition for each coordinate and the
    weights of its neighbours once for each offset group (as in GridSample), then the
    interpolation of each channel, and a factor where there is a mask.
    """
    weights, offsets = node.input(1).shape, node.input(2)
    n_axes = len(weights) - 2
    n_places = offsets.n_elements // max(n_axes, 1)
    channels = node.input(0).shape[1] // node.integer("offset_group", 1)
    place = weights_cost("linear", n_axes) + Cost(simple=n_axes)
    sample = interpolation_cost(2, n_axes) + Cost(simple=1 if node.has(4) else 0)
    bias = Cost(simple=node.output.n_elements if node.has(3) else 0)
    macs = Cost(macs=conv_macs(node.output.shape, weights))
    return macs + bias + n_places * (place + channels * sample)


@register("CausalConvWithState", not_weights=(3,))
def causal_conv(node: Node) -> Cost:
    """k multiply-adds for each output; a bias adds once; SiLU is 4 operations and a function."""
    n = node.output.n_elements
    work = Cost(macs=n * node.input(1).shape[-1], simple=n if node.has(2) else 0)
    if node.text("activation", "none") != "none":
        work += n * Cost(simple=4, functions=1)
    return work
