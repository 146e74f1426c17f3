"""Decoders in the form of Llama (Touvron et al., arXiv:2302.13971 and 2307.09288).

RMS normalisation (arXiv:1910.07467), rotary places (arXiv:2104.09864), queries in groups
that share keys and values (arXiv:2305.13245), gated feed-forward (SwiGLU,
arXiv:2002.05202), no biases. The widths are TinyLlama-1.1B's (arXiv:2401.02385).

A group's queries multiply its one key by broadcasting, so that keys and values are read
once for a group, as fused attention does; transformers' plain code copies them for
every query head first.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import NamedTuple

from tools.zoo.builder import Graph, Tensor, fixed
from tools.zoo.decoders import Pair, attend, extend, past, places, returns
from tools.zoo.layers import add, concat, divide, multiply, silu
from tools.zoo.tokens import embedding, project, reshape, transpose, unsqueeze

_EPSILON = 1e-5
_ROTARY_BASE = 10_000.0


@dataclass(frozen=True)
class Sizes:
    """What makes one network of the family."""

    n_layers: int
    n_heads: int
    n_groups: int  # of query heads, each with a key head and a value head
    features: int
    hidden: int  # features inside the feed-forward part
    n_tokens: int

    @property
    def depth(self) -> int:
        """Features of one head."""
        return self.features // self.n_heads


class _Shared(NamedTuple):
    """What all layers read; ``turn``: cosines and sines of the tokens' places."""

    sizes: Sizes
    mask: Tensor
    turn: tuple[Tensor, Tensor]


_TINYLLAMA = Sizes(n_layers=22, n_heads=32, n_groups=4, features=2048, hidden=5632, n_tokens=32_000)


def tinyllama_1_1b() -> Graph:
    """Tokens ``[batch, sequence]`` and the past to ``[batch, sequence, 32000]`` and the present."""
    return draw("tinyllama_1_1b", _TINYLLAMA)


def draw(name: str, sizes: Sizes) -> Graph:
    """A network of the family: tokens and the past to scores of all tokens and the present."""
    g = Graph(name)
    tokens = g.input("input_ids", ("batch", "sequence"), "int64")
    before = past(g, sizes.n_layers, sizes.n_groups, sizes.depth)
    x = embedding(g, tokens, "embed_tokens", sizes.n_tokens, sizes.features)
    where = places(g, tokens, before[0])
    shared = _Shared(sizes, where.mask, _rotation(g, where.own, sizes.depth, "rotary"))
    caches = []
    for index, one in enumerate(before):
        x, cache = _attention(g, x, one, shared, index)
        x = _feed_forward(g, x, sizes.hidden, f"layers.{index}")
        caches.append(cache)
    x = _rms_norm(g, x, "norm")
    g.output(project(g, x, "lm_head", sizes.n_tokens, bias=False), "logits")
    for cache in caches:
        returns(g, cache)
    return g


def _rms_norm(g: Graph, x: Tensor, name: str) -> Tensor:
    """x / √(mean of x² + ε) · weight over the last axis."""
    square = g.node("Pow", f"{name}.pow", [x, g.number(2.0)], x.shape)
    mean_shape = (*x.shape[:-1], 1)
    mean = g.node("ReduceMean", f"{name}.mean", [square], mean_shape, axes=(-1,))
    mean = add(g, mean, g.number(_EPSILON), f"{name}.epsilon")
    y = divide(g, x, g.node("Sqrt", f"{name}.sqrt", [mean], mean_shape), f"{name}.div")
    return multiply(g, y, g.weight(f"{name}.weight", (fixed(x, -1),), 1.0), name)


