"""EfficientNet-B0, B1 and B2 (Tan and Le, arXiv:1905.11946), as torchvision defines them."""

from __future__ import annotations

from math import ceil

from tools.zoo.builder import Graph, Tensor
from tools.zoo.layers import (
    add,
    batch_norm,
    conv,
    conv_norm,
    flatten,
    global_average_pool,
    linear,
    round_to_eight,
    silu,
    squeeze_excitation,
)

_LAST_SCALE = 0.25  # of the last normalisation in a branch, see batch_norm

_STAGES = (  # of B0: expansion, kernel, stride of the first, channels, blocks
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


def efficientnet_b0() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _efficientnet("efficientnet_b0", 224, width=1.0, depth=1.0)


def efficientnet_b1() -> Graph:
    """Image ``[batch, 3, 240, 240]`` to scores ``[batch, 1000]``."""
    return _efficientnet("efficientnet_b1", 240, width=1.0, depth=1.1)


def efficientnet_b2() -> Graph:
    """Image ``[batch, 3, 288, 288]`` to scores ``[batch, 1000]``."""
    return _efficientnet("efficientnet_b2", 288, width=1.1, depth=1.2)


def _efficientnet(name: str, image: int, *, width: float, depth: float) -> Graph:
    g = Graph(name)
    x = g.input("image", ("batch", 3, image, image))
    x = _conv(g, x, "features.0", round_to_eight(32 * width), kernel=3, stride=2)
    for stage, (expansion, kernel, first_stride, channels, n_blocks) in enumerate(_STAGES, start=1):
        for index in range(ceil(n_blocks * depth)):
            stride = first_stride if index == 0 else 1
            form = (expansion, kernel, stride, round_to_eight(channels * width))
            x = _block(g, x, f"features.{stage}.{index}", form)
    x = _conv(g, x, f"features.{len(_STAGES) + 1}", 4 * x.channels, kernel=1)
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "classifier.1", 1000), "scores")
    return g


def _block(g: Graph, x: Tensor, name: str, form: tuple[int, int, int, int]) -> Tensor:
    expansion, kernel, stride, channels = form
    expanded, y = expansion * x.channels, x
    if expansion != 1:
        y = _conv(g, y, f"{name}.expand", expanded, kernel=1)
    y = _conv(g, y, f"{name}.depthwise", expanded, kernel=kernel, stride=stride, groups=expanded)
    y = squeeze_excitation(g, y, f"{name}.se", max(1, x.channels // 4), silu)
    y = conv(g, y, f"{name}.project.0", channels, kernel=1, bias=False)
    if y.shape != x.shape:
        return batch_norm(g, y, f"{name}.project.1")
    y = batch_norm(g, y, f"{name}.project.1", scale=_LAST_SCALE)
    return add(g, y, x, f"{name}.add")


def _conv(
    g: Graph, x: Tensor, name: str, channels: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> Tensor:
    x = conv_norm(
        g, x, (f"{name}.0", f"{name}.1"), channels,
        kernel=kernel, stride=stride, groups=groups,
    )  # fmt: skip
    return silu(g, x, f"{name}.2")
