"""U-Net (Ronneberger et al., arXiv:1505.04597) with padded convolutions and normalisation.

As it is mostly used today: the paper's convolutions shrink the image and have no batch
normalisation after them.
"""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor, fixed
from tools.zoo.layers import batch_norm, concat, conv, max_pool, relu

_WIDTHS = (64, 128, 256, 512, 1024)
_N_CLASSES = 2


def unet() -> Graph:
    """Image ``[batch, 3, 256, 256]`` to scores of every pixel, ``[batch, 2, 256, 256]``."""
    g = Graph("unet")
    x = g.input("image", ("batch", 3, 256, 256))
    kept = []
    for depth, width in enumerate(_WIDTHS):
        if depth > 0:
            kept.append(x)
            x = max_pool(g, x, f"down{depth}.pool", kernel=2, stride=2)
        x = _double_conv(g, x, f"down{depth}", width)
    for depth, width in reversed(tuple(enumerate(_WIDTHS[:-1]))):
        x = _up(g, x, f"up{depth}.up", width)
        x = concat(g, (kept[depth], x), f"up{depth}.concat")
        x = _double_conv(g, x, f"up{depth}", width)
    g.output(conv(g, x, "outc", _N_CLASSES, kernel=1), "scores")
    return g


def _double_conv(g: Graph, x: Tensor, name: str, channels: int) -> Tensor:
    for index in (1, 2):
        x = conv(g, x, f"{name}.conv{index}", channels, kernel=3, padding=1, bias=False)
        x = relu(g, batch_norm(g, x, f"{name}.bn{index}"), f"{name}.relu{index}")
    return x


def _up(g: Graph, x: Tensor, name: str, channels: int) -> Tensor:
    """Twice the height and width, by a transposed convolution without overlap."""
    fan_in = x.channels
    weight = g.weight(f"{name}.weight", (fan_in, channels, 2, 2), 1 / fan_in)
    bias = g.weight(f"{name}.bias", (channels,), 0.0)
    shape = (x.shape[0], channels, 2 * fixed(x, 2), 2 * fixed(x, 3))
    return g.node(
        "ConvTranspose", name, [x, weight, bias], shape, kernel_shape=(2, 2), strides=(2, 2)
    )
