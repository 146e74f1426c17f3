"""Convolution, transposed convolution and pooling.

https://onnx.ai/onnx/operators/onnx__Conv.html, …__ConvTranspose, …__MaxPool, …__AveragePool
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import ELEMENT_TYPES, INT64
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape, Tensor


@rule("Conv")
def _conv(node: Node) -> Sequence[Spec]:
    return [(node.input(0).dtype, conv_shape(node, node.input(0), node.input(1)))]


@rule("ConvInteger")
def _conv_integer(node: Node) -> Sequence[Spec]:
    return [(ELEMENT_TYPES["int32"], conv_shape(node, node.input(0), node.input(1)))]


@rule("QLinearConv")
def _qlinear_conv(node: Node) -> Sequence[Spec]:
    return [(node.input(7).dtype, conv_shape(node, node.input(0), node.input(3)))]


def conv_shape(node: Node, data: Tensor, weights: Tensor) -> Shape:
    """[batch, filters, spatial…] for data [batch, channels, …] and weights [filters, …]."""
    _check_conv(node, data, weights)
    kernel = node.integers("kernel_shape") or weights.shape[2:]
    if kernel != weights.shape[2:]:
        raise node.error(f"kernel_shape {list(kernel)} is not that of {list(weights.shape)}")
    return (data.shape[0], weights.shape[0], *window_shape(node, data, kernel))


def _check_conv(node: Node, data: Tensor, weights: Tensor) -> None:
    if data.rank != weights.rank or data.rank < 3:
        raise node.error(
            f"input {list(data.shape)} and weights {list(weights.shape)} do not go together"
        )
    if data.dtype.is_float and data.dtype != weights.dtype:
        raise node.error(
            f"types contradict: input is {data.dtype.name}, weights are {weights.dtype.name}",
            "the file is broken; export it again",
        )
    group = node.integer("group", 1)
    if group < 1 or data.shape[1] != weights.shape[1] * group or weights.shape[0] % group:
        raise node.error(
            f"{data.shape[1]} input channels in {group} groups do not fit "
            f"weights {list(weights.shape)}"
        )
    if node.op_type == "Conv":
        _check_bias(node, weights.shape[0])


def _check_bias(node: Node, n_filters: int) -> None:
    bias = node.optional(2)
    if bias is not None and bias.shape != (n_filters,):
        raise node.error(f"bias {list(bias.shape)} does not fit {n_filters} filters")


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
    _check_bias(node, weights.shape[1] * group)
    spatial = node.integers("output_shape") or _transposed(node, data, weights)
    if len(spatial) != data.rank - 2:
        raise node.error(f"output_shape {list(spatial)} does not fit input {list(data.shape)}")
    return [(data.dtype, (data.shape[0], weights.shape[1] * group, *spatial))]


def _transposed(node: Node, data: Tensor, weights: Tensor) -> Shape:
    n = data.rank - 2
    strides, dilations = _per_axis(node, "strides", n, 1), _per_axis(node, "dilations", n, 1)
    extra, pads = _per_axis(node, "output_padding", n, 0), _pads(node, n)
    if _auto_pad(node).startswith("SAME"):
        return tuple(size * stride for size, stride in zip(data.shape[2:], strides, strict=True))
    return tuple(
        stride * (size - 1) + more + (width - 1) * dilation + 1 - pads[i] - pads[i + n]
        for i, (size, stride, more, width, dilation) in enumerate(
            zip(data.shape[2:], strides, extra, weights.shape[2:], dilations, strict=True)
        )
    )


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
    mode, round_up = _auto_pad(node), node.integer("ceil_mode", 0) == 1
    pads = _pads(node, n) if mode in ("NOTSET", "") else (0,) * (2 * n)
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


def _auto_pad(node: Node) -> str:
    mode = node.text("auto_pad", "NOTSET")
    if mode not in ("", "NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID"):
        raise node.error(f"attribute 'auto_pad' = {mode!r} does not exist")
    return mode


def _per_axis(node: Node, name: str, n: int, default: int) -> Shape:
    values = node.integers(name) or (default,) * n
    if len(values) != n or any(value < default for value in values):
        raise node.error(f"attribute {name!r} = {list(values)} does not fit {n} spatial axes")
    return values


def _pads(node: Node, n: int) -> Shape:
    pads = node.integers("pads") or (0,) * (2 * n)
    if len(pads) != 2 * n:
        raise node.error(f"attribute 'pads' = {list(pads)} does not fit {n} spatial axes")
    return pads
