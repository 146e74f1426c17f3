"""SqueezeNet 1.0 and 1.1 (Iandola et al., arXiv:1602.07360), as torchvision defines it."""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor
from tools.zoo.layers import concat, conv, flatten, global_average_pool, max_pool, relu

_SQUEEZED = (16, 16, 32, 32, 48, 48, 64, 64)  # channels, of each fire; it expands to 2 · 4 times


def squeezenet1_0() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _squeezenet("squeezenet1_0", 96, 7, pooled_before=(3, 7, 12))


def squeezenet1_1() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    return _squeezenet("squeezenet1_1", 64, 3, pooled_before=(3, 6, 9))


def _squeezenet(name: str, channels: int, kernel: int, pooled_before: tuple[int, ...]) -> Graph:
    """Fires are numbered by their places in torchvision's list of layers."""
    g = Graph(name)
    x = g.input("image", ("batch", 3, 224, 224))
    x = relu(g, conv(g, x, "features.0", channels, kernel=kernel, stride=2), "features.1")
    place = 2
    for squeezed in _SQUEEZED:
        if place + 1 in pooled_before:
            x = max_pool(g, x, f"features.{place}", kernel=3, stride=2, ceil_mode=True)
            place += 1
        x = _fire(g, x, f"features.{place}", squeezed, 4 * squeezed)
        place += 1
    x = relu(g, conv(g, x, "classifier.1", 1000, kernel=1), "classifier.2")
    g.output(flatten(g, global_average_pool(g, x, "classifier.3"), "flatten"), "scores")
    return g


def _fire(g: Graph, x: Tensor, name: str, squeezed: int, expanded: int) -> Tensor:
    x = conv(g, x, f"{name}.squeeze", squeezed, kernel=1)
    x = relu(g, x, f"{name}.squeeze_activation")
    one = conv(g, x, f"{name}.expand1x1", expanded, kernel=1)
    one = relu(g, one, f"{name}.expand1x1_activation")
    three = conv(g, x, f"{name}.expand3x3", expanded, kernel=3, padding=1)
    three = relu(g, three, f"{name}.expand3x3_activation")
    return concat(g, (one, three), f"{name}.concat")
