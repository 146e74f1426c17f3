"""BERT, base and large, uncased (Devlin et al., arXiv:1810.04805).

Any batch and any sequence up to the 512 rows of its position table.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.zoo.builder import Graph, Tensor, fixed
from tools.zoo.layers import add, linear, multiply
from tools.zoo.tokens import (
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

_N_WORDS = 30522
_N_POSITIONS = 512
_EPSILON = 1e-12
_LOWEST = -3.4028234663852886e38  # the most negative finite fp32


@dataclass(frozen=True)
class Sizes:
    """What makes one network of the family."""

    n_layers: int
    n_heads: int
    features: int


def bert_base() -> Graph:
    """Token numbers, mask and segments ``[batch, sequence]`` to states and a pooled state."""
    return draw("bert_base", Sizes(n_layers=12, n_heads=12, features=768))


def bert_large() -> Graph:
    """Token numbers, mask and segments ``[batch, sequence]`` to states and a pooled state."""
    return draw("bert_large", Sizes(n_layers=24, n_heads=16, features=1024))


def draw(name: str, sizes: Sizes) -> Graph:
    """A network of the family."""
    g = Graph(name)
    shape = ("batch", "sequence")
    tokens = g.input("input_ids", shape, "int64")
    kept = g.input("attention_mask", shape, "int64")
    segments = g.input("token_type_ids", shape, "int64")
    x = _embed(g, tokens, segments, "embeddings", sizes.features)
    mask = _additive_mask(g, kept, "extended_attention_mask")
    for index in range(sizes.n_layers):
        x = _layer(g, x, mask, f"layer.{index}", sizes.n_heads)
    first = take(g, x, "pooler.first_token", axis=1, index=0)
    pooled = linear(g, first, "pooler.dense", sizes.features)
    g.output(x, "last_hidden_state")
    g.output(g.node("Tanh", "pooler.activation", [pooled], pooled.shape), "pooler_output")
    return g


def _embed(g: Graph, tokens: Tensor, segments: Tensor, name: str, features: int) -> Tensor:
    words = embedding(g, tokens, f"{name}.word_embeddings", _N_WORDS, features)
    types = embedding(g, segments, f"{name}.token_type_embeddings", 2, features)
    places = g.weight(f"{name}.position_embeddings.weight", (_N_POSITIONS, features), 1 / features)
    rows = lookup(
        g, places, positions(g, tokens, f"{name}.positions"), f"{name}.position_embeddings"
    )
    x = add(g, words, types, f"{name}.with_type")
    x = add(g, x, rows, f"{name}.with_position")
    return layer_norm(g, x, f"{name}.norm", epsilon=_EPSILON)


def _additive_mask(g: Graph, kept: Tensor, name: str) -> Tensor:
    """0 where a token is kept and the lowest number where not, ``[batch, 1, 1, sequence]``."""
    mask = unsqueeze(g, kept, f"{name}.unsqueeze", (1, 2))
    mask = g.node("Cast", f"{name}.cast", [mask], mask.shape, to=1)
    dropped = g.node("Sub", f"{name}.dropped", [g.number(1.0), mask], mask.shape)
    return multiply(g, dropped, g.number(_LOWEST), name)


def _layer(g: Graph, x: Tensor, mask: Tensor, name: str, n_heads: int) -> Tensor:
    inner, features = f"{name}.attention", fixed(x, -1)
    query = project(g, x, f"{inner}.query", features)
    key = project(g, x, f"{inner}.key", features)
    value = project(g, x, f"{inner}.value", features)
    y = attention(g, (query, key, value), inner, n_heads=n_heads, mask=mask)
    y = project(g, y, f"{name}.attention.out", features)
    y = add(g, y, x, f"{name}.attention.add")
    x = layer_norm(g, y, f"{name}.attention.norm", epsilon=_EPSILON)
    y = project(g, x, f"{name}.inner", 4 * features)
    y = gelu(g, y, f"{name}.gelu")
    y = project(g, y, f"{name}.out", features)
    y = add(g, y, x, f"{name}.add")
    return layer_norm(g, y, f"{name}.norm", epsilon=_EPSILON)
