"""ONNX Runtime's convolutions and pools: fused, channels last, in blocks of channels.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. The domains
com.microsoft.nchwc and com.ms.internal.nhwc are in no document: their operators stand in
files that the runtime's optimiser has written, and mean what ONNX's own ones mean.
"""

from __future__ import annotations

import math
from functools import partial

import msgspec

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.operators.contrib.parts import (
    NCHWC,
    NHWC,
    activation_cost,
    as_standard,
    channels_first,
    channels_last,
    check_shape,
    cost_of,
    microsoft,
    microsoft_shape,
    standard_cost,
    standard_operator,
    standard_specs,
)
from mansard.estimator.operators.conv import convolved_shape, window_shape
from mansard.estimator.operators.costs import QUANTIZE, no_work
from mansard.estimator.operators.registry import REGISTRY, Specs, operator, shape_of
from mansard.estimator.operators.shapes import check_length, check_rank, known_ints
from mansard.estimator.tensors import Node, Shape, Tensor

blocked = partial(operator, domain=NCHWC)
blocked_shape = partial(shape_of, domain=NCHWC)

_reorder = no_work()

_ALIGNMENT = 16  # channels of a block with 512-bit vectors; narrower ones may have up to 8 fewer


def fused_conv(node: Node) -> Cost:
    """As Conv, 1 for a summed tensor, the activation."""
    n = node.output.n_elements
    macs = n * math.prod(node.input(1).shape[1:])
    return Cost(macs=macs, simple=(node.has(2) + node.has(3)) * n) + activation_cost(node) * n


@microsoft_shape("FusedConv", cost=fused_conv)
def _fused_conv_shape(node: Node) -> Specs:
    """A convolution, then the sum with a tensor of its output's shape, then an activation."""
    data, weights = node.input(0), node.input(1)
    shape = convolved_shape(node, data, weights)
    check_length(node, 2, weights.shape[0], "filters")
    check_shape(node, 3, shape)
    return [(data.dtype, shape)]


@microsoft_shape("NhwcConv", "NhwcFusedConv", cost=fused_conv)
def _last_conv_shape(node: Node) -> Specs:
    data, weights = node.input(0), node.input(1)
    shape = convolved_shape(node, channels_first(data), weights)
    check_length(node, 2, weights.shape[0], "filters")
    return [(data.dtype, channels_last(shape))]


def _quantized_conv_shape(node: Node) -> Specs:
    data = node.input(0)
    if not node.integer("channels_last", 0):
        return standard_specs(as_standard(node, "QLinearConv"))
    inputs = (channels_first(data), *node.inputs[1:])
    ((dtype, shape),) = standard_specs(as_standard(node, "QLinearConv", *inputs))
    return [(dtype, channels_last(shape))]


microsoft(
    "QLinearConv", shape=_quantized_conv_shape, not_weights=(1, 2, 4, 5, 6, 7), operands=(0, 3)
)(cost_of("QLinearConv", "As ONNX's QLinearConv, whichever way the channels stand."))


def max_pool(node: Node) -> Cost:
    """As MaxPool; a mask 1 more for each element of a window."""
    return standard_cost(node, "MaxPool") + Cost(
        simple=node.output.n_elements * math.prod(node.integers("kernel_shape") or ())
        if node.op_type == "MaxpoolWithMask"
        else 0
    )


@microsoft_shape("NhwcMaxPool", cost=max_pool)
def _last_pool_shape(node: Node) -> Specs:
    inner = as_standard(node, "MaxPool", channels_first(node.input(0)))
    dtype, shape = standard_specs(inner)[0]
    return [(dtype, channels_last(shape))]


@microsoft_shape("MaxpoolWithMask", cost=max_pool)
def _masked_pool_shape(node: Node) -> Specs:
    return standard_specs(as_standard(node, "MaxPool", node.input(0)))[:1]


def _transposed_conv_shape(node: Node) -> Specs:
    """The padding is an input, so the output's size follows from its value."""
    data, weights, pads = node.input(0), node.input(1), known_ints(node, 2)
    if node.has(2) and pads is None:
        filters = weights.shape[1] * node.integer("group", 1)
        return [(data.dtype, (data.shape[0], filters, *(None,) * (data.rank - 2)))]
    attributes = dict(node.attributes)
    if pads is not None:
        attributes["pads"] = pads
    inner = as_standard(node, "ConvTranspose", data, weights, node.optional(3))
    return standard_specs(msgspec.structs.replace(inner, attributes=attributes))


@microsoft("ConvTransposeWithDynamicPads", shape=_transposed_conv_shape, not_weights=(2,))
def transposed_conv(node: Node) -> Cost:
    """As ConvTranspose."""
    return standard_cost(node, "ConvTranspose", node.input(0), node.input(1), node.optional(3))


_LAST = (
    *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace"),
    *("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GridSample"),
    *("InstanceNormalization", "LRN", "LpPool", "MaxPool", "MaxUnpool", "Resize"),
    "SpaceToDepth",
)


