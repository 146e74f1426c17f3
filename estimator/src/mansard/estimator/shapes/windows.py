"""Windows that slide over [batch, channels, spatial…]: the sizes they leave.

https://onnx.ai/onnx/operators/onnx__Conv.html, …__ConvTranspose, …__MaxPool, …__AveragePool
"""

from __future__ import annotations

from mansard.estimator.tensors import Node, Shape, Tensor


def conv_shape(node: Node, data: Tensor, weights: Tensor) -> Shape:
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
    strides, dilations = per_axis(node, "strides", n, 1), per_axis(node, "dilations", n, 1)
    mode, round_up = auto_pad(node), node.integer("ceil_mode", 0) == 1
    pads = pads_of(node, n) if mode in ("NOTSET", "") else (0,) * (2 * n)
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
    strides, dilations = per_axis(node, "strides", n, 1), per_axis(node, "dilations", n, 1)
    extra = per_axis(node, "output_padding", n, 0)
    if auto_pad(node).startswith("SAME"):
        return tuple(size * stride for size, stride in zip(data.shape[2:], strides, strict=True))
    pads = pads_of(node, n)
    return tuple(
        stride * (size - 1) + more + (width - 1) * dilation + 1 - pads[i] - pads[i + n]
        for i, (size, stride, more, width, dilation) in enumerate(
            zip(data.shape[2:], strides, extra, kernel, dilations, strict=True)
        )
    )


def auto_pad(node: Node) -> str:
    """The attribute that chooses the padding; raises ModelError for one that does not exist."""
    mode = node.text("auto_pad", "NOTSET")
    if mode not in ("", "NOTSET", "SAME_LOWER", "SAME_UPPER", "VALID"):
        raise node.error(f"attribute 'auto_pad' = {mode!r} does not exist")
    return mode


def per_axis(node: Node, name: str, n: int, default: int) -> Shape:
    """An attribute with a number for each of ``n`` spatial axes, none below its default."""
    values = node.integers(name) or (default,) * n
    if len(values) != n or any(value < default for value in values):
        raise node.error(f"attribute {name!r} = {list(values)} does not fit {n} spatial axes")
    return values


def pads_of(node: Node, n: int) -> Shape:
    """Attribute ``pads``: what is put before each of ``n`` axes, then what is put behind."""
    pads = node.integers("pads") or (0,) * (2 * n)
    if len(pads) != 2 * n:
        raise node.error(f"attribute 'pads' = {list(pads)} does not fit {n} spatial axes")
    return pads
