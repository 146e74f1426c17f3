"""SqueezeNet 1.1 (Iandola et al., arXiv:1602.07360), as torchvision defines it."""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor
from tools.zoo.layers import concat, conv, flatten, global_average_pool, max_pool, relu

_FIRES = {  # place in torchvision's list of layers: squeezed and expanded channels
    3: (16, 64),
    4: (16, 64),
    6: (32, 128),
    7: (32, 128),
    9: (48, 192),
    10: (48, 192),
    11: (64, 256),
    12: (64, 256),
}
_POOLED_BEFORE = (3, 6, 9)


def squeezenet1_1() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    g = Graph("squeezenet1_1")
    x = g.input("image", ("batch", 3, 224, 224))
    x = relu(g, conv(g, x, "features.0", 64, kernel=3, stride=2), "features.1")
    for place, (squeezed, expanded) in _FIRES.items():
        if place in _POOLED_BEFORE:
            name = f"features.{place - 1}"
            x = max_pool(g, x, name, kernel=3, stride=2, ceil_mode=True)
        x = _fire(g, x, f"features.{place}", squeezed, expanded)
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
