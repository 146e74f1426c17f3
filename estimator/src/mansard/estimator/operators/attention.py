"""Fused attention, composed of its matrix products and its softmax.

https://onnx.ai/onnx/operators/onnx__Attention.html, …__RotaryEmbedding, …__LinearAttention,
…_aionnxpreview_FlexAttention
"""

from __future__ import annotations

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.operators.costs import reads_only
from mansard.estimator.operators.normalization import softmax_cost
from mansard.estimator.operators.registry import Specs, operator
from mansard.estimator.operators.shapes import broadcast, check_rank, known_ints, same
from mansard.estimator.tensors import Node


class _AttentionSizes(msgspec.Struct, frozen=True):
    """Sizes of an attention; ``n_keys`` counts those of the cache too.

    ``valid``: of each sample, how many keys are no padding; empty where all of them count.
    """

    batch: int
    heads: int
    kv_heads: int
    n_queries: int
    n_keys: int
    width: int
    v_width: int
    valid: tuple[int, ...] = ()

    @property
    def n_seen(self) -> int:
        """Keys that count, over the batch."""
        return sum(self.valid) if self.valid else self.batch * self.n_keys

    @property
    def n_scores(self) -> int:
        return self.heads * self.n_queries * self.n_seen


def attention_sizes(node: Node) -> _AttentionSizes:
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
    n_keys = n_kv + _cached(node, (batch, kv_heads), width, v_width)
    valid = _valid(node, batch, n_keys)
    return _AttentionSizes(batch, heads, kv_heads, n_q, n_keys, width, v_width, valid)


def _cached(node: Node, first: tuple[int, int], width: int, v_width: int) -> int:
    """Keys in the cache; raises ModelError for one that does not fit the new ones."""
    past = node.optional(4) if node.op_type == "Attention" else None
    if past is None:
        return 0
    if past.rank != 4:
        raise node.error(f"past key {list(past.shape)} must have 4 dimensions")
    length = past.shape[2]
    for tensor, size in ((past, width), (node.input(5), v_width)):
        expected = (*first, length, size)
        if tensor.shape != expected:
            raise node.error(f"cache {tensor.name!r} {list(tensor.shape)} is not {list(expected)}")
    return length


def _valid(node: Node, batch: int, n_keys: int) -> tuple[int, ...]:
    """Keys of each sample that are no padding (nonpad_kv_seqlen), where that is known."""
    lengths = known_ints(node, 6) if node.op_type == "Attention" and node.has(6) else None
    if not lengths:
        return ()
    if len(lengths) != batch or not all(0 <= length <= n_keys for length in lengths):
        raise node.error(f"lengths {list(lengths)} are not those of {batch} x {n_keys} keys")
    return tuple(lengths)


def _attention_shape(node: Node) -> Specs:
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


def products_and_softmax(sizes: _AttentionSizes) -> Cost:
    """Q·Kᵀ, a factor for each score, softmax of each query's row, and its product with V."""
    scores = sizes.n_scores
    products = Cost(macs=scores * (sizes.width + sizes.v_width), simple=scores)
    n_rows = sizes.heads * sizes.n_queries
    if sizes.valid:
        rows_of = [softmax_cost(n_rows, length) for length in sizes.valid if length]
        return sum(rows_of, start=products)
    return products + softmax_cost(n_rows * sizes.batch if sizes.n_keys else 0, sizes.n_keys)


def _valid_reads(node: Node, precision: Precision | None) -> int:
    """All inputs, keys and values without padding."""
    sizes = attention_sizes(node)
    rows = sizes.n_seen * sizes.kv_heads
    if not sizes.valid or node.has(4):
        return reads_only(node, precision, {})
    return reads_only(node, precision, {1: rows * sizes.width, 2: rows * sizes.v_width})


@operator("Attention", shape=_attention_shape, not_weights=(3, 4, 5, 6), reads=_valid_reads)
def attention(node: Node) -> Cost:
    """softmax(scale · Q·Kᵀ + mask)·V over the full square, without padding of the cache.

    Each score: 1 for the scale, 1 for a mask, 2 and a function for a cap; softmax of n: 4·n -
    2 operations and n functions.
    """
    sizes = attention_sizes(node)
    windows = (node.integer("left_window_size", -1), node.integer("right_window_size", -1))
    is_masked = node.has(3) or node.has(6) or node.integer("is_causal", 0) or max(windows) >= 0
    work = products_and_softmax(sizes) + Cost(simple=sizes.n_scores if is_masked else 0)
    if node.number("softcap", 0.0) != 0.0:
        work += sizes.n_scores * Cost(simple=2, functions=1)
    return work


