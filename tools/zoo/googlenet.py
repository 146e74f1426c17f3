"""GoogLeNet (Szegedy et al., arXiv:1409.4842), as torchvision defines it.

With batch normalisation, 3 × 3 convolutions where the paper has 5 × 5, and without
the auxiliary classifiers, which serve training only.
"""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor
from tools.zoo.inception_layers import conv_relu
from tools.zoo.layers import concat, flatten, global_average_pool, linear, max_pool

# Channels of the branches 1 × 1 | 1 × 1, 3 × 3 | 1 × 1, 3 × 3 | pooling, 1 × 1.
_INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
_POOLED_AFTER = {"3b": ("maxpool3", 3), "4e": ("maxpool4", 2)}  # name, kernel


def googlenet() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    g = Graph("googlenet")
    x = g.input("image", ("batch", 3, 224, 224))
    x = conv_relu(g, x, "conv1", 64, kernel=7, stride=2, padding=3)
    x = max_pool(g, x, "maxpool1", kernel=3, stride=2, ceil_mode=True)
    x = conv_relu(g, x, "conv2", 64)
    x = conv_relu(g, x, "conv3", 192, kernel=3, padding=1)
    x = max_pool(g, x, "maxpool2", kernel=3, stride=2, ceil_mode=True)
    for place, widths in _INCEPTIONS.items():
        x = _inception(g, x, f"inception{place}", widths)
        if place in _POOLED_AFTER:
            name, kernel = _POOLED_AFTER[place]
            x = max_pool(g, x, name, kernel=kernel, stride=2, ceil_mode=True)
    x = flatten(g, global_average_pool(g, x, "avgpool"), "flatten")
    g.output(linear(g, x, "fc", 1000), "scores")
    return g


def _inception(g: Graph, x: Tensor, name: str, widths: tuple[int, ...]) -> Tensor:
    one, reduce_a, three_a, reduce_b, three_b, pooled = widths
    branch1 = conv_relu(g, x, f"{name}.branch1", one)
    branch2 = conv_relu(g, x, f"{name}.branch2.0", reduce_a)
    branch2 = conv_relu(g, branch2, f"{name}.branch2.1", three_a, kernel=3, padding=1)
    branch3 = conv_relu(g, x, f"{name}.branch3.0", reduce_b)
    branch3 = conv_relu(g, branch3, f"{name}.branch3.1", three_b, kernel=3, padding=1)
    branch4 = max_pool(g, x, f"{name}.branch4.0", kernel=3, stride=1, padding=1, ceil_mode=True)
    branch4 = conv_relu(g, branch4, f"{name}.branch4.1", pooled)
    return concat(g, (branch1, branch2, branch3, branch4), f"{name}.concat")
