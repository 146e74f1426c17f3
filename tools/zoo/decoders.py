"""What decoders of text have in common: places of tokens, the causal mask, the cache.

A decoder is given the keys and values of the tokens before, ``past_key_values.N.key``
and ``.value`` ``[batch, heads, past_sequence, depth]``, and returns them with its own,
``present.N.key`` and ``.value``; so call them Hugging Face Optimum's exports. With a
past of 0 it is the first pass over a text (prefill), with a sequence of 1 the step that
makes one token (decode). There is no mask of padding: all texts of a batch are as long.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from tools.zoo.builder import Dimension, Graph, Tensor, fixed
from tools.zoo.layers import add, divide
from tools.zoo.tokens import matmul, softmax, take, transpose, unsqueeze

_LOWEST = -3.4028234663852886e38  # the most negative finite fp32
_ALL = "past_sequence + sequence"


class Pair(NamedTuple):
    """Keys and values ``[batch, heads, tokens, depth]``."""

    key: Tensor
    value: Tensor


class Places(NamedTuple):
    """``own``: places of the tokens given now, ``[sequence]``; ``mask``: 0 up to a token's
    own place and the lowest number after it, ``[sequence, past_sequence + sequence]``."""

    own: Tensor
    mask: Tensor


def past(g: Graph, n_layers: int, n_heads: int, depth: int) -> tuple[Pair, ...]:
    """Inputs for the keys and values of every layer."""
    shape: tuple[Dimension, ...] = ("batch", n_heads, "past_sequence", depth)
    names = (f"past_key_values.{index}" for index in range(n_layers))
    return tuple(
        Pair(g.input(f"{name}.key", shape), g.input(f"{name}.value", shape)) for name in names
    )


def places(g: Graph, tokens: Tensor, before: Pair) -> Places:
    """Where the tokens ``[batch, sequence]`` stand after those of the cache, and what they see."""
    start = _length(g, before.key, "past_sequence", axis=2)
    end = add(g, start, _length(g, tokens, "sequence", axis=1), "all_tokens")
    one = g.integer(1)
    own = g.node("Range", "positions", (start, end, one), ("sequence",), element="int64")
    every = g.node("Range", "all_positions", (g.integer(0), end, one), (_ALL,), element="int64")
    row = unsqueeze(g, own, "causal_mask.column", (1,))
    column = unsqueeze(g, every, "causal_mask.row", (0,))
    shape = ("sequence", _ALL)
    later = g.node("Less", "causal_mask.later", [row, column], shape, element="bool")
    mask = g.node("Where", "causal_mask", [later, g.number(_LOWEST), g.number(0.0)], shape)
    return Places(own, mask)


def extend(g: Graph, before: Pair, now: Pair, index: int) -> Pair:
    """The cache of layer ``index`` with the keys and values of the tokens given now."""
    return Pair(
        _append(g, before.key, now.key, f"present.{index}.key"),
        _append(g, before.value, now.value, f"present.{index}.value"),
    )


def returns(g: Graph, cache: Pair) -> None:
    """Declare the extended keys and values outputs of the network."""
    g.output(cache.key)
    g.output(cache.value)


def attend(g: Graph, query: Tensor, cache: Pair, mask: Tensor, name: str) -> Tensor:
    """softmax(q kᵀ / √d + mask) v; axes before the last two broadcast to those of ``query``."""
    rank = len(cache.key.shape)
    order = (*range(rank - 2), rank - 1, rank - 2)
    scores = matmul(g, query, transpose(g, cache.key, f"{name}.key.t", order), f"{name}.scores")
    scores = divide(g, scores, g.number(sqrt(fixed(query, -1))), f"{name}.scaled")
    scores = add(g, scores, mask, f"{name}.masked")
    return matmul(g, softmax(g, scores, f"{name}.softmax"), cache.value, f"{name}.context")


def _length(g: Graph, x: Tensor, name: str, *, axis: int) -> Tensor:
    shape = g.node("Shape", f"{name}.shape", [x], (len(x.shape),), element="int64")
    return take(g, shape, f"{name}.length", axis=0, index=axis)


def _append(g: Graph, before: Tensor, now: Tensor, name: str) -> Tensor:
    shape = (*before.shape[:2], _ALL, before.shape[3])
    return g.node("Concat", name, (before, now), shape, axis=2)
