"""MobileNet v1 (arXiv:1704.04861) and v2 (arXiv:1801.04381, as torchvision defines it).

The first has ReLU6 where the paper has ReLU, as in the published weights of its authors.
"""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor
from tools.zoo.layers import (
    add,
    batch_norm,
    conv,
    conv_norm,
    flatten,
    global_average_pool,
    linear,
    relu6,
)

_LAST_SCALE = 0.25  # of the last normalisation in a branch, see batch_norm

_V1_BLOCKS = (  # channels, stride
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)

_V2_STAGES = (  # expansion, channels, blocks, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v1() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    g = Graph("mobilenet_v1")
    x = g.input("image", ("batch", 3, 224, 224))
    x = _conv(g, x, "features.0", 32, kernel=3, stride=2)
    for place, (channels, stride) in enumerate(_V1_BLOCKS, start=1):
        name, width = f"features.{place}", x.channels
        x = _conv(g, x, f"{name}.depthwise", width, kernel=3, stride=stride, groups=width)
        x = _conv(g, x, f"{name}.pointwise", channels, kernel=1)
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "classifier", 1000), "scores")
    return g


def mobilenet_v2() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    g = Graph("mobilenet_v2")
    x = g.input("image", ("batch", 3, 224, 224))
    x = _conv(g, x, "features.0", 32, kernel=3, stride=2)
    place = 1
    for expansion, channels, n_blocks, first_stride in _V2_STAGES:
        for index in range(n_blocks):
            stride = first_stride if index == 0 else 1
            x = _block_v2(g, x, f"features.{place}", expansion, channels, stride)
            place += 1
    x = _conv(g, x, f"features.{place}", 1280, kernel=1)
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "classifier.1", 1000), "scores")
    return g


def _conv(
    g: Graph, x: Tensor, name: str, channels: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> Tensor:
    x = conv_norm(
        g, x, (f"{name}.0", f"{name}.1"), channels,
        kernel=kernel, stride=stride, groups=groups,
    )  # fmt: skip
    return relu6(g, x, f"{name}.2")


def _block_v2(g: Graph, x: Tensor, name: str, expansion: int, channels: int, stride: int) -> Tensor:
    y, step = x, 0
    expanded = expansion * x.channels
    if expansion != 1:
        y = _conv(g, y, f"{name}.conv.{step}", expanded, kernel=1)
        step += 1
    y = _conv(g, y, f"{name}.conv.{step}", expanded, kernel=3, stride=stride, groups=expanded)
    y = conv(g, y, f"{name}.conv.{step + 1}", channels, kernel=1, bias=False)
    if y.shape != x.shape:
        return batch_norm(g, y, f"{name}.conv.{step + 2}")
    y = batch_norm(g, y, f"{name}.conv.{step + 2}", scale=_LAST_SCALE)
    return add(g, x, y, f"{name}.add")
