"""Swin-T (Liu et al., arXiv:2103.14030), as torchvision defines it.

Attention inside windows of 7 × 7 cells, which every second block shifts by three cells;
tensors are ``[batch, height, width, channels]``. The tables that only depend on the
window's geometry are computed in the graph: stored they would be most of the file.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from tools.zoo.builder import Graph, Tensor, fixed
from tools.zoo.layers import (
    add,
    concat,
    conv,
    flatten,
    global_average_pool,
    linear,
    multiply,
)
from tools.zoo.tokens import (
    gelu,
    layer_norm,
    lookup,
    matmul,
    project,
    reshape,
    softmax,
    take,
    transpose,
    unsqueeze,
)

_PATCH = 4
_FEATURES = 96
_WINDOW = 7
_CELLS = _WINDOW * _WINDOW
_OFFSETS = 2 * _WINDOW - 1  # differences of two places in a window, along one axis
_SHIFT = 3
_STAGES = ((2, 3), (2, 6), (6, 12), (2, 24))  # blocks, heads
_EPSILON = 1e-5
_APART = -100.0  # added to the score of cells that are no neighbours in the image


class _Stage(NamedTuple):
    """What the blocks of one stage share."""

    n_heads: int
    offsets: Tensor  # of every two cells of a window: rows of the table of biases, [49 · 49]
    mask: Tensor | None  # of shifted windows, [windows, 1, 49, 49]; None with a single window


def swin_t() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    g = Graph("swin_t")
    x = g.input("image", ("batch", 3, 224, 224))
    x = conv(g, x, "features.0.0", _FEATURES, kernel=_PATCH, stride=_PATCH)
    x = transpose(g, x, "features.0.1", (0, 2, 3, 1))
    x = layer_norm(g, x, "features.0.2", epsilon=_EPSILON)
    offsets = _offsets(g, "offsets")
    for index, (n_blocks, n_heads) in enumerate(_STAGES):
        if index > 0:
            x = _merge(g, x, f"features.{2 * index}")
        name = f"features.{2 * index + 1}"
        stage = _Stage(n_heads, offsets, _mask(g, fixed(x, 1), f"{name}.mask"))
        for block in range(n_blocks):
            x = _block(g, x, f"{name}.{block}", stage, is_shifted=block % 2 == 1)
    x = layer_norm(g, x, "norm", epsilon=_EPSILON)
    x = global_average_pool(g, transpose(g, x, "permute", (0, 3, 1, 2)), "avgpool")
    g.output(linear(g, flatten(g, x, "flatten"), "head", 1000), "scores")
    return g


def _merge(g: Graph, x: Tensor, name: str) -> Tensor:
    """Half the height and width: every 2 × 2 cells as one, with twice the features."""
    quarter = (x.shape[0], fixed(x, 1) // 2, fixed(x, 2) // 2, fixed(x, 3))
    ends, axes, steps = g.integers((fixed(x, 1),) * 2), g.integers((1, 2)), g.integers((2, 2))
    parts = []
    for column in (0, 1):
        for row in (0, 1):
            inputs = (x, g.integers((row, column)), ends, axes, steps)
            parts.append(g.node("Slice", f"{name}.slice{column}{row}", inputs, quarter))
    x = layer_norm(g, concat(g, parts, f"{name}.concat", axis=3), f"{name}.norm", epsilon=_EPSILON)
    return project(g, x, f"{name}.reduction", fixed(x, 3) // 2, bias=False)


def _block(g: Graph, x: Tensor, name: str, stage: _Stage, *, is_shifted: bool) -> Tensor:
    features = fixed(x, 3)
    y = layer_norm(g, x, f"{name}.norm1", epsilon=_EPSILON)
    y = _window_attention(g, y, f"{name}.attn", stage, is_shifted=is_shifted)
    x = add(g, x, y, f"{name}.add1")
    y = layer_norm(g, x, f"{name}.norm2", epsilon=_EPSILON)
    y = gelu(g, project(g, y, f"{name}.mlp.0", 4 * features), f"{name}.mlp.1")
    return add(g, x, project(g, y, f"{name}.mlp.3", features), f"{name}.add2")


def _window_attention(g: Graph, x: Tensor, name: str, stage: _Stage, *, is_shifted: bool) -> Tensor:
    # A single window has no neighbours to shift to.
    mask = stage.mask if is_shifted else None
    if mask is not None:
        x = _roll(g, x, f"{name}.roll", _SHIFT)
    side, features = fixed(x, 1), fixed(x, 3)
    n, n_heads = side // _WINDOW, stage.n_heads
    y = _swap_windows(g, x, f"{name}.windows", n, _WINDOW)
    y = reshape(g, y, f"{name}.cells", (0, n * n, _CELLS, features))
    y = project(g, y, f"{name}.qkv", 3 * features)
    y = reshape(g, y, f"{name}.heads", (0, 0, 0, 3, n_heads, features // n_heads))
    y = transpose(g, y, f"{name}.qkv.transpose", (3, 0, 1, 4, 2, 5))
    query, key, value = (
        take(g, y, f"{name}.{role}", axis=0, index=index)
        for index, role in enumerate(("query", "key", "value"))
    )
    query = multiply(g, query, g.number(1 / sqrt(features // n_heads)), f"{name}.scaled")
    key = transpose(g, key, f"{name}.key.t", (0, 1, 2, 4, 3))
    scores = matmul(g, query, key, f"{name}.scores")
    scores = add(g, scores, _biases(g, stage, f"{name}.bias"), f"{name}.biased")
    if mask is not None:
        scores = add(g, scores, mask, f"{name}.masked")
    y = matmul(g, softmax(g, scores, f"{name}.softmax"), value, f"{name}.context")
    y = transpose(g, y, f"{name}.transpose", (0, 1, 3, 2, 4))
    y = project(g, reshape(g, y, f"{name}.merged", (0, 0, 0, features)), f"{name}.proj", features)
    y = reshape(g, y, f"{name}.unwindowed", (0, n, n, _WINDOW, _WINDOW, features))
    y = transpose(g, y, f"{name}.rows", (0, 1, 3, 2, 4, 5))
    y = reshape(g, y, f"{name}.image", (0, side, side, features))
    return y if mask is None else _roll(g, y, f"{name}.unroll", side - _SHIFT)


def _swap_windows(g: Graph, x: Tensor, name: str, n: int, window: int) -> Tensor:
    """``[batch, height, width, c]`` to ``[batch, n, n, window, window, c]``."""
    x = reshape(g, x, f"{name}.cut", (0, n, window, n, window, fixed(x, 3)))
    return transpose(g, x, name, (0, 1, 3, 2, 4, 5))


def _roll(g: Graph, x: Tensor, name: str, shift: int) -> Tensor:
    """The first ``shift`` rows and columns moved to the end."""
    for axis in (1, 2):
        parts = g.split(f"{name}.split{axis}", x, axis, (shift, fixed(x, axis) - shift))
        x = concat(g, reversed(parts), f"{name}.concat{axis}", axis=axis)
    return x


def _biases(g: Graph, stage: _Stage, name: str) -> Tensor:
    """A learned number for every head and every two cells of a window, ``[heads, 49, 49]``."""
    table = g.weight(f"{name}.table", (_OFFSETS**2, stage.n_heads), 1 / _OFFSETS**2)
    x = lookup(g, table, stage.offsets, f"{name}.rows")
    x = reshape(g, x, f"{name}.square", (_CELLS, _CELLS, stage.n_heads))
    return transpose(g, x, name, (2, 0, 1))


def _offsets(g: Graph, name: str) -> Tensor:
    """For every two cells of a window 13 · (rows apart + 6) + columns apart + 6, ``[49 · 49]``."""
    cells = np.arange(_CELLS, dtype=np.int64)
    place = g.constant(f"{name}.places", cells // _WINDOW * _OFFSETS + cells % _WINDOW)
    column = unsqueeze(g, place, f"{name}.column", (1,))
    row = unsqueeze(g, place, f"{name}.row", (0,))
    shape = (_CELLS, _CELLS)
    apart = g.node("Sub", f"{name}.apart", [column, row], shape, element="int64")
    least = g.integer((_WINDOW - 1) * (_OFFSETS + 1))
    return reshape(g, add(g, apart, least, f"{name}.rows"), name, (_CELLS**2,))


def _mask(g: Graph, side: int, name: str) -> Tensor | None:
    """For windows after the shift: which of their cells come from different parts of the image."""
    if side == _WINDOW:
        return None
    n = side // _WINDOW
    parts = np.zeros(side, dtype=np.int64)
    parts[-_WINDOW:-_SHIFT], parts[-_SHIFT:] = 1, 2
    column = g.constant(f"{name}.columns", parts)
    row = g.constant(f"{name}.rows", 3 * parts[:, np.newaxis])
    part = g.node("Add", f"{name}.parts", [row, column], (side, side), element="int64")
    part = reshape(g, part, f"{name}.cut", (n, _WINDOW, n, _WINDOW))
    part = transpose(g, part, f"{name}.windows", (0, 2, 1, 3))
    part = reshape(g, part, f"{name}.cells", (n * n, _CELLS))
    row = unsqueeze(g, part, f"{name}.row", (1, 2))
    column = unsqueeze(g, part, f"{name}.column", (1, 3))
    shape = (n * n, 1, _CELLS, _CELLS)
    same = g.node("Equal", f"{name}.same", [row, column], shape, element="bool")
    return g.node("Where", name, [same, g.number(0.0), g.number(_APART)], shape)
