"""One-stage detectors of the size and form of YOLOv8n and s, drawn from their published parts.

Backbone of C2f blocks and spatial pyramid pooling, a two-way feature pyramid, and an
anchor-free head: per cell 4 sides × 16 bins, decoded by the expectation over the bins
(distribution focal loss, arXiv:2006.04388), and 80 class scores. Depths are those of
both scales (0.33), widths 0.25 (``n``) and 0.5 (``s``). Non-maximum suppression is not
in the graph, as in a plain export.
"""

from __future__ import annotations

import numpy as np

from tools.zoo.builder import Graph, Tensor, fixed
from tools.zoo.layers import (
    add,
    batch_norm,
    concat,
    conv,
    divide,
    max_pool,
    multiply,
    sigmoid,
    silu,
)
from tools.zoo.tokens import (
    cell_middles,
    expand,
    reshape,
    softmax,
    transpose,
    unsqueeze,
)

_IMAGE = 640
_N_CLASSES = 80
_N_BINS = 16
_LAST_SCALE = 0.25  # of the last normalisation in a branch, see batch_norm


def yolov8n() -> Graph:
    """Image ``[batch, 3, 640, 640]`` to ``[batch, 84, 8400]``: centre, size, 80 scores."""
    return _yolov8("yolov8n", 16)


def yolov8s() -> Graph:
    """Image ``[batch, 3, 640, 640]`` to ``[batch, 84, 8400]``: centre, size, 80 scores."""
    return _yolov8("yolov8s", 32)


def _yolov8(name: str, width: int) -> Graph:
    """``width`` channels after the first convolution, twice as many at each smaller size."""
    g = Graph(name)
    x = g.input("images", ("batch", 3, _IMAGE, _IMAGE))
    levels = _pyramid(g, _backbone(g, x, [width << depth for depth in range(5)]))
    g.output(_detect(g, levels, "model.22"), "output0")
    return g


