"""ShuffleNet v2, widths 0.5 and 1.0 (Ma et al., arXiv:1807.11164), as torchvision defines it."""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor, fixed
from tools.zoo.layers import (
    concat,
    conv_norm,
    flatten,
    global_average_pool,
    linear,
    max_pool,
    relu,
)
from tools.zoo.tokens import reshape, transpose

_UNITS = (4, 8, 4)


def shufflenet_v2_x0_5() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _shufflenet("shufflenet_v2_x0_5", (48, 96, 192))


def shufflenet_v2_x1_0() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _shufflenet("shufflenet_v2_x1_0", (116, 232, 464))


def _shufflenet(name: str, widths: tuple[int, int, int]) -> Graph:
    g = Graph(name)
    x = g.input("image", ("batch", 3, 224, 224))
    x = _conv(g, x, "conv1", 24, kernel=3, stride=2)
    x = max_pool(g, relu(g, x, "conv1.relu"), "maxpool", kernel=3, stride=2, padding=1)
    for stage, (channels, n_units) in enumerate(zip(widths, _UNITS, strict=True), start=2):
        for index in range(n_units):
            unit = _narrowing_unit if index == 0 else _unit
            x = unit(g, x, f"stage{stage}.{index}", channels // 2)
    x = relu(g, _conv(g, x, "conv5", 1024, kernel=1), "conv5.relu")
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "fc", 1000), "scores")
    return g


def _unit(g: Graph, x: Tensor, name: str, width: int) -> Tensor:
    """One half of the channels passes, the other goes through three convolutions."""
    kept, y = g.split(f"{name}.split", x, 1, (width, width))
    y = _branch(g, y, f"{name}.branch2", width, stride=1)
    return _shuffle(g, concat(g, (kept, y), f"{name}.concat"), name)


def _narrowing_unit(g: Graph, x: Tensor, name: str, width: int) -> Tensor:
    """Half the height and width: every channel goes through both branches."""
    first = f"{name}.branch1"
    y = _conv(g, x, f"{first}.0", x.channels, kernel=3, stride=2, groups=x.channels)
    y = relu(g, _conv(g, y, f"{first}.2", width, kernel=1), f"{first}.4")
    z = _branch(g, x, f"{name}.branch2", width, stride=2)
    return _shuffle(g, concat(g, (y, z), f"{name}.concat"), name)


def _branch(g: Graph, x: Tensor, name: str, width: int, *, stride: int) -> Tensor:
    x = relu(g, _conv(g, x, f"{name}.0", width, kernel=1), f"{name}.2")
    x = _conv(g, x, f"{name}.3", width, kernel=3, stride=stride, groups=width)
    return relu(g, _conv(g, x, f"{name}.5", width, kernel=1), f"{name}.7")


def _shuffle(g: Graph, x: Tensor, name: str) -> Tensor:
    """The channels of both halves by turns."""
    channels, height, width = x.channels, fixed(x, 2), fixed(x, 3)
    x = reshape(g, x, f"{name}.halves", (0, 2, channels // 2, height, width))
    x = transpose(g, x, f"{name}.transpose", (0, 2, 1, 3, 4))
    return reshape(g, x, f"{name}.shuffled", (0, channels, height, width))


def _conv(
    g: Graph, x: Tensor, name: str, channels: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> Tensor:
    return conv_norm(
        g, x, (f"{name}.conv", f"{name}.bn"), channels,
        kernel=kernel, stride=stride, groups=groups,
    )  # fmt: skip
