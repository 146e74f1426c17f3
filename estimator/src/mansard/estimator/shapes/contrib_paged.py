"""Attention of ONNX Runtime over caches in pages, and over keys that were selected.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
(PagedAttention, SparsePagedAttention, DynamicSparseAttention)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from mansard.estimator.shapes.checks import check_rank, known_ints
from mansard.estimator.shapes.contrib_grouped import check_groups, check_tables, head_width
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


class PagedSizes(msgspec.Struct, frozen=True):
    """Sizes of an attention over packed tokens.

    ``n_pairs``: pairs of a query and a key it sees, for one head. ``n_past``: keys in the
    cache that are read, over all sequences.
    """

    heads: int
    kv_heads: int
    n_tokens: int
    width: int
    v_width: int
    n_pairs: int
    n_past: int


def paged_sizes(node: Node) -> PagedSizes:
    """Sizes of a PagedAttention.

    Lengths are known where their values are; otherwise each sequence fills its pages
    (an upper bound), and every token sees that much.
    """
    query, pages = node.input(0), node.input(3)
    check_rank(node, 0, 2)
    check_rank(node, 3, 4)
    check_tables(node, 8)
    heads, kv_heads = check_groups(node)
    width = head_width(node, heads, kv_heads)
    v_width = node.integer("v_head_size", 0) or width
    n_tokens, table = query.shape[0], node.input(7)
    check_rank(node, 7, 2)
    capacity = table.shape[1] * pages.shape[1]
    pairs, n_past = _lengths(node, n_tokens, table.shape[0], capacity)
    return PagedSizes(heads, kv_heads, n_tokens, width, v_width, pairs, n_past)


def _lengths(node: Node, n_tokens: int, batch: int, capacity: int) -> tuple[int, int]:
    """(pairs of query and key, cached keys)."""
    window = node.integer("local_window_size", -1)
    bound = min(capacity, window) if window > 0 else capacity
    ends, past = known_ints(node, 5), known_ints(node, 6)
    if ends is None or past is None:
        return n_tokens * bound, batch * capacity
    if len(ends) != len(past) + 1 or ends[-1] != n_tokens:
        raise node.error(f"lengths {list(ends)} and {list(past)} do not fit {n_tokens} tokens")
    new = [b - a for a, b in pairwise(ends)]
    seen = [n + before for n, before in zip(new, past, strict=True)]
    if window > 0:
        seen = [min(n, window) for n in seen]
    return sum(n * keys for n, keys in zip(new, seen, strict=True)), sum(past)


@rule("PagedAttention", "SparsePagedAttention", domain=MICROSOFT)
def _paged(node: Node) -> Sequence[Spec]:
    """[tokens, width]; the caches come out as they went in."""
    sizes = selected_sizes(node) if node.op_type == "SparsePagedAttention" else paged_sizes(node)
    values = node.optional(4)
    return [
        (node.input(0).dtype, (sizes.n_tokens, sizes.heads * sizes.v_width)),
        same(node.input(3)),
        same(node.input(3) if values is None else values),
    ]


def selected_sizes(node: Node) -> PagedSizes:
    """Sizes of an attention over selected keys, as many for each query as the list has room."""
    query = node.input(0)
    check_tables(node, 14 if node.op_type == "SparsePagedAttention" else 11)
    heads, kv_heads = check_groups(node)
    width = head_width(node, heads, kv_heads)
    indices = node.input(9 if node.op_type == "SparsePagedAttention" else 7)
    if indices.rank != 2:
        raise node.error(f"selected indices {list(indices.shape)} are no matrix")
    n_tokens = query.n_elements // max(query.shape[-1], 1)
    seen = indices.shape[1]
    if node.text("attention_mode", "selected_only") == "local_plus_selected":
        seen += max(node.integer("local_window_size", -1), 0)
    return PagedSizes(heads, kv_heads, n_tokens, width, width, n_tokens * seen, n_tokens * seen)


@rule("DynamicSparseAttention", domain=MICROSOFT)
def _dynamic_sparse(node: Node) -> Sequence[Spec]:
    """[batch, queries, width], and the caches, which are buffers that come out as they went in."""
    check_rank(node, 0, 3)
    sizes, query = selected_sizes(node), node.input(0)
    batch, n_queries, _ = query.shape
    past = node.optional(3)
    cache = (batch, sizes.kv_heads, n_queries, sizes.width) if past is None else past.shape
    return [
        (query.dtype, (batch, n_queries, sizes.heads * sizes.width)),
        (query.dtype, cache),
        (query.dtype, cache),
    ]