def _last_shape(node: Node) -> Specs:
    """The same operator on channels that stand last."""
    if node.op_type == "Resize":
        return standard_specs(as_standard(node, "Resize"))  # its sizes are in that order too
    specs = standard_specs(_seen_first(node))
    return [(dtype, channels_last(shape)) for dtype, shape in specs]


def _seen_first(node: Node) -> Node:
    """A node of that domain as ONNX's own operator, channels first."""
    data = channels_first(node.input(0))
    op_type, rest = node.op_type, node.inputs[1:]
    if op_type == "QLinearAveragePool":
        op_type, rest = "AveragePool", ()
    elif op_type == "QLinearConvTranspose":
        op_type, rest = "ConvTranspose", (node.input(3),)
    elif op_type == "MaxUnpool":
        rest = (channels_first(node.input(1)), *rest[1:])
    seen = as_standard(node, op_type, data, *rest)
    outputs = tuple(
        channels_first(output) if output.rank > 2 else output for output in node.outputs
    )
    return msgspec.structs.replace(seen, outputs=outputs)


@blocked_shape("Conv", cost=fused_conv)
def _blocked_conv_shape(node: Node) -> Specs:
    """Filters are padded to whole blocks in the stored weights, channels in the data."""
    data, weights = check_rank(node, 0, 4), check_rank(node, 1, 4)
    kernel = node.integers("kernel_shape") or weights.shape[2:]
    return [(data.dtype, (data.shape[0], weights.shape[0], *window_shape(node, data, kernel)))]


def _blocked_pool_shape(node: Node) -> Specs:
    return standard_specs(as_standard(node, node.op_type))[:1]


blocked("AveragePool", shape=_blocked_pool_shape)(cost_of("AveragePool", "As AveragePool."))


@blocked("GlobalAveragePool", "GlobalMaxPool", shape=_blocked_pool_shape)
def global_pool(node: Node) -> Cost:
    """As the operator of ONNX of this name."""
    return standard_cost(node, node.op_type)


def _blocked_upsample_shape(node: Node) -> Specs:
    data, scales = node.input(0), node.integers("scales") or (1,) * node.input(0).rank
    if len(scales) != data.rank or min(scales) < 1:
        raise node.error(f"scales {list(scales)} do not fit {list(data.shape)}")
    shape = tuple(size * scale for size, scale in zip(data.shape, scales, strict=True))
    return [(data.dtype, shape)]


@blocked("Upsample", shape=_blocked_upsample_shape)
def upsample(node: Node) -> Cost:
    """Nearest 0, linear 7 operations for each output element."""
    if node.text("mode", "nearest") == "nearest":
        return NOTHING
    return Cost(simple=7 * node.output.n_elements)


@blocked_shape("ReorderInput", cost=_reorder)
def _reorder_input_shape(node: Node) -> Specs:
    """Into blocks of channels: as many as fill whole blocks."""
    shape = _first(node, node.input(0))
    channels = -(-shape[1] // _ALIGNMENT) * _ALIGNMENT
    return [(node.input(0).dtype, (shape[0], channels, *shape[2:]))]


@blocked_shape("ReorderOutput", cost=_reorder)
def _reorder_output_shape(node: Node) -> Specs:
    """Out of blocks of channels, without those that only filled them."""
    data = check_rank(node, 0, 4)
    channels = node.integer("channels", 0) or data.shape[1]
    shape = (data.shape[0], channels, *data.shape[2:])
    return [(data.dtype, channels_last(shape) if node.integer("channels_last", 0) else shape)]


def _first(node: Node, data: Tensor) -> Shape:
    check_rank(node, 0, 4)
    return channels_first(data).shape if node.integer("channels_last", 0) else data.shape


blocked("MaxPool", shape=_blocked_pool_shape)(max_pool)


def _channels_last(node: Node) -> Cost:
    """As ONNX's operator of this name, channels last."""
    if node.op_type == "Resize":
        return standard_cost(node, "Resize")
    seen = _seen_first(node)
    behind = activation_cost(node)
    if node.op_type.startswith("QLinear") and node.op_type != "QLinearConv":
        behind += QUANTIZE
    return standard_operator(seen, seen.op_type).cost(seen) + behind * node.output.n_elements


operator(
    *("QLinearConv", "QLinearAveragePool", "QLinearConvTranspose"),
    shape=_last_shape,
    domain=NHWC,
    not_weights=(1, 2, 4, 5, 6, 7),
    operands=(0, 3),
)(_channels_last)
for _op_type in _LAST:
    _standard = REGISTRY.find("", _op_type)
    if _standard is not None:
        operator(
            _op_type,
            shape=_last_shape,
            domain=NHWC,
            not_weights=tuple(_standard.not_weights),
            statistics=tuple(_standard.statistics),
        )(_channels_last)
