"""AlexNet in its one-tower form (Krizhevsky, arXiv:1404.5997), as torchvision defines it."""

from __future__ import annotations

from tools.zoo.builder import Graph
from tools.zoo.layers import conv, flatten, linear, max_pool, relu

# (place in torchvision's list of layers, channels, kernel, stride, padding, pooled afterwards)
_CONVOLUTIONS = (
    (0, 64, 11, 4, 2, True),
    (3, 192, 5, 1, 2, True),
    (6, 384, 3, 1, 1, False),
    (8, 256, 3, 1, 1, False),
    (10, 256, 3, 1, 1, True),
)


def alexnet() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``.

    The adaptive pooling to 6 × 6 is the identity at this image size, and dropout is
    the identity at inference: neither is in the graph.
    """
    g = Graph("alexnet")
    x = g.input("image", ("batch", 3, 224, 224))
    for place, channels, kernel, stride, padding, pooled in _CONVOLUTIONS:
        name = f"features.{place}"
        x = conv(g, x, name, channels, kernel=kernel, stride=stride, padding=padding)
        x = relu(g, x, f"features.{place + 1}")
        if pooled:
            x = max_pool(g, x, f"features.{place + 2}", kernel=3, stride=2)
    x = flatten(g, x, "flatten")
    x = relu(g, linear(g, x, "classifier.1", 4096), "classifier.2")
    x = relu(g, linear(g, x, "classifier.4", 4096), "classifier.5")
    g.output(linear(g, x, "classifier.6", 1000), "scores")
    return g
