"""Attention and its kin.

https://onnx.ai/onnx/operators/onnx__Attention.html, …__RotaryEmbedding, …__LinearAttention,
…_aionnxpreview_FlexAttention
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mansard.estimator.shapes.checks import check_rank
from mansard.estimator.shapes.elementwise import broadcast, same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


class AttentionSizes(msgspec.Struct, frozen=True):
    """Sizes of an attention; ``n_keys`` counts those of the cache too."""

    batch: int
    heads: int
    kv_heads: int
    n_queries: int
    n_keys: int
    width: int
    v_width: int

    @property
    def n_scores(self) -> int:
        return self.batch * self.heads * self.n_queries * self.n_keys


def attention_sizes(node: Node) -> AttentionSizes:
    """Sizes from the inputs and attributes; raises ModelError where they contradict."""
    q, k, v = node.input(0), node.input(1), node.input(2)
    if q.rank not in (3, 4) or k.rank != q.rank or v.rank != q.rank:
        raise node.error(
            f"query, key and value must have 3 or 4 dimensions, not {list(q.shape)}, "
            f"{list(k.shape)} and {list(v.shape)}"
        )
    if q.rank == 4:
        batch, heads, n_q, width = q.shape
        kv_heads, n_kv, k_width, v_width = k.shape[1], k.shape[2], k.shape[3], v.shape[3]
        fits = v.shape[:3] == k.shape[:3]
    else:
        batch, n_q, _ = q.shape
        heads, kv_heads = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
        if heads < 1 or kv_heads < 1:
            raise node.error("q_num_heads and kv_num_heads are needed with 3-dimensional inputs")
        n_kv, width, v_width = k.shape[1], q.shape[2] // heads, v.shape[2] // kv_heads
        k_width = k.shape[2] // kv_heads
        fits = v.shape[:2] == k.shape[:2] and (width * heads, v_width * kv_heads) == (
            q.shape[2],
            v.shape[2],
        )
    if not fits or k.shape[0] != batch or width != k_width or not kv_heads or heads % kv_heads:
        raise node.error(
            f"query {list(q.shape)}, key {list(k.shape)} and value {list(v.shape)} "
            f"do not fit {heads} and {kv_heads} heads"
        )
    return AttentionSizes(batch, heads, kv_heads, n_q, n_kv + _cached(node), width, v_width)


def _cached(node: Node) -> int:
    past = node.optional(4)
    if past is None:
        return 0
    if past.rank != 4:
        raise node.error(f"past key {list(past.shape)} must have 4 dimensions")
    return past.shape[2]


@rule("Attention")
def _attention(node: Node) -> Sequence[Spec]:
    sizes = attention_sizes(node)
    dtype, v_dtype = node.input(0).dtype, node.input(2).dtype
    batch, heads, n_q, n_kv = sizes.batch, sizes.heads, sizes.n_queries, sizes.n_keys
    mask = node.optional(3)
    if mask is not None:
        # A mask may end early: what is behind its end is masked.
        last = (*mask.shape[:-1], n_kv) if mask.shape[-1] < n_kv else mask.shape
        broadcast(node, (batch, heads, n_q, n_kv), last)
    is_flat = node.input(0).rank == 3
    flat = (batch, n_q, heads * sizes.v_width)
    return [
        (dtype, flat if is_flat else (batch, heads, n_q, sizes.v_width)),
        (dtype, (batch, sizes.kv_heads, n_kv, sizes.width)),
        (v_dtype, (batch, sizes.kv_heads, n_kv, sizes.v_width)),
        (dtype, (batch, heads, n_q, n_kv)),
    ]


@rule("FlexAttention", domain="ai.onnx.preview")
def _flex_attention(node: Node) -> Sequence[Spec]:
    check_rank(node, 0, 4)
    sizes = attention_sizes(node)
    shape = (sizes.batch, sizes.heads, sizes.n_queries, sizes.v_width)
    return [(node.input(0).dtype, shape)]


@rule("RotaryEmbedding")
def _rotary_embedding(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    check_rank(node, 0, 3, 4)
    if data.rank == 3 and not 0 < node.integer("num_heads", 0) <= data.shape[2]:
        raise node.error("num_heads is needed with 3-dimensional inputs")
    return [same(data)]


class LinearSizes(msgspec.Struct, frozen=True):
    """Sizes of a linear attention; ``width`` is that of keys, ``v_width`` that of values."""

    batch: int
    n_steps: int
    heads: int
    kv_heads: int
    width: int
    v_width: int


def linear_attention_sizes(node: Node) -> LinearSizes:
    """Sizes from [batch, steps, heads · width] inputs; ModelError where they contradict."""
    q, k, v = node.input(0), node.input(1), node.input(2)
    for position in range(3):
        check_rank(node, position, 3)
    heads, kv_heads = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
    if heads < 1 or kv_heads < 1 or heads % kv_heads:
        raise node.error(f"{heads} query heads do not fit {kv_heads} key heads")
    width, v_width = q.shape[2] // heads, v.shape[2] // kv_heads
    if (
        not q.shape[:2] == k.shape[:2] == v.shape[:2]
        or (width * heads, width * kv_heads) != (q.shape[2], k.shape[2])
        or v_width * kv_heads != v.shape[2]
    ):
        raise node.error(
            f"query {list(q.shape)}, key {list(k.shape)} and value {list(v.shape)} "
            f"do not fit {heads} and {kv_heads} heads"
        )
    batch, n_steps, _ = q.shape
    return LinearSizes(batch, n_steps, heads, kv_heads, width, v_width)


@rule("LinearAttention")
def _linear_attention(node: Node) -> Sequence[Spec]:
    sizes, dtype = linear_attention_sizes(node), node.input(0).dtype
    state = (sizes.batch, sizes.kv_heads, sizes.width, sizes.v_width)
    past = node.optional(3)
    if past is not None and past.shape != state:
        raise node.error(f"past state {list(past.shape)} is not {list(state)}")
    result = (sizes.batch, sizes.n_steps, sizes.heads * sizes.v_width)
    return [(dtype, result), (past.dtype if past is not None else dtype, state)]