def _backbone(g: Graph, x: Tensor, widths: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Features at an eighth, a sixteenth and a 32nd of the image's side."""
    x = _conv(g, x, "model.0", widths[0], kernel=3, stride=2)
    kept = []
    for stage, (width, depth) in enumerate(zip(widths[1:], (1, 2, 2, 1), strict=True)):
        x = _conv(g, x, f"model.{2 * stage + 1}", width, kernel=3, stride=2)
        x = _c2f(g, x, f"model.{2 * stage + 2}", width, depth, shortcut=True)
        kept.append(x)
    return kept[1], kept[2], _pyramid_pooling(g, x, "model.9", widths[4])


def _pyramid(g: Graph, levels: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """What the three levels tell each other, from coarse to fine and back."""
    p3, p4, p5 = levels
    x = concat(g, (_double(g, p5, "model.10"), p4), "model.11")
    n4 = _c2f(g, x, "model.12", p4.channels, 1)
    x = concat(g, (_double(g, n4, "model.13"), p3), "model.14")
    n3 = _c2f(g, x, "model.15", p3.channels, 1)
    x = concat(g, (_conv(g, n3, "model.16", p3.channels, kernel=3, stride=2), n4), "model.17")
    n4 = _c2f(g, x, "model.18", p4.channels, 1)
    x = concat(g, (_conv(g, n4, "model.19", p4.channels, kernel=3, stride=2), p5), "model.20")
    return n3, n4, _c2f(g, x, "model.21", p5.channels, 1)


def _conv(
    g: Graph,
    x: Tensor,
    name: str,
    channels: int,
    *,
    kernel: int = 1,
    stride: int = 1,
    scale: float = 1.0,
) -> Tensor:
    padding = kernel // 2
    x = conv(
        g, x, f"{name}.conv", channels, kernel=kernel, stride=stride, padding=padding, bias=False
    )
    x = batch_norm(g, x, f"{name}.bn", epsilon=0.001, momentum=0.97, scale=scale)
    return silu(g, x, f"{name}.act")


def _c2f(
    g: Graph, x: Tensor, name: str, channels: int, depth: int, *, shortcut: bool = False
) -> Tensor:
    half = channels // 2
    x = _conv(g, x, f"{name}.cv1", channels)
    parts = list(g.split(f"{name}.split", x, 1, (half, half)))
    for index in range(depth):
        inner = f"{name}.m.{index}"
        y = _conv(g, parts[-1], f"{inner}.cv1", half, kernel=3)
        y = _conv(g, y, f"{inner}.cv2", half, kernel=3, scale=_LAST_SCALE if shortcut else 1.0)
        parts.append(add(g, parts[-1], y, f"{inner}.add") if shortcut else y)
    return _conv(g, concat(g, parts, f"{name}.concat"), f"{name}.cv2", channels)


def _pyramid_pooling(g: Graph, x: Tensor, name: str, channels: int) -> Tensor:
    parts = [_conv(g, x, f"{name}.cv1", channels // 2)]
    for index in range(3):
        pool = f"{name}.m.{index}"
        parts.append(max_pool(g, parts[-1], pool, kernel=5, stride=1, padding=2))
    return _conv(g, concat(g, parts, f"{name}.concat"), f"{name}.cv2", channels)


def _double(g: Graph, x: Tensor, name: str) -> Tensor:
    """Twice the height and width, every value repeated."""
    no_region = g.constant("no_region", np.zeros(0, dtype=np.float32))
    scales = g.constant("twice", np.array([1, 1, 2, 2], dtype=np.float32))
    shape = (x.shape[0], x.channels, 2 * fixed(x, 2), 2 * fixed(x, 3))
    return g.node(
        "Resize",
        name,
        [x, no_region, scales],
        shape,
        coordinate_transformation_mode="asymmetric",
        mode="nearest",
        nearest_mode="floor",
    )


def _detect(g: Graph, levels: tuple[Tensor, ...], name: str) -> Tensor:
    """Boxes and class scores of every cell of the three levels."""
    box_width = max(16, levels[0].channels // 4, 4 * _N_BINS)
    class_width = max(levels[0].channels, min(_N_CLASSES, 100))
    rows = []
    for index, x in enumerate(levels):
        box = _branch(g, x, f"{name}.cv2.{index}", box_width, 4 * _N_BINS)
        scores = _branch(g, x, f"{name}.cv3.{index}", class_width, _N_CLASSES)
        both = concat(g, (box, scores), f"{name}.concat.{index}")
        rows.append(reshape(g, both, f"{name}.rows.{index}", (0, 4 * _N_BINS + _N_CLASSES, -1)))
    cells = concat(g, rows, f"{name}.concat", axis=2)
    box, scores = g.split(f"{name}.split", cells, 1, (4 * _N_BINS, _N_CLASSES))
    box = _decode(g, _expect(g, box, f"{name}.dfl"), levels, name)
    return concat(g, (box, sigmoid(g, scores, f"{name}.sigmoid")), f"{name}.result")


def _branch(g: Graph, x: Tensor, name: str, width: int, channels: int) -> Tensor:
    x = _conv(g, x, f"{name}.0", width, kernel=3)
    x = _conv(g, x, f"{name}.1", width, kernel=3)
    return conv(g, x, f"{name}.2", channels, kernel=1)


def _expect(g: Graph, box: Tensor, name: str) -> Tensor:
    """The mean bin of each side's distribution, as a convolution with 0, 1, … 15."""
    x = reshape(g, box, f"{name}.sides", (0, 4, _N_BINS, -1))
    x = softmax(g, transpose(g, x, f"{name}.transpose", (0, 2, 1, 3)), f"{name}.softmax", axis=1)
    bins = np.arange(_N_BINS, dtype=np.float32).reshape(1, _N_BINS, 1, 1)
    inputs = (x, g.parameter(f"{name}.conv.weight", bins))
    shape = (x.shape[0], 1, *x.shape[2:])
    x = g.node("Conv", f"{name}.conv", inputs, shape, kernel_shape=(1, 1))
    return reshape(g, x, f"{name}.distances", (0, 4, -1))


def _decode(g: Graph, distances: Tensor, levels: tuple[Tensor, ...], name: str) -> Tensor:
    """Distances to the four sides, in cells, as centre and size in pixels."""
    anchors = _anchors(g, levels, f"{name}.anchors")
    first, second = g.split(f"{name}.corners", distances, 1, (2, 2))
    low = g.node("Sub", f"{name}.low", (anchors, first), first.shape)
    high = add(g, second, anchors, f"{name}.high")
    centre = divide(g, add(g, low, high, f"{name}.sum"), g.number(2.0), f"{name}.centre")
    size = g.node("Sub", f"{name}.size", (high, low), high.shape)
    box = concat(g, (centre, size), f"{name}.box")
    return multiply(g, box, _strides(g, levels, f"{name}.strides"), f"{name}.pixels")


def _anchors(g: Graph, levels: tuple[Tensor, ...], name: str) -> Tensor:
    """Centres of all cells, ``[1, 2, cells]``, in units of the cell's stride.

    Computed from the sides of the levels, as exports for any image size do: stored
    in the file they would be its largest part, and look like parameters.
    """
    parts = []
    for index, level in enumerate(levels):
        side, inner = fixed(level, 2), f"{name}.{index}"
        middles = cell_middles(g, side, inner)
        columns = expand(g, middles, f"{inner}.columns", (side, side))
        rows = unsqueeze(g, middles, f"{inner}.column", (1,))
        rows = expand(g, rows, f"{inner}.rows", (side, side))
        columns = reshape(g, columns, f"{inner}.x", (1, 1, side * side))
        rows = reshape(g, rows, f"{inner}.y", (1, 1, side * side))
        parts.append(concat(g, (columns, rows), inner))
    return concat(g, parts, name, axis=2)


def _strides(g: Graph, levels: tuple[Tensor, ...], name: str) -> Tensor:
    """Pixels from one cell to the next, for all cells, ``[1, cells]``."""
    parts = []
    for index, level in enumerate(levels):
        side = fixed(level, 2)
        stride = g.number(_IMAGE / side)
        parts.append(expand(g, stride, f"{name}.{index}", (1, side * side)))
    return concat(g, parts, name)
