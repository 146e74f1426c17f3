"""BERT-base, uncased (Devlin et al., arXiv:1810.04805).

Any batch and any sequence up to the 512 rows of its position table.
"""

from __future__ import annotations

from mansard.estimator.zoo.builder import Graph, Tensor
from mansard.estimator.zoo.layers import add, linear, multiply
from mansard.estimator.zoo.tokens import (
    attention,
    embedding,
    gelu,
    layer_norm,
    lookup,
    positions,
    project,
    take,
    unsqueeze,
)

_N_LAYERS = 12
_N_HEADS = 12
_FEATURES = 768
_N_WORDS = 30522
_N_POSITIONS = 512
_EPSILON = 1e-12
_LOWEST = -3.4028234663852886e38  # the most negative finite fp32


def bert_base() -> Graph:
    """Token numbers, mask and segments ``[batch, sequence]`` to states and a pooled state."""
    g = Graph("bert_base")
    shape = ("batch", "sequence")
    tokens = g.input("input_ids", shape, "int64")
    kept = g.input("attention_mask", shape, "int64")
    segments = g.input("token_type_ids", shape, "int64")
    x = _embed(g, tokens, segments, "embeddings")
    mask = _additive_mask(g, kept, "extended_attention_mask")
    for index in range(_N_LAYERS):
        x = _layer(g, x, mask, f"encoder.layer.{index}")
    first = take(g, x, "pooler.first_token", axis=1, index=0)
    pooled = linear(g, first, "pooler.dense", _FEATURES)
    g.output(x, "last_hidden_state")
    g.output(g.node("Tanh", "pooler.activation", [pooled], pooled.shape), "pooler_output")
    return g


def _embed(g: Graph, tokens: Tensor, segments: Tensor, name: str) -> Tensor:
    words = embedding(g, tokens, f"{name}.word_embeddings", _N_WORDS, _FEATURES)
    types = embedding(g, segments, f"{name}.token_type_embeddings", 2, _FEATURES)
    places = g.weight(
        f"{name}.position_embeddings.weight", (_N_POSITIONS, _FEATURES), 1 / _FEATURES
    )
    rows = lookup(
        g, places, positions(g, tokens, f"{name}.positions"), f"{name}.position_embeddings"
    )
    x = add(g, words, types, f"{name}.with_type")
    x = add(g, x, rows, f"{name}.with_position")
    return layer_norm(g, x, f"{name}.LayerNorm", epsilon=_EPSILON)


def _additive_mask(g: Graph, kept: Tensor, name: str) -> Tensor:
    """0 where a token is kept and the lowest number where not, ``[batch, 1, 1, sequence]``."""
    mask = unsqueeze(g, kept, f"{name}.unsqueeze", (1, 2))
    mask = g.node("Cast", f"{name}.cast", [mask], mask.shape, to=1)
    dropped = g.node("Sub", f"{name}.dropped", [g.number(1.0), mask], mask.shape)
    return multiply(g, dropped, g.number(_LOWEST), name)


def _layer(g: Graph, x: Tensor, mask: Tensor, name: str) -> Tensor:
    inner = f"{name}.attention.self"
    query = project(g, x, f"{inner}.query", _FEATURES)
    key = project(g, x, f"{inner}.key", _FEATURES)
    value = project(g, x, f"{inner}.value", _FEATURES)
    y = attention(g, (query, key, value), inner, n_heads=_N_HEADS, mask=mask)
    y = project(g, y, f"{name}.attention.output.dense", _FEATURES)
    y = add(g, y, x, f"{name}.attention.output.add")
    x = layer_norm(g, y, f"{name}.attention.output.LayerNorm", epsilon=_EPSILON)
    y = project(g, x, f"{name}.intermediate.dense", 4 * _FEATURES)
    y = gelu(g, y, f"{name}.intermediate.gelu")
    y = project(g, y, f"{name}.output.dense", _FEATURES)
    y = add(g, y, x, f"{name}.output.add")
    return layer_norm(g, y, f"{name}.output.LayerNorm", epsilon=_EPSILON)
