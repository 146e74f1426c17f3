"""Vision Transformer B/16 (Dosovitskiy et al., arXiv:2010.11929), as torchvision defines it."""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor
from tools.zoo.layers import add, conv, linear
from tools.zoo.tokens import (
    attention,
    gelu,
    layer_norm,
    project,
    reshape,
    take,
    transpose,
)

_N_LAYERS = 12
_N_HEADS = 12
_FEATURES = 768
_PATCH = 16
_IMAGE = 224
_N_TOKENS = (_IMAGE // _PATCH) ** 2 + 1
_EPSILON = 1e-6


def vit_b_16() -> Graph:
    """Image ``[batch, 3, 224, 224]`` to scores ``[batch, 1000]``."""
    g = Graph("vit_b_16")
    x = g.input("image", ("batch", 3, _IMAGE, _IMAGE))
    patches = conv(g, x, "conv_proj", _FEATURES, kernel=_PATCH, stride=_PATCH)
    rows = reshape(g, patches, "patches", (0, _FEATURES, -1))
    rows = transpose(g, rows, "tokens", (0, 2, 1))
    x = _prepend_class_token(g, rows, "class_token")
    place = g.weight("encoder.pos_embedding", (1, _N_TOKENS, _FEATURES), 1 / _FEATURES)
    x = add(g, x, place, "encoder.add")
    for index in range(_N_LAYERS):
        x = _layer(g, x, f"layers.{index}")
    x = layer_norm(g, x, "encoder.ln", epsilon=_EPSILON)
    g.output(linear(g, take(g, x, "first_token", axis=1, index=0), "heads.head", 1000), "scores")
    return g


def _prepend_class_token(g: Graph, x: Tensor, name: str) -> Tensor:
    """One learned token before the patches of every image, whatever the batch."""
    token = g.weight(name, (1, 1, _FEATURES), 1 / _FEATURES)
    shape = g.node("Shape", f"{name}.shape", [x], (3,), element="int64")
    batch = g.node("Gather", f"{name}.batch", [shape, g.integers((0,))], (1,), element="int64")
    ones = g.integers((1, 1))
    target = g.node("Concat", f"{name}.target", [batch, ones], (3,), axis=0, element="int64")
    expanded = (x.shape[0], 1, _FEATURES)
    tokens = g.node("Expand", f"{name}.expand", [token, target], expanded)
    shape_with = (x.shape[0], _N_TOKENS, _FEATURES)
    return g.node("Concat", f"{name}.concat", [tokens, x], shape_with, axis=1)


def _layer(g: Graph, x: Tensor, name: str) -> Tensor:
    y = layer_norm(g, x, f"{name}.ln_1", epsilon=_EPSILON)
    y = project(g, y, f"{name}.attn.in_proj", 3 * _FEATURES)
    query, key, value = g.split(f"{name}.attn.split", y, 2, (_FEATURES,) * 3)
    y = attention(g, (query, key, value), f"{name}.attn", n_heads=_N_HEADS)
    y = project(g, y, f"{name}.attn.out_proj", _FEATURES)
    x = add(g, y, x, f"{name}.attn.add")
    y = layer_norm(g, x, f"{name}.ln_2", epsilon=_EPSILON)
    y = gelu(g, project(g, y, f"{name}.mlp.0", 4 * _FEATURES), f"{name}.mlp.1")
    return add(g, project(g, y, f"{name}.mlp.3", _FEATURES), x, f"{name}.mlp.add")
