"""Convolutions. Data is [batch, channels, spatial…], weights [filters, channels of a group, …].

https://onnx.ai/onnx/operators/onnx__Conv.html, …__ConvTranspose, …__DeformConv,
…__CausalConvWithState, …__Col2Im
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import INT32
from mansard.estimator.operators.registry import Specs, operator
from mansard.estimator.operators.resampling import interpolation_cost, weights_cost
from mansard.estimator.operators.shapes import (
    check_length,
    check_rank,
    chosen,
    known_ints,
    open_shape,
)
from mansard.estimator.tensors import Node, Shape, Tensor

_PADDINGS = ("", "NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID")


def convolved_shape(node: Node, data: Tensor, weights: Tensor) -> Shape:
    """[batch, filters, spatial…] for data [batch, channels, …] and weights [filters, …]."""
    size, held = data.shape, weights.shape
    if len(size) != len(held) or len(size) < 3:
        raise node.error(f"input {list(size)} and weights {list(held)} do not go together")
    if data.dtype.is_float and data.dtype != weights.dtype:
        raise node.error(
            f"types contradict: input is {data.dtype.name}, weights are {weights.dtype.name}",
            "the file is broken; export it again",
        )
    group = node.integer("group", 1)
    if group < 1 or size[1] != held[1] * group or held[0] % group:
        raise node.error(
            f"{size[1]} input channels in {group} groups do not fit weights {list(held)}"
        )
    kernel = node.integers("kernel_shape") or held[2:]
    if kernel != held[2:]:
        raise node.error(f"kernel_shape {list(kernel)} is not that of {list(held)}")
    return (size[0], held[0], *window_shape(node, data, kernel))


def pool_shape(node: Node) -> Shape:
    """The shape after a pooling window has gone over the input."""
    data = node.input(0)
    kernel = node.integers("kernel_shape")
    if data.rank < 3 or kernel is None or len(kernel) != data.rank - 2:
        raise node.error(f"kernel_shape does not fit input {list(data.shape)}")
    return (*data.shape[:2], *window_shape(node, data, kernel))


def window_shape(node: Node, data: Tensor, kernel: Shape) -> Shape:
    """The spatial dimensions a sliding window leaves."""
    n = data.rank - 2
    if any(width < 1 for width in kernel):
        raise node.error(f"a window of {list(kernel)} holds nothing")
    strides, dilations = _per_axis(node, "strides", n, 1), _per_axis(node, "dilations", n, 1)
    mode, round_up = (
        chosen(node, "auto_pad", "NOTSET", _PADDINGS),
        node.integer("ceil_mode", 0) == 1,
    )
    pads = _pads_of(node, n) if mode in ("NOTSET", "") else (0,) * (2 * n)
    sizes = []
    for i, size in enumerate(data.shape[2:]):
        if mode.startswith("SAME"):
            sizes.append(-(-size // strides[i]))
            continue
        span = size + pads[i] + pads[i + n] - dilations[i] * (kernel[i] - 1) - 1
        steps = -(-span // strides[i]) if round_up else span // strides[i]
        # A window that would start in the padding behind the data does not count.
        if round_up and steps * strides[i] >= size + pads[i] and steps > 0:
            steps -= 1
        sizes.append(steps + 1)
    if any(size < 1 for size in sizes) and all(data.shape):
        raise node.error(
            f"a window of {list(kernel)} does not fit into input {list(data.shape)}",
            "give larger spatial dimensions",
        )
    return tuple(max(size, 0) for size in sizes)


def transposed_shape(node: Node, data: Tensor, kernel: Shape) -> Shape:
    """The spatial dimensions that such a window came from: ConvTranspose and MaxUnpool."""
    n = data.rank - 2
    strides, dilations = _per_axis(node, "strides", n, 1), _per_axis(node, "dilations", n, 1)
    extra = _per_axis(node, "output_padding", n, 0)
    if chosen(node, "auto_pad", "NOTSET", _PADDINGS).startswith("SAME"):
        return tuple(size * stride for size, stride in zip(data.shape[2:], strides, strict=True))
    pads = _pads_of(node, n)
    return tuple(
        stride * (size - 1) + more + (width - 1) * dilation + 1 - pads[i] - pads[i + n]
        for i, (size, stride, more, width, dilation) in enumerate(
            zip(data.shape[2:], strides, extra, kernel, dilations, strict=True)
        )
    )


def _per_axis(node: Node, name: str, n: int, default: int) -> Shape:
    """An attribute with a number for each of ``n`` spatial axes, none below its default."""
    values = node.integers(name) or (default,) * n
    if len(values) != n or any(value < default for value in values):
        raise node.error(f"attribute {name!r} = {list(values)} does not fit {n} spatial axes")
    return values


def _pads_of(node: Node, n: int) -> Shape:
    """Attribute ``pads``: what is put before each of ``n`` axes, then what is put behind."""
    pads = node.integers("pads") or (0,) * (2 * n)
    if len(pads) != 2 * n:
        raise node.error(f"attribute 'pads' = {list(pads)} does not fit {n} spatial axes")
    return pads


def _conv_shape(node: Node) -> Specs:
    data, weights = node.input(0), node.input(1)
    shape = convolved_shape(node, data, weights)
    check_length(node, 2, weights.shape[0], "filters")
    return [(data.dtype, shape)]


def _conv_macs(output: Shape, weights: Shape) -> int:
    """Multiply-adds: each output element sums over its group's channels and the kernel."""
    return math.prod(output) * math.prod(weights[1:])


