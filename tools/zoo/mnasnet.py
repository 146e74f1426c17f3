"""MNASNet 0.5 and 1.0 (Tan et al., arXiv:1807.11626; MnasNet-B1), as torchvision defines it."""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor
from tools.zoo.layers import (
    add,
    conv_norm,
    flatten,
    global_average_pool,
    linear,
    relu,
    round_to_eight,
)

_LAST_SCALE = 0.25  # of the last normalisation in a branch, see batch_norm
_MOMENTUM = 0.9997

_STAGES = (  # of 1.0: expansion, kernel, stride of the first, channels, blocks
    (3, 3, 2, 24, 3),
    (3, 5, 2, 40, 3),
    (6, 5, 2, 80, 3),
    (6, 3, 1, 96, 2),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


def mnasnet0_5() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _mnasnet("mnasnet0_5", 0.5)


def mnasnet1_0() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _mnasnet("mnasnet1_0", 1.0)


def _mnasnet(name: str, width: float) -> Graph:
    g = Graph(name)
    x = g.input("image", ("batch", 3, 224, 224))
    first = round_to_eight(32 * width)
    x = _conv_relu(g, x, "layers.0", first, kernel=3, stride=2)
    x = _conv_relu(g, x, "layers.1", first, kernel=3, groups=first)
    x = _conv(g, x, "layers.2", round_to_eight(16 * width), kernel=1)
    for stage, (expansion, kernel, first_stride, channels, n_blocks) in enumerate(_STAGES, start=3):
        for index in range(n_blocks):
            stride = first_stride if index == 0 else 1
            form = (expansion, kernel, stride, round_to_eight(channels * width))
            x = _block(g, x, f"layers.{stage}.{index}", form)
    x = _conv_relu(g, x, f"layers.{len(_STAGES) + 3}", 1280, kernel=1)
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "classifier.1", 1000), "scores")
    return g


def _block(g: Graph, x: Tensor, name: str, form: tuple[int, int, int, int]) -> Tensor:
    expansion, kernel, stride, channels = form
    width = expansion * x.channels
    y = _conv_relu(g, x, f"{name}.expand", width, kernel=1)
    y = _conv_relu(g, y, f"{name}.depthwise", width, kernel=kernel, stride=stride, groups=width)
    if stride != 1 or channels != x.channels:
        return _conv(g, y, f"{name}.project", channels, kernel=1)
    y = _conv(g, y, f"{name}.project", channels, kernel=1, scale=_LAST_SCALE)
    return add(g, y, x, f"{name}.add")


def _conv_relu(
    g: Graph, x: Tensor, name: str, channels: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> Tensor:
    x = _conv(g, x, name, channels, kernel=kernel, stride=stride, groups=groups)
    return relu(g, x, f"{name}.relu")


def _conv(
    g: Graph,
    x: Tensor,
    name: str,
    channels: int,
    *,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    scale: float = 1.0,
) -> Tensor:
    return conv_norm(
        g, x, (f"{name}.conv", f"{name}.bn"), channels,
        kernel=kernel, stride=stride, groups=groups, momentum=_MOMENTUM, scale=scale,
    )  # fmt: skip
