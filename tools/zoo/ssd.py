"""SSDlite320 on MobileNetV3 large (arXiv:1512.02325, 1801.04381), as torchvision defines it.

Backbone, heads and the decoding of boxes. Resizing the image before and the choice of
boxes after (non-maximum suppression, whose work depends on the data) are not in the graph.
"""

from __future__ import annotations

from itertools import pairwise
from math import log

import numpy as np

from tools.zoo.builder import Graph, Tensor, fixed
from tools.zoo.layers import add, concat, conv, conv_norm, divide, multiply, relu6
from tools.zoo.mobilenet_v3 import LARGE, Block, features
from tools.zoo.tokens import cell_middles, expand, reshape, softmax, take, transpose

_IMAGE = 320
_N_CLASSES = 91
_SHARES = (20, 35, 50, 65, 80, 95, 100)  # of the image's side in percent, by level
_RATIOS = ((2, 1), (1, 2), (3, 1), (1, 3))  # width to height
_N_BOXES = 2 + len(_RATIOS)  # of a cell
_EXTRA = (512, 256, 256, 128)  # channels of the levels after the backbone
_TAPPED = 13  # the block whose expanded tensor is the first level
_CENTRE_WEIGHT, _SIZE_WEIGHT = 10.0, 5.0
_LARGEST = log(1000 / 16)  # of a size's logarithm, against overflow


def ssdlite320_mobilenet_v3_large() -> Graph:
    """Image ``[batch, 3, 320, 320]`` to boxes ``[batch, 3234, 4]`` and scores of 91 classes.

    A box is left, top, right, bottom in pixels.
    """
    g = Graph("ssdlite320_mobilenet_v3_large")
    x = g.input("image", ("batch", 3, _IMAGE, _IMAGE))
    levels = _levels(g, x)
    heads = []
    for role, width in (("classification", _N_CLASSES), ("regression", 4)):
        rows = [_head(g, x, f"head.{role}.{i}", width) for i, x in enumerate(levels)]
        heads.append(concat(g, rows, f"head.{role}"))
    scores, codes = heads
    g.output(_decode(g, codes, levels, "boxes"), "boxes")
    g.output(softmax(g, scores, "softmax"), "scores")
    return g


