"""What the Inception networks are made of: normalised convolutions, in branches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tools.zoo.builder import Graph, Tensor
from tools.zoo.layers import Size, average_pool, batch_norm, concat, conv, max_pool, pair, relu

Step: TypeAlias = tuple[int, Size] | tuple[int, Size, int]
"""Channels, kernel and, where it is not 1, stride of one convolution of a branch."""


def conv_relu(
    g: Graph,
    x: Tensor,
    name: str,
    channels: int,
    *,
    kernel: Size = 1,
    stride: int = 1,
    padding: Size = 0,
) -> Tensor:
    """Convolution without bias, batch normalisation and ReLU."""
    x = conv(g, x, name, channels, kernel=kernel, stride=stride, padding=padding, bias=False)
    return relu(g, batch_norm(g, x, f"{name}.bn", epsilon=0.001), f"{name}.relu")


def branch(g: Graph, x: Tensor, name: str, steps: Iterable[Step]) -> Tensor:
    """Convolutions one after the other; those of stride 1 keep the image's size by padding."""
    for index, (channels, kernel, *strides) in enumerate(steps):
        stride = strides[0] if strides else 1
        height, width = pair(kernel)
        padding = (height // 2, width // 2) if stride == 1 else 0
        x = conv_relu(
            g, x, f"{name}.{index}", channels, kernel=kernel, stride=stride, padding=padding
        )
    return x


def pooled_branch(
    g: Graph, x: Tensor, name: str, channels: int, *, counts_padding: bool = True
) -> Tensor:
    """The mean around every pixel, then a 1 × 1 convolution."""
    x = average_pool(
        g, x, f"{name}.pool", kernel=3, stride=1, padding=1, counts_padding=counts_padding
    )
    return conv_relu(g, x, name, channels)


def narrow(g: Graph, x: Tensor, name: str, branches: Iterable[Iterable[Step]]) -> Tensor:
    """Half the height and width: branches of convolutions, and a pooling after them."""
    parts = [branch(g, x, f"{name}.branch{i}", steps) for i, steps in enumerate(branches)]
    parts.append(max_pool(g, x, f"{name}.branch{len(parts)}", kernel=3, stride=2))
    return concat(g, parts, f"{name}.concat")


def both_ways(g: Graph, x: Tensor, name: str, channels: int) -> tuple[Tensor, Tensor]:
    """A row and a column of three, side by side."""
    return (
        branch(g, x, f"{name}.row", ((channels, (1, 3)),)),
        branch(g, x, f"{name}.column", ((channels, (3, 1)),)),
    )
