"""Inception-v4 (Szegedy et al., arXiv:1602.07261), as timm defines it."""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor
from tools.zoo.inception_layers import (
    Step,
    both_ways,
    branch,
    conv_relu,
    narrow,
    pooled_branch,
)
from tools.zoo.layers import concat, flatten, global_average_pool, linear, max_pool

# The branches of each form of block beside its pooled one.
_BLOCK_A: tuple[tuple[Step, ...], ...] = (
    ((96, 1),),
    ((64, 1), (96, 3)),
    ((64, 1), (96, 3), (96, 3)),
)
_NARROW_A: tuple[tuple[Step, ...], ...] = (
    ((384, 3, 2),),
    ((192, 1), (224, 3), (256, 3, 2)),
)
_BLOCK_B: tuple[tuple[Step, ...], ...] = (
    ((384, 1),),
    ((192, 1), (224, (1, 7)), (256, (7, 1))),
    ((192, 1), (192, (7, 1)), (224, (1, 7)), (224, (7, 1)), (256, (1, 7))),
)
_NARROW_B: tuple[tuple[Step, ...], ...] = (
    ((192, 1), (192, 3, 2)),
    ((256, 1), (256, (1, 7)), (320, (7, 1)), (320, 3, 2)),
)


def inception_v4() -> Graph:
    """Image ``[batch, 3, 299, 299]`` to scores ``[batch, 1000]``."""
    g = Graph("inception_v4")
    x = _stem(g, g.input("image", ("batch", 3, 299, 299)))
    for index in range(6, 10):
        x = _block(g, x, f"features.{index}", _BLOCK_A, 96)
    x = narrow(g, x, "features.10", _NARROW_A)
    for index in range(11, 18):
        x = _block(g, x, f"features.{index}", _BLOCK_B, 128)
    x = narrow(g, x, "features.18", _NARROW_B)
    for index in range(19, 22):
        x = _block_c(g, x, f"features.{index}")
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "last_linear", 1000), "scores")
    return g


def _stem(g: Graph, x: Tensor) -> Tensor:
    """384 channels at an eighth of the image's side, by way of three branchings."""
    x = conv_relu(g, x, "features.0", 32, kernel=3, stride=2)
    x = conv_relu(g, x, "features.1", 32, kernel=3)
    x = conv_relu(g, x, "features.2", 64, kernel=3, padding=1)
    pooled = max_pool(g, x, "features.3.maxpool", kernel=3, stride=2)
    x = conv_relu(g, x, "features.3.conv", 96, kernel=3, stride=2)
    x = concat(g, (pooled, x), "features.3.concat")
    short = branch(g, x, "features.4.branch0", ((64, 1),))
    long = branch(g, x, "features.4.branch1", ((64, 1), (64, (1, 7)), (64, (7, 1))))
    parts = (  # without padding, unlike the other convolutions of stride 1
        conv_relu(g, short, "features.4.branch0.1", 96, kernel=3),
        conv_relu(g, long, "features.4.branch1.3", 96, kernel=3),
    )
    x = concat(g, parts, "features.4.concat")
    y = conv_relu(g, x, "features.5.conv", 192, kernel=3, stride=2)
    pooled = max_pool(g, x, "features.5.maxpool", kernel=3, stride=2)
    return concat(g, (y, pooled), "features.5.concat")


def _block(
    g: Graph, x: Tensor, name: str, branches: tuple[tuple[Step, ...], ...], pooled: int
) -> Tensor:
    parts = [branch(g, x, f"{name}.branch{i}", steps) for i, steps in enumerate(branches)]
    parts.append(pooled_branch(g, x, f"{name}.branch3", pooled, counts_padding=False))
    return concat(g, parts, f"{name}.concat")


def _block_c(g: Graph, x: Tensor, name: str) -> Tensor:
    """Two of its branches end in a row and a column of three, side by side."""
    second = conv_relu(g, x, f"{name}.branch1_0", 384)
    third = branch(g, x, f"{name}.branch2", ((384, 1), (448, (3, 1)), (512, (1, 3))))
    parts = (
        conv_relu(g, x, f"{name}.branch0", 256),
        *both_ways(g, second, f"{name}.branch1", 256),
        *both_ways(g, third, f"{name}.branch2", 256),
        pooled_branch(g, x, f"{name}.branch3", 256, counts_padding=False),
    )
    return concat(g, parts, f"{name}.concat")