@operator("Conv", shape=_conv_shape)
def conv(node: Node) -> Cost:
    """1 multiply-add for each output element and weight of its filter; padding counts.

    A bias adds 1.
    """
    macs = _conv_macs(node.output.shape, node.input(1).shape)
    return Cost(macs=macs, simple=node.output.n_elements if node.has(2) else 0)


def _conv_integer_shape(node: Node) -> Specs:
    return [(INT32, convolved_shape(node, node.input(0), node.input(1)))]


@operator("ConvInteger", shape=_conv_integer_shape, not_weights=(2, 3))
def conv_integer(node: Node) -> Cost:
    """As Conv."""
    return Cost(macs=_conv_macs(node.output.shape, node.input(1).shape))


def _qlinear_conv_shape(node: Node) -> Specs:
    weights = node.input(3)
    shape = convolved_shape(node, node.input(0), weights)
    check_length(node, 8, weights.shape[0], "filters")
    return [(node.input(7).dtype, shape)]


@operator("QLinearConv", shape=_qlinear_conv_shape, not_weights=(1, 2, 4, 5, 6, 7), operands=(0, 3))
def qlinear_conv(node: Node) -> Cost:
    """Convolution, the bias, and 5 operations for each output.

    They are: scale, round, add the zero point, clamp twice.
    """
    per_element = 6 if node.has(8) else 5
    macs = _conv_macs(node.output.shape, node.input(3).shape)
    return Cost(macs=macs, simple=per_element * node.output.n_elements)


def _conv_transpose_shape(node: Node) -> Specs:
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


@operator("ConvTranspose", shape=_conv_transpose_shape)
def conv_transpose(node: Node) -> Cost:
    """1 multiply-add for each input element and weight of its group's filters."""
    macs = _conv_macs(node.input(0).shape, node.input(1).shape)
    return Cost(macs=macs, simple=node.output.n_elements if node.has(2) else 0)


