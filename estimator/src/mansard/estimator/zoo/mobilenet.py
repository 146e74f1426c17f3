"""MobileNetV2 (arXiv:1801.04381) and V3 (arXiv:1905.02244), as torchvision defines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mansard.estimator.zoo.builder import Graph, Tensor
from mansard.estimator.zoo.layers import (
    add,
    batch_norm,
    conv,
    flatten,
    global_average_pool,
    hard_sigmoid,
    hard_swish,
    linear,
    multiply,
    relu,
    relu6,
)

_LAST_SCALE = 0.25  # of the last normalisation in a branch, see batch_norm
_V3Block: TypeAlias = tuple[int, int, int, bool, Callable[[Graph, Tensor, str], Tensor], int]

_V2_STAGES = (  # expansion, channels, blocks, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)

_V3_BLOCKS: tuple[
    _V3Block, ...
] = (  # kernel, expanded channels, channels, squeeze-and-excitation, activation, stride
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


def mobilenet_v2() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    g = Graph("mobilenet_v2")
    x = g.input("image", ("batch", 3, 224, 224))
    x = _conv_v2(g, x, "features.0", 32, kernel=3, stride=2)
    place = 1
    for expansion, channels, n_blocks, first_stride in _V2_STAGES:
        for index in range(n_blocks):
            stride = first_stride if index == 0 else 1
            x = _block_v2(g, x, f"features.{place}", expansion, channels, stride)
            place += 1
    x = _conv_v2(g, x, f"features.{place}", 1280, kernel=1)
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "classifier.1", 1000), "scores")
    return g


def mobilenet_v3_large() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    g = Graph("mobilenet_v3_large")
    x = g.input("image", ("batch", 3, 224, 224))
    x = hard_swish(g, _conv_v3(g, x, "features.0", 16, kernel=3, stride=2), "features.0.2")
    for place, form in enumerate(_V3_BLOCKS, start=1):
        x = _block_v3(g, x, f"features.{place}.block", form)
    x = hard_swish(g, _conv_v3(g, x, "features.16", 960), "features.16.2")
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    x = hard_swish(g, linear(g, x, "classifier.0", 1280), "classifier.1")
    g.output(linear(g, x, "classifier.3", 1000), "scores")
    return g


def _conv_v2(
    g: Graph, x: Tensor, name: str, channels: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> Tensor:
    x = conv(
        g, x, f"{name}.0", channels,
        kernel=kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False,
    )  # fmt: skip
    return relu6(g, batch_norm(g, x, f"{name}.1"), f"{name}.2")


def _block_v2(g: Graph, x: Tensor, name: str, expansion: int, channels: int, stride: int) -> Tensor:
    y, step = x, 0
    expanded = expansion * x.channels
    if expansion != 1:
        y = _conv_v2(g, y, f"{name}.conv.{step}", expanded, kernel=1)
        step += 1
    y = _conv_v2(g, y, f"{name}.conv.{step}", expanded, kernel=3, stride=stride, groups=expanded)
    y = conv(g, y, f"{name}.conv.{step + 1}", channels, kernel=1, bias=False)
    if y.shape != x.shape:
        return batch_norm(g, y, f"{name}.conv.{step + 2}")
    y = batch_norm(g, y, f"{name}.conv.{step + 2}", scale=_LAST_SCALE)
    return add(g, x, y, f"{name}.add")


def _block_v3(g: Graph, x: Tensor, name: str, form: _V3Block) -> Tensor:
    kernel, expanded, channels, squeezed, activation, stride = form
    y = x
    if expanded != x.channels:
        y = activation(g, _conv_v3(g, y, f"{name}.expand", expanded), f"{name}.expand.2")
    y = _conv_v3(g, y, f"{name}.depthwise", expanded, kernel=kernel, stride=stride, groups=expanded)
    y = activation(g, y, f"{name}.depthwise.2")
    if squeezed:
        y = _squeeze_excitation(g, y, f"{name}.se")
    if stride != 1 or channels != x.channels:
        return _conv_v3(g, y, f"{name}.project", channels)
    y = _conv_v3(g, y, f"{name}.project", channels, scale=_LAST_SCALE)
    return add(g, y, x, f"{name}.add")


def _conv_v3(
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
    x = conv(
        g, x, f"{name}.0", channels,
        kernel=kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False,
    )  # fmt: skip
    return batch_norm(g, x, f"{name}.1", epsilon=0.001, momentum=0.99, scale=scale)


def _squeeze_excitation(g: Graph, x: Tensor, name: str) -> Tensor:
    squeezed = _round_to_eight(x.channels // 4)
    y = global_average_pool(g, x, f"{name}.avgpool")
    y = relu(g, conv(g, y, f"{name}.fc1", squeezed, kernel=1), f"{name}.relu")
    y = conv(g, y, f"{name}.fc2", x.channels, kernel=1)
    return multiply(g, x, hard_sigmoid(g, y, f"{name}.hardsigmoid"), f"{name}.mul")


def _round_to_eight(channels: int) -> int:
    """The nearest multiple of 8, one more where that would lose over a tenth."""
    rounded = max(8, (channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded
