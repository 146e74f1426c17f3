"""ONNX Runtime's convolutions and pools: fused, channels last, in blocks of channels.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. The domains
com.microsoft.nchwc and com.ms.internal.nhwc are in no document: their operators stand in
files that the runtime's optimiser has written, and mean what ONNX's own ones mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mansard.estimator.shapes.checks import check_length, check_rank, known_ints
from mansard.estimator.shapes.contrib_parts import (
    MICROSOFT,
    NCHWC,
    NHWC,
    as_standard,
    channels_first,
    channels_last,
    check_shape,
    standard_specs,
)
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.shapes.windows import conv_shape, window_shape
from mansard.estimator.tensors import Node, Shape, Tensor

ALIGNMENT = 16  # channels of a block with 512-bit vectors; narrower ones may have up to 8 fewer


@rule("FusedConv", domain=MICROSOFT)
def _fused_conv(node: Node) -> Sequence[Spec]:
    """A convolution, then the sum with a tensor of its output's shape, then an activation."""
    data, weights = node.input(0), node.input(1)
    shape = conv_shape(node, data, weights)
    check_length(node, 2, weights.shape[0], "filters")
    check_shape(node, 3, shape)
    return [(data.dtype, shape)]


@rule("NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
def _last_conv(node: Node) -> Sequence[Spec]:
    data, weights = node.input(0), node.input(1)
    shape = conv_shape(node, channels_first(data), weights)
    check_length(node, 2, weights.shape[0], "filters")
    return [(data.dtype, channels_last(shape))]


@rule("QLinearConv", domain=MICROSOFT)
def _quantized_conv(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    if not node.integer("channels_last", 0):
        return standard_specs(as_standard(node, "QLinearConv"))
    inputs = (channels_first(data), *node.inputs[1:])
    ((dtype, shape),) = standard_specs(as_standard(node, "QLinearConv", *inputs))
    return [(dtype, channels_last(shape))]


@rule("NhwcMaxPool", domain=MICROSOFT)
def _last_pool(node: Node) -> Sequence[Spec]:
    inner = as_standard(node, "MaxPool", channels_first(node.input(0)))
    dtype, shape = standard_specs(inner)[0]
    return [(dtype, channels_last(shape))]


@rule("MaxpoolWithMask", domain=MICROSOFT)
def _masked_pool(node: Node) -> Sequence[Spec]:
    return standard_specs(as_standard(node, "MaxPool", node.input(0)))[:1]


@rule("ConvTransposeWithDynamicPads", domain=MICROSOFT)
def _transposed_conv(node: Node) -> Sequence[Spec]:
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


_LAST = (
    *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace"),
    *("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GridSample"),
    *("InstanceNormalization", "LRN", "LpPool", "MaxPool", "MaxUnpool", "QLinearConv"),
    "SpaceToDepth",
)
LAST = (*_LAST, "QLinearAveragePool", "QLinearConvTranspose", "Resize")


@rule(*LAST, domain=NHWC)
def _last(node: Node) -> Sequence[Spec]:
    """The same operator on channels that stand last."""
    if node.op_type == "Resize":
        return standard_specs(as_standard(node, "Resize"))  # its sizes are in that order too
    specs = standard_specs(seen_first(node))
    return [(dtype, channels_last(shape)) for dtype, shape in specs]


def seen_first(node: Node) -> Node:
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


@rule("Conv", domain=NCHWC)
def _blocked_conv(node: Node) -> Sequence[Spec]:
    """Filters are padded to whole blocks in the stored weights, channels in the data."""
    data, weights = node.input(0), node.input(1)
    check_rank(node, 0, 4)
    check_rank(node, 1, 4)
    kernel = node.integers("kernel_shape") or weights.shape[2:]
    return [(data.dtype, (data.shape[0], weights.shape[0], *window_shape(node, data, kernel)))]


@rule("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", domain=NCHWC)
def _blocked_pool(node: Node) -> Sequence[Spec]:
    return standard_specs(as_standard(node, node.op_type))[:1]


@rule("Upsample", domain=NCHWC)
def _blocked_upsample(node: Node) -> Sequence[Spec]:
    data, scales = node.input(0), node.integers("scales") or (1,) * node.input(0).rank
    if len(scales) != data.rank or min(scales) < 1:
        raise node.error(f"scales {list(scales)} do not fit {list(data.shape)}")
    shape = tuple(size * scale for size, scale in zip(data.shape, scales, strict=True))
    return [(data.dtype, shape)]


@rule("ReorderInput", domain=NCHWC)
def _reorder_input(node: Node) -> Sequence[Spec]:
    """Into blocks of channels: as many as fill whole blocks."""
    shape = _first(node, node.input(0))
    channels = -(-shape[1] // ALIGNMENT) * ALIGNMENT
    return [(node.input(0).dtype, (shape[0], channels, *shape[2:]))]


@rule("ReorderOutput", domain=NCHWC)
def _reorder_output(node: Node) -> Sequence[Spec]:
    """Out of blocks of channels, without those that only filled them."""
    data = node.input(0)
    check_rank(node, 0, 4)
    channels = node.integer("channels", 0) or data.shape[1]
    shape = (data.shape[0], channels, *data.shape[2:])
    return [(data.dtype, channels_last(shape) if node.integer("channels_last", 0) else shape)]


def _first(node: Node, data: Tensor) -> Shape:
    check_rank(node, 0, 4)
    return channels_first(data).shape if node.integer("channels_last", 0) else data.shape