def _deform_conv_shape(node: Node) -> Specs:
    """Offsets [batch, offset groups · kernel · spatial axes, output…], a mask without the axes."""
    data, weights, offsets = node.input(0), node.input(1), node.input(2)
    shape = convolved_shape(node, data, weights)
    check_length(node, 3, weights.shape[0], "filters")
    positions = node.integer("offset_group", 1) * math.prod(weights.shape[2:])
    if offsets.shape != (shape[0], positions * (data.rank - 2), *shape[2:]):
        raise node.error(f"offsets {list(offsets.shape)} do not fit an output of {list(shape)}")
    mask = node.optional(4)
    if mask is not None and mask.shape != (shape[0], positions, *shape[2:]):
        raise node.error(f"mask {list(mask.shape)} does not fit an output of {list(shape)}")
    return [(data.dtype, shape)]


@operator("DeformConv", shape=_deform_conv_shape, not_weights=(2, 4))
def deform_conv(node: Node) -> Cost:
    """As Conv over samples that are interpolated as in GridSample, a factor for a mask.

    Coordinates and weights once for each tap, position and offset group.
    """
    weights, offsets = node.input(1).shape, node.input(2)
    n_axes = len(weights) - 2
    n_points = offsets.n_elements // max(n_axes, 1)
    channels = node.input(0).shape[1] // node.integer("offset_group", 1)
    point = weights_cost("linear", n_axes) + Cost(simple=n_axes)
    sample = interpolation_cost(2, n_axes) + Cost(simple=1 if node.has(4) else 0)
    bias = Cost(simple=node.output.n_elements if node.has(3) else 0)
    macs = Cost(macs=_conv_macs(node.output.shape, weights))
    return macs + bias + n_points * (point + channels * sample)


def _causal_conv_shape(node: Node) -> Specs:
    """Outputs [batch, channels, length] and the last k - 1 positions as the next state."""
    data, weights = check_rank(node, 0, 3), node.input(1)
    batch, channels, _ = data.shape
    if weights.rank != 3 or weights.shape[:2] != (channels, 1):
        raise node.error(f"weights {list(weights.shape)} do not fit {channels} channels")
    check_length(node, 2, channels, "channels")
    state = (batch, channels, weights.shape[2] - 1)
    past = node.optional(3)
    if past is not None and past.shape != state:
        raise node.error(f"past state {list(past.shape)} is not {list(state)}")
    return [(data.dtype, data.shape), (data.dtype, state)]


@operator("CausalConvWithState", shape=_causal_conv_shape, not_weights=(3,))
def causal_conv(node: Node) -> Cost:
    """k multiply-adds for each output element, 1 for a bias, 4 and a function for SiLU."""
    n = node.output.n_elements
    work = Cost(macs=n * node.input(1).shape[-1], simple=n if node.has(2) else 0)
    if node.text("activation", "none") != "none":
        work += n * Cost(simple=4, functions=1)
    return work


def _col2im_shape(node: Node) -> Specs:
    """[batch, channels · block, blocks] to [batch, channels, image…]."""
    data, image, block = check_rank(node, 0, 3), known_ints(node, 1), known_ints(node, 2)
    if image is None or block is None:
        channels = None if block is None else data.shape[1] // max(math.prod(block), 1)
        spatial = open_shape(node, node.input(1).n_elements)
        return [(data.dtype, (data.shape[0], channels, *spatial))]
    n = len(image)
    size = math.prod(block)
    if len(block) != n or size < 1 or data.shape[1] % size:
        raise node.error(f"blocks of {list(block)} do not fit columns {list(data.shape)}")
    strides, dilations = _per_axis(node, "strides", n, 1), _per_axis(node, "dilations", n, 1)
    pads = _pads_of(node, n)
    n_blocks = math.prod(
        (image[i] + pads[i] + pads[i + n] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(n)
    )
    if n_blocks != data.shape[2]:
        raise node.error(f"an image of {list(image)} has {n_blocks} blocks, not {data.shape[2]}")
    return [(data.dtype, (data.shape[0], data.shape[1] // size, *image))]


@operator("Col2Im", shape=_col2im_shape, not_weights=(1, 2))
def col2im(node: Node) -> Cost:
    """1 addition for each element of the columns."""
    return Cost(simple=node.input(0).n_elements)
