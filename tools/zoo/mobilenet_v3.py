"""MobileNetV3 (arXiv:1905.02244), large and small, as torchvision defines them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tools.zoo.builder import Graph, Tensor
from tools.zoo.layers import (
    add,
    conv,
    conv_norm,
    flatten,
    global_average_pool,
    hard_sigmoid,
    hard_swish,
    linear,
    multiply,
    relu,
    round_to_eight,
)

Block: TypeAlias = tuple[int, int, int, bool, Callable[[Graph, Tensor, str], Tensor], int]
"""Kernel, expanded channels, channels, squeeze-and-excitation, activation, stride."""

_LAST_SCALE = 0.25  # of the last normalisation in a branch, see batch_norm

LARGE: tuple[Block, ...] = (
    (3, 16, 16, False, relu, 1),
    (3, 64, 24, False, relu, 2),
    (3, 72, 24, False, relu, 1),
    (5, 72, 40, True, relu, 2),
    (5, 120, 40, True, relu, 1),
    (5, 120, 40, True, relu, 1),
    (3, 240, 80, False, hard_swish, 2),
    (3, 200, 80, False, hard_swish, 1),
    (3, 184, 80, False, hard_swish, 1),
    (3, 184, 80, False, hard_swish, 1),
    (3, 480, 112, True, hard_swish, 1),
    (3, 672, 112, True, hard_swish, 1),
    (5, 672, 160, True, hard_swish, 2),
    (5, 960, 160, True, hard_swish, 1),
    (5, 960, 160, True, hard_swish, 1),
)

_SMALL: tuple[Block, ...] = (
    (3, 16, 16, True, relu, 2),
    (3, 72, 24, False, relu, 2),
    (3, 88, 24, False, relu, 1),
    (5, 96, 40, True, hard_swish, 2),
    (5, 240, 40, True, hard_swish, 1),
    (5, 240, 40, True, hard_swish, 1),
    (5, 120, 48, True, hard_swish, 1),
    (5, 144, 48, True, hard_swish, 1),
    (5, 288, 96, True, hard_swish, 2),
    (5, 576, 96, True, hard_swish, 1),
    (5, 576, 96, True, hard_swish, 1),
)


def mobilenet_v3_large() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _classifier("mobilenet_v3_large", LARGE, 960, 1280)


def mobilenet_v3_small() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _classifier("mobilenet_v3_small", _SMALL, 576, 1024)


def features(
    g: Graph, x: Tensor, blocks: Iterable[Block], last: int
) -> tuple[Tensor, dict[int, Tensor]]:
    """The image's features, ``last`` channels, and every block's expanded tensor by its place."""
    x = hard_swish(g, _conv(g, x, "features.0", 16, kernel=3, stride=2), "features.0.2")
    place, expanded = 0, {}
    for place, form in enumerate(blocks, start=1):
        x, expanded[place] = _block(g, x, f"features.{place}", form)
    name = f"features.{place + 1}"
    return hard_swish(g, _conv(g, x, name, last), f"{name}.2"), expanded


def _classifier(name: str, blocks: tuple[Block, ...], last: int, hidden: int) -> Graph:
    g = Graph(name)
    x, _ = features(g, g.input("image", ("batch", 3, 224, 224)), blocks, last)
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    x = hard_swish(g, linear(g, x, "classifier.0", hidden), "classifier.1")
    g.output(linear(g, x, "classifier.3", 1000), "scores")
    return g


def _block(g: Graph, x: Tensor, name: str, form: Block) -> tuple[Tensor, Tensor]:
    kernel, width, channels, squeezed, activation, stride = form
    y = x
    if width != x.channels:
        y = activation(g, _conv(g, y, f"{name}.expand", width), f"{name}.expand.2")
    expanded = y
    y = _conv(g, y, f"{name}.depthwise", width, kernel=kernel, stride=stride, groups=width)
    y = activation(g, y, f"{name}.depthwise.2")
    if squeezed:
        y = _squeeze_excitation(g, y, f"{name}.se")
    if stride != 1 or channels != x.channels:
        return _conv(g, y, f"{name}.project", channels), expanded
    y = _conv(g, y, f"{name}.project", channels, scale=_LAST_SCALE)
    return add(g, y, x, f"{name}.add"), expanded


def _conv(
    g: Graph,
    x: Tensor,
    name: str,
    channels: int,
    *,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    scale: float = 1.0,
) -> Tensor:
    return conv_norm(
        g, x, (f"{name}.0", f"{name}.1"), channels,
        kernel=kernel, stride=stride, groups=groups, epsilon=0.001, momentum=0.99, scale=scale,
    )  # fmt: skip


def _squeeze_excitation(g: Graph, x: Tensor, name: str) -> Tensor:
    y = global_average_pool(g, x, f"{name}.avgpool")
    y = conv(g, y, f"{name}.fc1", round_to_eight(x.channels // 4), kernel=1)
    y = conv(g, relu(g, y, f"{name}.relu"), f"{name}.fc2", x.channels, kernel=1)
    return multiply(g, x, hard_sigmoid(g, y, f"{name}.hardsigmoid"), f"{name}.mul")
