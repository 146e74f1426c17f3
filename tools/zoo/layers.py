"""The layers that convolutional networks are made of: name and input in, output out.

Shapes follow PyTorch's definitions (``torch.nn``); operators are the ones its ONNX
exporter writes, at operator set 17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tools.zoo.builder import Graph, Shape, Tensor, fixed

Size: TypeAlias = int | tuple[int, int]  # height and width; one number for both


def conv(  # noqa: PLR0913 -- a convolution has this many
    g: Graph,
    x: Tensor,
    name: str,
    channels: int,
    *,
    kernel: Size,
    stride: int = 1,
    padding: Size = 0,
    groups: int = 1,
    bias: bool = True,
) -> Tensor:
    """Two-dimensional convolution of ``[batch, c, h, w]``."""
    fan_in = x.channels // groups
    height, width = pair(kernel)
    weight = g.weight(
        f"{name}.weight", (channels, fan_in, height, width), 1 / (fan_in * height * width)
    )
    inputs = [x, weight]
    if bias:
        inputs.append(g.weight(f"{name}.bias", (channels,), 0.0))
    return g.node(
        "Conv",
        name,
        inputs,
        _window_shape(x, channels, kernel, stride, padding),
        group=groups,
        kernel_shape=(height, width),
        pads=pair(padding) * 2,
        strides=(stride, stride),
    )


def pair(size: Size) -> tuple[int, int]:
    """Height and width."""
    return (size, size) if isinstance(size, int) else size


def batch_norm(
    g: Graph,
    x: Tensor,
    name: str,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    scale: float = 1.0,
) -> Tensor:
    """Batch normalisation with its running mean and variance.

    ``momentum`` is ONNX's: the share of the old running value that is kept, one
    minus PyTorch's. A ``scale`` below 1 at the end of residual branches keeps the
    sum of many of them within the range of fp16.
    """
    shape = (x.channels,)
    inputs = (
        x,
        g.weight(f"{name}.weight", shape, scale),
        g.weight(f"{name}.bias", shape, 0.0),
        g.weight(f"{name}.mean", shape, 0.0),
        g.weight(f"{name}.var", shape, 1.0),
    )
    return g.node("BatchNormalization", name, inputs, x.shape, epsilon=epsilon, momentum=momentum)


def conv_norm(  # noqa: PLR0913 -- a convolution and its norm
    g: Graph,
    x: Tensor,
    names: tuple[str, str],
    channels: int,
    *,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    scale: float = 1.0,
) -> Tensor:
    """Convolution without bias, padded to keep its size, and batch normalisation."""
    first, second = names
    x = conv(
        g, x, first, channels,
        kernel=kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False,
    )  # fmt: skip
    return batch_norm(g, x, second, epsilon=epsilon, momentum=momentum, scale=scale)


def max_pool(
    g: Graph,
    x: Tensor,
    name: str,
    *,
    kernel: int,
    stride: int,
    padding: int = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """Maximum over square windows; ``ceil_mode`` keeps a last incomplete window.

    With ``ceil_mode``, keep ``stride`` at most ``kernel``: PyTorch drops a window that
    would start beyond the image, and ONNX at operator set 17 does not.
    """
    return g.node(
        "MaxPool",
        name,
        [x],
        _window_shape(x, x.channels, kernel, stride, padding, ceil_mode=ceil_mode),
        ceil_mode=int(ceil_mode),
        kernel_shape=(kernel, kernel),
        pads=(padding,) * 4,
        strides=(stride, stride),
    )


def average_pool(
    g: Graph,
    x: Tensor,
    name: str,
    *,
    kernel: int,
    stride: int,
    padding: int = 0,
    counts_padding: bool = True,
) -> Tensor:
    """Mean over square windows, of the padding's zeros too where they count (PyTorch's default)."""
    return g.node(
        "AveragePool",
        name,
        [x],
        _window_shape(x, x.channels, kernel, stride, padding),
        count_include_pad=int(counts_padding and padding > 0),
        kernel_shape=(kernel, kernel),
        pads=(padding,) * 4,
        strides=(stride, stride),
    )


def global_average_pool(g: Graph, x: Tensor, name: str) -> Tensor:
    """Mean of every channel, ``[batch, c, h, w]`` to ``[batch, c, 1, 1]``."""
    return g.node("GlobalAveragePool", name, [x], (x.shape[0], x.channels, 1, 1))


def flatten(g: Graph, x: Tensor, name: str) -> Tensor:
    """All axes but the first as one."""
    length = 1
    for axis in range(1, len(x.shape)):
        length *= fixed(x, axis)
    return g.node("Flatten", name, [x], (x.shape[0], length), axis=1)


def linear(g: Graph, x: Tensor, name: str, features: int) -> Tensor:
    """Fully connected layer of ``[batch, features]``."""
    fan_in = fixed(x, 1)
    weight = g.weight(f"{name}.weight", (features, fan_in), 1 / fan_in)
    bias = g.weight(f"{name}.bias", (features,), 0.0)
    return g.node("Gemm", name, [x, weight, bias], (x.shape[0], features), transB=1)


def relu(g: Graph, x: Tensor, name: str) -> Tensor:
    """max(x, 0)."""
    return g.node("Relu", name, [x], x.shape)


def relu6(g: Graph, x: Tensor, name: str) -> Tensor:
    """min(max(x, 0), 6)."""
    return g.node("Clip", name, [x, g.number(0.0), g.number(6.0)], x.shape)


def sigmoid(g: Graph, x: Tensor, name: str) -> Tensor:
    """1 / (1 + exp(-x))."""
    return g.node("Sigmoid", name, [x], x.shape)


def silu(g: Graph, x: Tensor, name: str) -> Tensor:
    """x · sigmoid(x)."""
    return multiply(g, x, sigmoid(g, x, f"{name}.sigmoid"), name)


def hard_sigmoid(g: Graph, x: Tensor, name: str) -> Tensor:
    """min(max(x / 6 + 1/2, 0), 1)."""
    return g.node("HardSigmoid", name, [x], x.shape, alpha=1 / 6, beta=0.5)


def hard_swish(g: Graph, x: Tensor, name: str) -> Tensor:
    """x · hard_sigmoid(x), in two nodes that TensorRT read before it knew HardSwish."""
    return multiply(g, x, hard_sigmoid(g, x, f"{name}.hardsigmoid"), name)


def squeeze_excitation(
    g: Graph,
    x: Tensor,
    name: str,
    squeezed: int,
    activation: Callable[[Graph, Tensor, str], Tensor],
) -> Tensor:
    """Each channel times a share that two layers compute of all channels' means."""
    y = global_average_pool(g, x, f"{name}.avgpool")
    y = activation(g, conv(g, y, f"{name}.fc1", squeezed, kernel=1), f"{name}.activation")
    y = conv(g, y, f"{name}.fc2", x.channels, kernel=1)
    return multiply(g, x, sigmoid(g, y, f"{name}.sigmoid"), f"{name}.mul")


