"""VGG (Simonyan and Zisserman, arXiv:1409.1556), as torchvision defines it."""

from __future__ import annotations

from tools.zoo.builder import Graph
from tools.zoo.layers import conv, flatten, linear, max_pool, relu

_WIDTHS = (64, 128, 256, 512, 512)


def vgg16() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``; dropout is left out."""
    return _vgg("vgg16", (2, 2, 3, 3, 3))


def vgg19() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``; dropout is left out."""
    return _vgg("vgg19", (2, 2, 4, 4, 4))


def _vgg(name: str, n_convolutions: tuple[int, ...]) -> Graph:
    g = Graph(name)
    x = g.input("image", ("batch", 3, 224, 224))
    place = 0
    for channels, count in zip(_WIDTHS, n_convolutions, strict=True):
        for _ in range(count):
            x = conv(g, x, f"features.{place}", channels, kernel=3, padding=1)
            x = relu(g, x, f"features.{place + 1}")
            place += 2
        x = max_pool(g, x, f"features.{place}", kernel=2, stride=2)
        place += 1
    x = flatten(g, x, "flatten")
    x = relu(g, linear(g, x, "classifier.0", 4096), "classifier.1")
    x = relu(g, linear(g, x, "classifier.3", 4096), "classifier.4")
    g.output(linear(g, x, "classifier.6", 1000), "scores")
    return g
