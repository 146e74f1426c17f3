"""RegNetX and RegNetY (Radosavovic et al., arXiv:2003.13678), as torchvision defines them."""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor
from tools.zoo.layers import (
    add,
    conv_norm,
    flatten,
    global_average_pool,
    linear,
    relu,
    squeeze_excitation,
)

_LAST_SCALE = 0.25  # of the last normalisation in a branch, see batch_norm


def regnet_x_400mf() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _regnet("regnet_x_400mf", ((32, 1), (64, 2), (160, 7), (400, 12)), 16)


def regnet_x_800mf() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _regnet("regnet_x_800mf", ((64, 1), (128, 3), (288, 7), (672, 5)), 16)


def regnet_x_3_2gf() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _regnet("regnet_x_3_2gf", ((96, 2), (192, 6), (432, 15), (1008, 2)), 48)


def regnet_y_400mf() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _regnet("regnet_y_400mf", ((48, 1), (104, 3), (208, 6), (440, 6)), 8, squeezes=True)


def regnet_y_800mf() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _regnet("regnet_y_800mf", ((64, 1), (144, 3), (320, 8), (784, 2)), 16, squeezes=True)


def regnet_y_1_6gf() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _regnet("regnet_y_1_6gf", ((48, 2), (120, 6), (336, 17), (888, 2)), 24, squeezes=True)


def _regnet(
    name: str, stages: tuple[tuple[int, int], ...], group_width: int, *, squeezes: bool = False
) -> Graph:
    """Stages as channels and blocks; RegNetY ``squeezes`` to a quarter of a block's input."""
    g = Graph(name)
    x = g.input("image", ("batch", 3, 224, 224))
    x = relu(g, _conv(g, x, "stem", 32, kernel=3, stride=2), "stem.2")
    for stage, (channels, n_blocks) in enumerate(stages, start=1):
        for index in range(n_blocks):
            place, stride = f"block{stage}.{index}", 2 if index == 0 else 1
            x = _block(g, x, place, channels, stride, group_width, squeezes=squeezes)
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "fc", 1000), "scores")
    return g


def _block(
    g: Graph, x: Tensor, name: str, channels: int, stride: int, group_width: int, *, squeezes: bool
) -> Tensor:
    y = relu(g, _conv(g, x, f"{name}.f.a", channels, kernel=1), f"{name}.f.a.2")
    groups = channels // group_width
    y = _conv(g, y, f"{name}.f.b", channels, kernel=3, stride=stride, groups=groups)
    y = relu(g, y, f"{name}.f.b.2")
    if squeezes:
        y = squeeze_excitation(g, y, f"{name}.f.se", round(x.channels / 4), relu)
    y = _conv(g, y, f"{name}.f.c", channels, kernel=1, scale=_LAST_SCALE)
    if x.shape != y.shape:
        x = _conv(g, x, f"{name}.proj", channels, kernel=1, stride=stride)
    return relu(g, add(g, y, x, f"{name}.add"), f"{name}.relu")


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
        g, x, (f"{name}.0", f"{name}.1"), channels,
        kernel=kernel, stride=stride, groups=groups, scale=scale,
    )  # fmt: skip