def add(g: Graph, a: Tensor, b: Tensor, name: str) -> Tensor:
    """a + b, where ``b`` has the shape of ``a`` or broadcasts to it."""
    return g.node("Add", name, [a, b], a.shape, element=a.element)


def multiply(g: Graph, a: Tensor, b: Tensor, name: str) -> Tensor:
    """a · b, where ``b`` has the shape of ``a`` or broadcasts to it."""
    return g.node("Mul", name, [a, b], a.shape)


def divide(g: Graph, a: Tensor, b: Tensor, name: str) -> Tensor:
    """a / b, where ``b`` has the shape of ``a`` or broadcasts to it."""
    return g.node("Div", name, [a, b], a.shape)


def concat(g: Graph, parts: Iterable[Tensor], name: str, *, axis: int = 1) -> Tensor:
    """The parts one after the other along ``axis``."""
    parts = tuple(parts)
    length = sum(fixed(part, axis) for part in parts)
    first = parts[0].shape
    return g.node("Concat", name, parts, (*first[:axis], length, *first[axis + 1 :]), axis=axis)


def round_to_eight(channels: float) -> int:
    """The nearest multiple of 8, one more where that would lose over a tenth.

    The rule of MobileNet's authors for scaled widths, which torchvision follows.
    """
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def _window_shape(
    x: Tensor, channels: int, kernel: Size, stride: int, padding: Size, *, ceil_mode: bool = False
) -> Shape:
    def slide(axis: int) -> int:
        free = fixed(x, 2 + axis) + 2 * pair(padding)[axis] - pair(kernel)[axis]
        return (-(-free // stride) if ceil_mode else free // stride) + 1

    return (x.shape[0], channels, slide(0), slide(1))
