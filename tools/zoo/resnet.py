"""ResNet (He et al., arXiv:1512.03385), as torchvision defines it.

From ResNet-50 on it strides in the 3 × 3 convolution of a block, not in the first 1 × 1
("v1.5"): that is what is published as 4.09 GMAC for 50 layers.
"""

from __future__ import annotations

from collections.abc import Callable

from tools.zoo.builder import Graph, Tensor
from tools.zoo.layers import (
    add,
    batch_norm,
    conv,
    flatten,
    global_average_pool,
    linear,
    max_pool,
    relu,
)

_LAST_SCALE = 0.25  # of the last normalisation in a branch, see batch_norm
_Block = Callable[[Graph, Tensor, str, int, int], Tensor]


def resnet18() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _resnet("resnet18", _basic_block, (2, 2, 2, 2))


def resnet34() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _resnet("resnet34", _basic_block, (3, 4, 6, 3))


def resnet50() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _resnet("resnet50", _bottleneck, (3, 4, 6, 3))


def resnet101() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _resnet("resnet101", _bottleneck, (3, 4, 23, 3))


def resnet152() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _resnet("resnet152", _bottleneck, (3, 8, 36, 3))


def _resnet(name: str, block: _Block, n_blocks: tuple[int, ...]) -> Graph:
    g = Graph(name)
    x = g.input("image", ("batch", 3, 224, 224))
    x = conv(g, x, "conv1", 64, kernel=7, stride=2, padding=3, bias=False)
    x = relu(g, batch_norm(g, x, "bn1"), "relu")
    x = max_pool(g, x, "maxpool", kernel=3, stride=2, padding=1)
    for stage, count in enumerate(n_blocks):
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            x = block(g, x, f"layer{stage + 1}.{index}", 64 << stage, stride)
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "fc", 1000), "scores")
    return g


def _basic_block(g: Graph, x: Tensor, name: str, width: int, stride: int) -> Tensor:
    y = conv(g, x, f"{name}.conv1", width, kernel=3, stride=stride, padding=1, bias=False)
    y = relu(g, batch_norm(g, y, f"{name}.bn1"), f"{name}.relu1")
    y = conv(g, y, f"{name}.conv2", width, kernel=3, padding=1, bias=False)
    y = batch_norm(g, y, f"{name}.bn2", scale=_LAST_SCALE)
    return _join(g, x, y, name, stride)


def _bottleneck(g: Graph, x: Tensor, name: str, width: int, stride: int) -> Tensor:
    y = conv(g, x, f"{name}.conv1", width, kernel=1, bias=False)
    y = relu(g, batch_norm(g, y, f"{name}.bn1"), f"{name}.relu1")
    y = conv(g, y, f"{name}.conv2", width, kernel=3, stride=stride, padding=1, bias=False)
    y = relu(g, batch_norm(g, y, f"{name}.bn2"), f"{name}.relu2")
    y = conv(g, y, f"{name}.conv3", 4 * width, kernel=1, bias=False)
    y = batch_norm(g, y, f"{name}.bn3", scale=_LAST_SCALE)
    return _join(g, x, y, name, stride)


def _join(g: Graph, x: Tensor, y: Tensor, name: str, stride: int) -> Tensor:
    if x.shape != y.shape:
        x = conv(g, x, f"{name}.downsample.0", y.channels, kernel=1, stride=stride, bias=False)
        x = batch_norm(g, x, f"{name}.downsample.1")
    return relu(g, add(g, y, x, f"{name}.add"), f"{name}.relu")
