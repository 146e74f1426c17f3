"""DenseNet-121 (Huang et al., arXiv:1608.06993), as torchvision defines it."""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor
from tools.zoo.layers import (
    average_pool,
    batch_norm,
    concat,
    conv,
    flatten,
    global_average_pool,
    linear,
    max_pool,
    relu,
)

_GROWTH = 32
_N_LAYERS = (6, 12, 24, 16)


def densenet121() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    g = Graph("densenet121")
    x = g.input("image", ("batch", 3, 224, 224))
    x = conv(g, x, "conv0", 2 * _GROWTH, kernel=7, stride=2, padding=3, bias=False)
    x = relu(g, batch_norm(g, x, "norm0"), "relu0")
    x = max_pool(g, x, "pool0", kernel=3, stride=2, padding=1)
    for block, n_layers in enumerate(_N_LAYERS, start=1):
        for index in range(1, n_layers + 1):
            x = _dense_layer(g, x, f"block{block}.layer{index}")
        if block < len(_N_LAYERS):
            x = _transition(g, x, f"transition{block}")
    x = relu(g, batch_norm(g, x, "norm5"), "relu5")
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "classifier", 1000), "scores")
    return g


def _dense_layer(g: Graph, x: Tensor, name: str) -> Tensor:
    y = relu(g, batch_norm(g, x, f"{name}.norm1"), f"{name}.relu1")
    y = conv(g, y, f"{name}.conv1", 4 * _GROWTH, kernel=1, bias=False)
    y = relu(g, batch_norm(g, y, f"{name}.norm2"), f"{name}.relu2")
    y = conv(g, y, f"{name}.conv2", _GROWTH, kernel=3, padding=1, bias=False)
    return concat(g, (x, y), f"{name}.concat")


def _transition(g: Graph, x: Tensor, name: str) -> Tensor:
    y = relu(g, batch_norm(g, x, f"{name}.norm"), f"{name}.relu")
    y = conv(g, y, f"{name}.conv", x.channels // 2, kernel=1, bias=False)
    return average_pool(g, y, f"{name}.pool", kernel=2, stride=2)
