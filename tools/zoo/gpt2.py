"""GPT-2 small (Radford et al., 2019): a causal decoder with a cache.

Any batch, and up to the 1024 rows of its position table for past and new tokens
together. Every token's scores are computed, also in the first pass over a text.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.zoo.builder import Graph, Tensor, fixed
from tools.zoo.decoders import Pair, Places, attend, extend, past, places, returns
from tools.zoo.layers import add
from tools.zoo.tokens import (
    gelu_tanh,
    layer_norm,
    lookup,
    matmul,
    project,
    reshape,
    transpose,
)

_N_POSITIONS = 1024
_EPSILON = 1e-5


@dataclass(frozen=True)
class Sizes:
    """What makes one network of the family."""

    n_layers: int
    n_heads: int
    features: int
    n_tokens: int


def gpt2() -> Graph:
    """Tokens ``[batch, sequence]`` and the past to ``[batch, sequence, 50257]`` and the present."""
    return draw("gpt2", Sizes(n_layers=12, n_heads=12, features=768, n_tokens=50257))


def draw(name: str, sizes: Sizes) -> Graph:
    """A network of the family: tokens and the past to scores of all tokens and the present."""
    g = Graph(name)
    tokens = g.input("input_ids", ("batch", "sequence"), "int64")
    depth = sizes.features // sizes.n_heads
    before = past(g, sizes.n_layers, sizes.n_heads, depth)
    words = g.weight("wte.weight", (sizes.n_tokens, sizes.features), 1 / sizes.features)
    table = g.weight("wpe.weight", (_N_POSITIONS, sizes.features), 1 / sizes.features)
    where = places(g, tokens, before[0])
    x = add(g, lookup(g, words, tokens, "wte"), lookup(g, table, where.own, "wpe"), "embeddings")
    caches = []
    for index, one in enumerate(before):
        x, cache = _layer(g, x, one, where, index)
        caches.append(cache)
    x = layer_norm(g, x, "ln_f", epsilon=_EPSILON)
    # The same table that turned tokens into vectors turns vectors into scores.
    g.output(matmul(g, x, transpose(g, words, "wte.transpose", (1, 0)), "lm_head"), "logits")
    for cache in caches:
        returns(g, cache)
    return g


def _layer(g: Graph, x: Tensor, before: Pair, where: Places, index: int) -> tuple[Tensor, Pair]:
    name, features = f"h.{index}", fixed(x, -1)
    y = layer_norm(g, x, f"{name}.ln_1", epsilon=_EPSILON)
    y = project(g, y, f"{name}.attn.c_attn", 3 * features)
    parts = g.split(f"{name}.attn.split", y, 2, (features,) * 3)
    roles = zip(parts, ("query", "key", "value"), strict=True)
    depth = fixed(before.key, -1)
    query, key, value = (_heads(g, part, f"{name}.attn.{role}", depth) for part, role in roles)
    cache = extend(g, before, Pair(key, value), index)
    y = attend(g, query, cache, where.mask, f"{name}.attn")
    y = transpose(g, y, f"{name}.attn.transpose", (0, 2, 1, 3))
    y = reshape(g, y, f"{name}.attn.merged", (0, 0, features))
    x = add(g, project(g, y, f"{name}.attn.c_proj", features), x, f"{name}.attn.add")
    y = layer_norm(g, x, f"{name}.ln_2", epsilon=_EPSILON)
    y = gelu_tanh(g, project(g, y, f"{name}.mlp.c_fc", 4 * features), f"{name}.mlp.act")
    y = project(g, y, f"{name}.mlp.c_proj", features)
    return add(g, y, x, f"{name}.mlp.add"), cache


def _heads(g: Graph, x: Tensor, name: str, depth: int) -> Tensor:
    x = reshape(g, x, f"{name}.heads", (0, 0, fixed(x, -1) // depth, depth))
    return transpose(g, x, f"{name}.transpose", (0, 2, 1, 3))
