"""Convolutions. Data is [batch, channels, spatial…], weights [filters, channels of a group, …].

https://onnx.ai/onnx/operators/onnx__Conv.html, …__ConvTranspose, …__DeformConv,
…__CausalConvWithState, …__Col2Im
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.estimator.element_types import INT32
from mansard.estimator.shapes.checks import check_length, check_rank, known_ints, open_shape
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.shapes.windows import conv_shape, pads_of, per_axis, transposed_shape
from mansard.estimator.tensors import Node


@rule("Conv")
def _conv(node: Node) -> Sequence[Spec]:
    data, weights = node.input(0), node.input(1)
    shape = conv_shape(node, data, weights)
    check_length(node, 2, weights.shape[0], "filters")
    return [(data.dtype, shape)]


@rule("ConvInteger")
def _conv_integer(node: Node) -> Sequence[Spec]:
    return [(INT32, conv_shape(node, node.input(0), node.input(1)))]


@rule("QLinearConv")
def _qlinear_conv(node: Node) -> Sequence[Spec]:
    weights = node.input(3)
    shape = conv_shape(node, node.input(0), weights)
    check_length(node, 8, weights.shape[0], "filters")
    return [(node.input(7).dtype, shape)]


@rule("ConvTranspose")
def _conv_transpose(node: Node) -> Sequence[Spec]:
    data, weights = node.input(0), node.input(1)
    group = node.integer("group", 1)
    if data.rank != weights.rank or data.rank < 3 or data.shape[1] != weights.shape[0]:
        raise node.error(
            f"input {list(data.shape)} and weights {list(weights.shape)} do not go together"
        )
    if group < 1 or data.shape[1] % group:
        raise node.error(f"{data.shape[1]} input channels do not fit {group} groups")
    kernel = node.integers("kernel_shape") or weights.shape[2:]
    if kernel != weights.shape[2:]:
        raise node.error(f"kernel_shape {list(kernel)} is not that of {list(weights.shape)}")
    filters = weights.shape[1] * group
    check_length(node, 2, filters, "filters")
    spatial = node.integers("output_shape") or transposed_shape(node, data, kernel)
    if len(spatial) != data.rank - 2:
        raise node.error(f"output_shape {list(spatial)} does not fit input {list(data.shape)}")
    return [(data.dtype, (data.shape[0], filters, *spatial))]


@rule("DeformConv")
def _deform_conv(node: Node) -> Sequence[Spec]:
    """Offsets [batch, offset groups · kernel · spatial axes, output…], a mask without the axes."""
    data, weights, offsets = node.input(0), node.input(1), node.input(2)
    shape = conv_shape(node, data, weights)
    check_length(node, 3, weights.shape[0], "filters")
    positions = node.integer("offset_group", 1) * math.prod(weights.shape[2:])
    if offsets.shape != (shape[0], positions * (data.rank - 2), *shape[2:]):
        raise node.error(f"offsets {list(offsets.shape)} do not fit an output of {list(shape)}")
    mask = node.optional(4)
    if mask is not None and mask.shape != (shape[0], positions, *shape[2:]):
        raise node.error(f"mask {list(mask.shape)} does not fit an output of {list(shape)}")
    return [(data.dtype, shape)]


@rule("CausalConvWithState")
def _causal_conv(node: Node) -> Sequence[Spec]:
    """Outputs [batch, channels, length] and the last k - 1 positions as the next state."""
    data, weights = node.input(0), node.input(1)
    check_rank(node, 0, 3)
    batch, channels, _ = data.shape
    if weights.rank != 3 or weights.shape[:2] != (channels, 1):
        raise node.error(f"weights {list(weights.shape)} do not fit {channels} channels")
    check_length(node, 2, channels, "channels")
    state = (batch, channels, weights.shape[2] - 1)
    past = node.optional(3)
    if past is not None and past.shape != state:
        raise node.error(f"past state {list(past.shape)} is not {list(state)}")
    return [(data.dtype, data.shape), (data.dtype, state)]


@rule("Col2Im")
def _col2im(node: Node) -> Sequence[Spec]:
    """[batch, channels · block, blocks] to [batch, channels, image…]."""
    data, image, block = node.input(0), known_ints(node, 1), known_ints(node, 2)
    check_rank(node, 0, 3)
    if image is None or block is None:
        channels = None if block is None else data.shape[1] // max(math.prod(block), 1)
        spatial = open_shape(node, node.input(1).n_elements)
        return [(data.dtype, (data.shape[0], channels, *spatial))]
    n = len(image)
    size = math.prod(block)
    if len(block) != n or size < 1 or data.shape[1] % size:
        raise node.error(f"blocks of {list(block)} do not fit columns {list(data.shape)}")
    strides, dilations = per_axis(node, "strides", n, 1), per_axis(node, "dilations", n, 1)
    pads = pads_of(node, n)
    n_blocks = math.prod(
        (image[i] + pads[i] + pads[i + n] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(n)
    )
    if n_blocks != data.shape[2]:
        raise node.error(f"an image of {list(image)} has {n_blocks} blocks, not {data.shape[2]}")
    return [(data.dtype, (data.shape[0], data.shape[1] // size, *image))]