def _flex_attention_shape(node: Node) -> Specs:
    check_rank(node, 0, 4)
    sizes = attention_sizes(node)
    shape = (sizes.batch, sizes.heads, sizes.n_queries, sizes.v_width)
    return [(node.input(0).dtype, shape)]


@operator("FlexAttention", shape=_flex_attention_shape, domain="ai.onnx.preview")
def flex_attention(node: Node) -> Cost:
    """softmax(scale · Q·Kᵀ)·V; its graphs count themselves."""
    return products_and_softmax(attention_sizes(node))


def _rotary_embedding_shape(node: Node) -> Specs:
    data = check_rank(node, 0, 3, 4)
    if data.rank == 3 and not 0 < node.integer("num_heads", 0) <= data.shape[2]:
        raise node.error("num_heads is needed with 3-dimensional inputs")
    return [same(data)]


@operator("RotaryEmbedding", shape=_rotary_embedding_shape, not_weights=(1, 2, 3))
def rotary_embedding(node: Node) -> Cost:
    """3 operations for each rotated element."""
    data, rotated = node.input(0), node.integer("rotary_embedding_dim", 0)
    if not rotated:
        return Cost(simple=3 * data.n_elements)
    width = data.shape[-1] // (node.integer("num_heads", 1) if data.rank == 3 else 1)
    return Cost(simple=3 * (data.n_elements // max(width, 1)) * rotated)


class LinearSizes(msgspec.Struct, frozen=True):
    """Sizes of a linear attention; ``n_tokens`` over the batch, a state is width x v_width."""

    batch: int
    n_tokens: int
    heads: int
    kv_heads: int
    width: int
    v_width: int


def _linear_attention_sizes(node: Node) -> LinearSizes:
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
    return LinearSizes(batch, batch * n_steps, heads, kv_heads, width, v_width)


def _linear_attention_shape(node: Node) -> Specs:
    sizes, dtype = _linear_attention_sizes(node), node.input(0).dtype
    state = (sizes.batch, sizes.kv_heads, sizes.width, sizes.v_width)
    past = node.optional(3)
    if past is not None and past.shape != state:
        raise node.error(f"past state {list(past.shape)} is not {list(state)}")
    result = (*node.input(0).shape[:2], sizes.heads * sizes.v_width)
    return [(dtype, result), (past.dtype if past is not None else dtype, state)]


def recurrence_cost(node: Node, sizes: LinearSizes, n_decays: int | None) -> Cost:
    """S = S + k ⊗ v, o = scale · qᵀ·S for all tokens; ``n_decays`` of each head, if there are any.

    There may be more heads of keys than of queries: as many answer as there are of either.
    """
    rule = node.text("update_rule", "gated_delta")
    d, e = sizes.width, sizes.v_width
    state = Cost(macs=d * e)
    if "gated" in rule and n_decays is not None:
        state += Cost(simple=d * e, functions=n_decays)
    if "delta" in rule:
        state += Cost(macs=d * e, simple=2 * e)
    answers = Cost(macs=d * e, simple=e) * max(sizes.heads, sizes.kv_heads)
    return sizes.n_tokens * (state * sizes.kv_heads + answers)


@operator(
    "LinearAttention", shape=_linear_attention_shape, not_weights=(3, 4, 5), operands=(0, 1, 2)
)
def linear_attention(node: Node) -> Cost:
    """S = S + k ⊗ v, o = scale · qᵀ·S, step by step, with a state of d x e.

    k ⊗ v and q·S are d·e multiply-adds each, the scale e; a decay d·e and its exp; the delta
    rule d·e multiply-adds and 2·e.
    """
    sizes, decay = _linear_attention_sizes(node), node.optional(4)
    return recurrence_cost(
        node, sizes, None if decay is None else decay.shape[-1] // sizes.kv_heads
    )
