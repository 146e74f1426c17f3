"""Attention of ONNX Runtime over queries, keys and values that were projected before.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
(MultiHeadAttention, PackedMultiHeadAttention, DecoderMaskedMultiHeadAttention)
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mansard.estimator.shapes.checks import check_rank
from mansard.estimator.shapes.contrib_attention import FusedSizes, packed_pairs, past_length
from mansard.estimator.shapes.contrib_parts import MICROSOFT, required, split_heads
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


class _Operands(msgspec.Struct, frozen=True):
    """What the first three inputs hold. ``is_cross``: keys that stand in a cache already."""

    batch: int
    n_queries: int
    n_keys: int
    width: int
    v_width: int
    is_cross: bool = False


def multihead_sizes(node: Node) -> FusedSizes:
    """Sizes of either attention over a batch; raises ModelError where they contradict."""
    heads = required(node, "num_heads")
    is_masked = node.op_type == "DecoderMaskedMultiHeadAttention"
    found = _operands(node, heads, is_masked)
    past = node.optional(5 if is_masked else 6)
    n_past = n_room = 0
    is_shared = False
    if found.is_cross:
        # Keys and values are a cache that is only read.
        return _sizes(heads, found, 0, found.n_keys, False)
    if past is not None:
        expected = (found.batch, heads, past.shape[2] if past.rank == 4 else 0, found.width)
        if past.shape != expected:
            raise node.error(f"cache {list(past.shape)} is not {list(expected)}")
        n_past = past.shape[2]
        length_at = 7 if is_masked else 8
        shares = node.integer("past_present_share_buffer", 0) if is_masked else node.has(8)
        if shares:
            n_room, is_shared = n_past, True
            n_past = past_length(node, past, 2, found.n_keys, length_at)
    return _sizes(heads, found, n_past, n_room or n_past + found.n_keys, is_shared)


def _sizes(heads: int, found: _Operands, n_past: int, n_room: int, is_shared: bool) -> FusedSizes:
    pairs = found.batch * found.n_queries * (n_past + found.n_keys)
    return FusedSizes(
        *(found.batch, heads, heads, found.n_queries, found.n_keys, n_past, n_room),
        *(found.width, found.v_width, is_shared, pairs),
    )


def _operands(node: Node, heads: int, is_masked: bool) -> _Operands:
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    if query.rank == 5:  # [batch, steps, heads, 3, width]
        batch, steps, _, _, width = query.shape
        _check_packed(node, query.shape[2:4], (heads, 3))
        return _Operands(batch, steps, steps, width, width)
    check_rank(node, 0, 3)
    batch, n_queries, hidden = query.shape
    if key is None:
        if not is_masked or hidden % 3:
            raise node.error(f"keys are missing, and {list(query.shape)} does not hold them")
        width = split_heads(node, hidden // 3, heads)
        return _Operands(batch, n_queries, n_queries, width, width)
    width = split_heads(node, hidden, heads)
    if key.rank == 5:  # [batch, keys, heads, 2, width]
        _check_packed(node, key.shape[2:], (heads, 2, width))
        return _Operands(batch, n_queries, key.shape[1], width, width)
    if value is None or key.rank != value.rank or key.rank not in (3, 4):
        raise node.error("keys and values do not go together")
    if key.rank == 4:
        if key.shape[:2] != (batch, heads) or key.shape[3] != width:
            raise node.error(f"keys {list(key.shape)} do not fit queries {list(query.shape)}")
        return _Operands(batch, n_queries, key.shape[2], width, value.shape[3], is_cross=True)
    if key.shape[0] != batch or key.shape[2] != hidden or value.shape[:2] != key.shape[:2]:
        raise node.error(
            f"queries {list(query.shape)}, keys {list(key.shape)} and values "
            f"{list(value.shape)} do not go together"
        )
    v_width = split_heads(node, value.shape[2], heads)
    return _Operands(batch, n_queries, key.shape[1], width, v_width)


def _check_packed(node: Node, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if found != expected:
        raise node.error(f"packed operands end in {list(found)}, not {list(expected)}")


@rule("MultiHeadAttention", "DecoderMaskedMultiHeadAttention", domain=MICROSOFT)
def _multihead(node: Node) -> Sequence[Spec]:
    """[batch, queries, width], keys and values [batch, heads, length, width], the scores."""
    sizes, dtype = multihead_sizes(node), node.input(0).dtype
    cache = (sizes.batch, sizes.heads, sizes.n_room)
    return [
        (dtype, (sizes.batch, sizes.n_queries, sizes.heads * sizes.v_width)),
        (dtype, (*cache, sizes.width)),
        (dtype, (*cache, sizes.v_width)),
        (dtype, (sizes.batch, sizes.heads, sizes.n_queries, sizes.n_keys)),
    ]


def packed_sizes(node: Node) -> FusedSizes:
    """Sizes of a PackedMultiHeadAttention: tokens without padding."""
    query, heads = node.input(0), required(node, "num_heads")
    check_rank(node, 0, 2, 4)
    check_rank(node, 4, 2)
    n_tokens = query.shape[0]
    if query.rank == 4:  # [tokens, heads, 3, width]
        _check_packed(node, query.shape[1:3], (heads, 3))
        width = v_width = query.shape[3]
    else:
        width = split_heads(node, query.shape[1], heads)
        v_width = split_heads(node, node.input(2).shape[-1], heads)
    n_steps = node.input(4).shape[1]
    pairs = packed_pairs(node, 5, n_tokens, n_steps)
    return FusedSizes(
        *(1, heads, heads, n_tokens, n_tokens, 0, n_tokens, width, v_width, False), pairs
    )


@rule("PackedMultiHeadAttention", domain=MICROSOFT)
def _packed(node: Node) -> Sequence[Spec]:
    sizes = packed_sizes(node)
    return [(node.input(0).dtype, (sizes.n_queries, sizes.heads * sizes.v_width))]
