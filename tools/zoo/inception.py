"""Inception-v3 (Szegedy et al., arXiv:1512.00567), as torchvision defines it.

Without the auxiliary classifier, which serves training only.
"""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor
from tools.zoo.inception_layers import Step, both_ways, branch, conv_relu, pooled_branch
from tools.zoo.layers import concat, flatten, global_average_pool, linear, max_pool

_POOLED_A = {"5b": 32, "5c": 64, "5d": 64}  # channels after the pooling
_WIDTHS_C = {"6b": 128, "6c": 160, "6d": 160, "6e": 192}  # of the 7 × 1 and 1 × 7 in between


def inception_v3() -> Graph:
    """Image ``[batch, 3, 299, 299]`` to scores ``[batch, 1000]``."""
    g = Graph("inception_v3")
    x = stem(g, g.input("image", ("batch", 3, 299, 299)), "stem")
    for place, pooled in _POOLED_A.items():
        x = _block_a(g, x, f"Mixed_{place}", pooled)
    x = _narrow(g, x, "Mixed_6a", ((384, 3, 2),), ((64, 1), (96, 3), (96, 3, 2)))
    for place, width in _WIDTHS_C.items():
        x = _block_c(g, x, f"Mixed_{place}", width)
    second: tuple[Step, ...] = ((192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2))
    x = _narrow(g, x, "Mixed_7a", ((192, 1), (320, 3, 2)), second)
    for place in ("7b", "7c"):
        x = _block_e(g, x, f"Mixed_{place}")
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "fc", 1000), "scores")
    return g


def stem(g: Graph, x: Tensor, name: str) -> Tensor:
    """The first five convolutions, 192 channels at an eighth of the image's side."""
    x = conv_relu(g, x, f"{name}.1a", 32, kernel=3, stride=2)
    x = conv_relu(g, x, f"{name}.2a", 32, kernel=3)
    x = conv_relu(g, x, f"{name}.2b", 64, kernel=3, padding=1)
    x = max_pool(g, x, f"{name}.maxpool1", kernel=3, stride=2)
    x = conv_relu(g, x, f"{name}.3b", 80)
    x = conv_relu(g, x, f"{name}.4a", 192, kernel=3)
    return max_pool(g, x, f"{name}.maxpool2", kernel=3, stride=2)


def _block_a(g: Graph, x: Tensor, name: str, pooled: int) -> Tensor:
    parts = (
        branch(g, x, f"{name}.branch1x1", ((64, 1),)),
        branch(g, x, f"{name}.branch5x5", ((48, 1), (64, 5))),
        branch(g, x, f"{name}.branch3x3dbl", ((64, 1), (96, 3), (96, 3))),
        pooled_branch(g, x, f"{name}.branch_pool", pooled),
    )
    return concat(g, parts, f"{name}.concat")


def _narrow(
    g: Graph, x: Tensor, name: str, first: tuple[Step, ...], second: tuple[Step, ...]
) -> Tensor:
    """Half the height and width: two branches of convolutions and a pooling."""
    parts = (
        branch(g, x, f"{name}.branch1", first),
        branch(g, x, f"{name}.branch2", second),
        max_pool(g, x, f"{name}.branch_pool", kernel=3, stride=2),
    )
    return concat(g, parts, f"{name}.concat")


def _block_c(g: Graph, x: Tensor, name: str, width: int) -> Tensor:
    """7 × 7 windows, each as 1 × 7 and 7 × 1."""
    double: tuple[Step, ...] = (
        (width, 1), (width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7))
    )  # fmt: skip
    parts = (
        branch(g, x, f"{name}.branch1x1", ((192, 1),)),
        branch(g, x, f"{name}.branch7x7", ((width, 1), (width, (1, 7)), (192, (7, 1)))),
        branch(g, x, f"{name}.branch7x7dbl", double),
        pooled_branch(g, x, f"{name}.branch_pool", 192),
    )
    return concat(g, parts, f"{name}.concat")


def _block_e(g: Graph, x: Tensor, name: str) -> Tensor:
    parts = [branch(g, x, f"{name}.branch1x1", ((320, 1),))]
    three = branch(g, x, f"{name}.branch3x3", ((384, 1),))
    parts += both_ways(g, three, f"{name}.branch3x3", 384)
    double = branch(g, x, f"{name}.branch3x3dbl", ((448, 1), (384, 3)))
    parts += both_ways(g, double, f"{name}.branch3x3dbl", 384)
    parts.append(pooled_branch(g, x, f"{name}.branch_pool", 192))
    return concat(g, parts, f"{name}.concat")
