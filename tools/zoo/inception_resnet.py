"""Inception-ResNet-v2 (Szegedy et al., arXiv:1602.07261), in the widths of its published weights.

Those differ from the paper's figures: the stem is Inception-v3's, and the first mixed
block has an average pooling; so do Keras Applications and timm. Batch normalisation has
a scale here, as in timm; Keras leaves it out.
"""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor
from tools.zoo.inception import stem
from tools.zoo.inception_layers import Step, branch, conv_relu, narrow, pooled_branch
from tools.zoo.layers import (
    add,
    concat,
    conv,
    flatten,
    global_average_pool,
    linear,
    multiply,
    relu,
)

# For each of the three block forms: how many, the share of a block that is added to its
# input, and the branches.
_BLOCK35: tuple[tuple[Step, ...], ...] = (
    ((32, 1),),
    ((32, 1), (32, 3)),
    ((32, 1), (48, 3), (64, 3)),
)
_BLOCK17: tuple[tuple[Step, ...], ...] = (
    ((192, 1),),
    ((128, 1), (160, (1, 7)), (192, (7, 1))),
)
_BLOCK8: tuple[tuple[Step, ...], ...] = (
    ((192, 1),),
    ((192, 1), (224, (1, 3)), (256, (3, 1))),
)
_NARROW_A: tuple[tuple[Step, ...], ...] = (
    ((384, 3, 2),),
    ((256, 1), (256, 3), (384, 3, 2)),
)
_NARROW_B: tuple[tuple[Step, ...], ...] = (
    ((256, 1), (384, 3, 2)),
    ((256, 1), (288, 3, 2)),
    ((256, 1), (288, 3), (320, 3, 2)),
)


def inception_resnet_v2() -> Graph:
    """Image ``[batch, 3, 299, 299]`` to scores ``[batch, 1000]``."""
    g = Graph("inception_resnet_v2")
    x = stem(g, g.input("image", ("batch", 3, 299, 299)), "stem")
    x = _first(g, x, "mixed_5b")
    for index in range(10):
        x = _block(g, x, f"block35.{index}", _BLOCK35, 0.17)
    x = narrow(g, x, "mixed_6a", _NARROW_A)
    for index in range(20):
        x = _block(g, x, f"block17.{index}", _BLOCK17, 0.1)
    x = narrow(g, x, "mixed_7a", _NARROW_B)
    for index in range(9):
        x = _block(g, x, f"block8.{index}", _BLOCK8, 0.2)
    x = _sum(g, x, "block8.9", _BLOCK8, 1.0)
    x = conv_relu(g, x, "conv2d_7b", 1536)
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "classif", 1000), "scores")
    return g


def _first(g: Graph, x: Tensor, name: str) -> Tensor:
    parts = (
        branch(g, x, f"{name}.branch0", ((96, 1),)),
        branch(g, x, f"{name}.branch1", ((48, 1), (64, 5))),
        branch(g, x, f"{name}.branch2", ((64, 1), (96, 3), (96, 3))),
        pooled_branch(g, x, f"{name}.branch3", 64, counts_padding=False),
    )
    return concat(g, parts, f"{name}.concat")


def _block(
    g: Graph, x: Tensor, name: str, branches: tuple[tuple[Step, ...], ...], share: float
) -> Tensor:
    return relu(g, _sum(g, x, name, branches, share), f"{name}.relu")


def _sum(
    g: Graph, x: Tensor, name: str, branches: tuple[tuple[Step, ...], ...], share: float
) -> Tensor:
    """The input and a share of what its branches make of it."""
    parts = [branch(g, x, f"{name}.branch{i}", steps) for i, steps in enumerate(branches)]
    y = conv(g, concat(g, parts, f"{name}.concat"), f"{name}.conv2d", x.channels, kernel=1)
    if share != 1:
        y = multiply(g, y, g.number(share), f"{name}.scaled")
    return add(g, y, x, f"{name}.add")