def _levels(g: Graph, x: Tensor) -> list[Tensor]:
    """Six levels of features, the first with 20 × 20 cells.

    The blocks after the first level are half as wide as the classifier's.
    """
    narrow: tuple[Block, ...] = tuple(
        (kernel, width if index == 0 else width // 2, channels // 2, squeezed, activation, stride)
        for index, (kernel, width, channels, squeezed, activation, stride) in enumerate(
            LARGE[_TAPPED - 1 :]
        )
    )
    x, expanded = features(g, x, LARGE[: _TAPPED - 1] + narrow, 480)
    levels = [expanded[_TAPPED], x]
    for index, channels in enumerate(_EXTRA):
        name, half = f"extra.{index}", channels // 2
        x = _conv(g, x, f"{name}.0", half, kernel=1)
        x = _conv(g, x, f"{name}.1", half, kernel=3, stride=2, groups=half)
        x = _conv(g, x, f"{name}.2", channels, kernel=1)
        levels.append(x)
    return levels


def _conv(
    g: Graph, x: Tensor, name: str, channels: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> Tensor:
    x = conv_norm(
        g, x, (f"{name}.0", f"{name}.1"), channels,
        kernel=kernel, stride=stride, groups=groups, epsilon=0.001, momentum=0.97,
    )  # fmt: skip
    return relu6(g, x, f"{name}.2")


def _head(g: Graph, x: Tensor, name: str, width: int) -> Tensor:
    """``width`` numbers for each of a cell's boxes, ``[batch, boxes, width]``."""
    x = _conv(g, x, f"{name}.0", x.channels, kernel=3, groups=x.channels)
    x = conv(g, x, f"{name}.1", _N_BOXES * width, kernel=1)
    x = transpose(g, x, f"{name}.transpose", (0, 2, 3, 1))
    return reshape(g, x, f"{name}.rows", (0, fixed(x, 1) * fixed(x, 2) * _N_BOXES, width))


def _decode(g: Graph, codes: Tensor, levels: list[Tensor], name: str) -> Tensor:
    """Offsets from the default boxes, as corners in pixels within the image."""
    centres, sizes = _default_boxes(g, levels, f"{name}.default")
    offset, growth = g.split(f"{name}.split", codes, 2, (2, 2))
    offset = divide(g, offset, g.number(_CENTRE_WEIGHT), f"{name}.offset")
    offset = multiply(g, offset, sizes, f"{name}.offset_pixels")
    centre = add(g, offset, centres, f"{name}.centre")
    growth = divide(g, growth, g.number(_SIZE_WEIGHT), f"{name}.growth")
    growth = g.node("Min", f"{name}.limited", [growth, g.number(_LARGEST)], growth.shape)
    size = multiply(g, g.node("Exp", f"{name}.exp", [growth], growth.shape), sizes, f"{name}.size")
    half = multiply(g, size, g.number(0.5), f"{name}.half")
    low = g.node("Sub", f"{name}.low", [centre, half], half.shape)
    corners = concat(g, (low, add(g, centre, half, f"{name}.high")), f"{name}.corners", axis=2)
    limits = (g.number(0.0), g.number(float(_IMAGE)))
    return g.node("Clip", f"{name}.clip", [corners, *limits], corners.shape)


def _default_boxes(g: Graph, levels: list[Tensor], name: str) -> tuple[Tensor, Tensor]:
    """Centres and sizes in pixels, ``[boxes, 2]``; computed, since stored they would be large."""
    forms = _forms(g, f"{name}.forms")
    centres, sizes = [], []
    for index, level in enumerate(levels):
        side, inner = fixed(level, 2), f"{name}.{index}"
        n_rows, grid = side * side * _N_BOXES, (side, side, _N_BOXES, 1)
        middles = cell_middles(g, side, inner)
        middles = multiply(g, middles, g.number(_IMAGE / side), f"{inner}.pixels")
        parts = []
        for role, target in (("columns", (1, side, 1, 1)), ("rows", (side, 1, 1, 1))):
            part = reshape(g, middles, f"{inner}.{role}", target)
            parts.append(expand(g, part, f"{inner}.{role}.all", grid))
        both = concat(g, parts, f"{inner}.both", axis=3)
        centres.append(reshape(g, both, f"{inner}.centres", (n_rows, 2)))
        own = take(g, forms, f"{inner}.forms", axis=0, index=index)
        every = expand(g, own, f"{inner}.sizes.all", (side * side, _N_BOXES, 2))
        sizes.append(reshape(g, every, f"{inner}.sizes", (n_rows, 2)))
    return (
        concat(g, centres, f"{name}.centres", axis=0),
        concat(g, sizes, f"{name}.sizes", axis=0),
    )


def _forms(g: Graph, name: str) -> Tensor:
    """Widths and heights in pixels of the boxes of a cell, ``[levels, 6, 2]``.

    Two squares, of the level's share s and of its geometric mean with the next, and boxes
    of s² in four forms; no side is longer than the image. Kept as 6 · (side in percent)²,
    which is whole: stored fractions look like parameters.
    """
    whole = np.array(
        [
            [(6 * s * s,) * 2, (6 * s * t,) * 2]
            + [
                (6 * s * s * a // b, 6 * s * s * b // a)
                for a, b in ((2, 1), (1, 2), (3, 1), (1, 3))
            ]
            for s, t in pairwise(_SHARES)
        ],
        dtype=np.int64,
    )
    x = g.node("Cast", f"{name}.cast", [g.constant(f"{name}.whole", whole)], whole.shape, to=1)
    x = divide(g, x, g.number(6.0), f"{name}.square")
    x = g.node("Sqrt", f"{name}.percent", [x], x.shape)
    x = multiply(g, x, g.number(_IMAGE / 100), f"{name}.pixels")
    return g.node("Min", name, [x, g.number(float(_IMAGE))], x.shape)
