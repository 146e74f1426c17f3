"""GPT-2 small (Radford et al., 2019): a causal decoder, scoring every token at once."""

from __future__ import annotations

from mansard.estimator.zoo.builder import Graph, Tensor
from mansard.estimator.zoo.layers import add
from mansard.estimator.zoo.tokens import (
    attention,
    gelu_tanh,
    layer_norm,
    lookup,
    matmul,
    positions,
    project,
    transpose,
    unsqueeze,
)

_N_LAYERS = 12
_N_HEADS = 12
_FEATURES = 768
_N_TOKENS = 50257
_N_POSITIONS = 1024
_EPSILON = 1e-5
_LOWEST = -3.4028234663852886e38  # the most negative finite fp32


def gpt2() -> Graph:
    """Token numbers ``[batch, sequence]`` to ``[batch, sequence, 50257]``, prefill, no cache."""
    g = Graph("gpt2")
    tokens = g.input("input_ids", ("batch", "sequence"), "int64")
    words = g.weight("wte.weight", (_N_TOKENS, _FEATURES), 1 / _FEATURES)
    places = g.weight("wpe.weight", (_N_POSITIONS, _FEATURES), 1 / _FEATURES)
    place = positions(g, tokens, "positions")
    x = add(g, lookup(g, words, tokens, "wte"), lookup(g, places, place, "wpe"), "embeddings")
    mask = _causal_mask(g, place, "causal_mask")
    for index in range(_N_LAYERS):
        x = _layer(g, x, mask, f"h.{index}")
    x = layer_norm(g, x, "ln_f", epsilon=_EPSILON)
    # The same table that turned tokens into vectors turns vectors into scores.
    g.output(matmul(g, x, transpose(g, words, "wte.transpose", (1, 0)), "lm_head"), "logits")
    return g


def _causal_mask(g: Graph, place: Tensor, name: str) -> Tensor:
    """0 up to a token's own place and the lowest number after it, ``[sequence, sequence]``."""
    row, column = (
        unsqueeze(g, place, f"{name}.column", (1,)),
        unsqueeze(g, place, f"{name}.row", (0,)),
    )
    shape = (*place.shape, *place.shape)
    later = g.node("Less", f"{name}.later", [row, column], shape, element="bool")
    return g.node("Where", name, [later, g.number(_LOWEST), g.number(0.0)], shape)


def _layer(g: Graph, x: Tensor, mask: Tensor, name: str) -> Tensor:
    y = layer_norm(g, x, f"{name}.ln_1", epsilon=_EPSILON)
    y = project(g, y, f"{name}.attn.c_attn", 3 * _FEATURES)
    query, key, value = g.split(f"{name}.attn.split", y, 2, (_FEATURES,) * 3)
    y = attention(g, (query, key, value), f"{name}.attn", n_heads=_N_HEADS, mask=mask)
    x = add(g, project(g, y, f"{name}.attn.c_proj", _FEATURES), x, f"{name}.attn.add")
    y = layer_norm(g, x, f"{name}.ln_2", epsilon=_EPSILON)
    y = gelu_tanh(g, project(g, y, f"{name}.mlp.c_fc", 4 * _FEATURES), f"{name}.mlp.act")
    return add(g, project(g, y, f"{name}.mlp.c_proj", _FEATURES), x, f"{name}.mlp.add")