def _rotation(g: Graph, own: Tensor, depth: int, name: str) -> tuple[Tensor, Tensor]:
    """Cosines and sines of place · base^(-2i / depth), ``[sequence, depth]``, each i twice.

    The powers are computed, since stored numbers look like parameters.
    """
    bounds = (g.integer(0), g.integer(depth // 2), g.integer(1))
    pairs = g.node("Range", f"{name}.pairs", bounds, (depth // 2,), element="int64")
    pairs = g.node("Cast", f"{name}.pairs.cast", [pairs], pairs.shape, to=1)
    powers = multiply(g, pairs, g.number(-2 / depth * log(_ROTARY_BASE)), f"{name}.powers")
    rates = g.node("Exp", f"{name}.rates", [powers], powers.shape)
    row = g.node("Cast", f"{name}.cast", [own], own.shape, to=1)
    row = unsqueeze(g, row, f"{name}.unsqueeze", (1,))
    shape = (own.shape[0], depth // 2)
    angles = g.node("Mul", f"{name}.angles", [row, rates], shape)
    both = concat(g, (angles, angles), f"{name}.both")
    return (
        g.node("Cos", f"{name}.cos", [both], both.shape),
        g.node("Sin", f"{name}.sin", [both], both.shape),
    )


def _turn(g: Graph, x: Tensor, turn: tuple[Tensor, Tensor], name: str) -> Tensor:
    """Each pair (i, i + depth/2) of features turned by its token's angle."""
    half, last = fixed(x, -1) // 2, len(x.shape) - 1
    first, second = g.split(f"{name}.split", x, last, (half, half))
    minus = g.node("Neg", f"{name}.neg", [second], second.shape)
    turned = concat(g, (minus, first), f"{name}.rotated", axis=last)
    straight = multiply(g, x, turn[0], f"{name}.straight")
    return add(g, straight, multiply(g, turned, turn[1], f"{name}.across"), name)


def _attention(
    g: Graph, x: Tensor, before: Pair, shared: _Shared, index: int
) -> tuple[Tensor, Pair]:
    name, features = f"layers.{index}.attn", fixed(x, -1)
    y = _rms_norm(g, x, f"layers.{index}.norm1")
    query, key, value = _project_heads(g, y, shared.sizes, name)
    query = _turn(g, query, shared.turn, f"{name}.q_rotary")
    key = _turn(g, key, shared.turn, f"{name}.k_rotary")
    cache = extend(g, before, Pair(key, value), index)
    of_group = Pair(
        unsqueeze(g, cache.key, f"{name}.key.group", (2,)),
        unsqueeze(g, cache.value, f"{name}.value.group", (2,)),
    )
    y = attend(g, query, of_group, shared.mask, name)
    y = transpose(g, y, f"{name}.transpose", (0, 3, 1, 2, 4))
    y = reshape(g, y, f"{name}.merged", (0, 0, features))
    y = project(g, y, f"{name}.o_proj", features, bias=False)
    return add(g, y, x, f"{name}.add"), cache


def _project_heads(g: Graph, x: Tensor, sizes: Sizes, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Queries ``[batch, groups, heads of one, sequence, depth]``, and keys and values.

    These are ``[batch, groups, sequence, depth]``.
    """
    n_groups, depth = sizes.n_groups, sizes.depth
    query = project(g, x, f"{name}.q_proj", sizes.features, bias=False)
    of_group = (0, 0, n_groups, sizes.n_heads // n_groups, depth)
    query = reshape(g, query, f"{name}.q_heads", of_group)
    query = transpose(g, query, f"{name}.q", (0, 2, 3, 1, 4))
    pair = []
    for role in ("k", "v"):
        y = project(g, x, f"{name}.{role}_proj", n_groups * depth, bias=False)
        y = reshape(g, y, f"{name}.{role}_heads", (0, 0, n_groups, depth))
        pair.append(transpose(g, y, f"{name}.{role}", (0, 2, 1, 3)))
    return query, pair[0], pair[1]


def _feed_forward(g: Graph, x: Tensor, hidden: int, name: str) -> Tensor:
    y = _rms_norm(g, x, f"{name}.norm2")
    gate = silu(g, project(g, y, f"{name}.mlp.gate_proj", hidden, bias=False), f"{name}.mlp.act")
    up = project(g, y, f"{name}.mlp.up_proj", hidden, bias=False)
    y = multiply(g, gate, up, f"{name}.mlp.gated")
    y = project(g, y, f"{name}.mlp.down_proj", fixed(x, -1), bias=False)
    return add(g, y, x, f"{name}.mlp.add")
