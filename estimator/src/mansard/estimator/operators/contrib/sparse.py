"""ONNX Runtime's attention over caches in pages and over selected keys, and its indexers.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
(PagedAttention, SparsePagedAttention, DynamicSparseAttention; SparseAttentionIndexer and
PackedSparseAttentionIndexer tell which keys a sparse attention may read)
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.numbers import INT32
from mansard.estimator.operators.contrib.attention import scores_cost
from mansard.estimator.operators.contrib.multihead import (
    caps,
    check_groups,
    check_tables,
    head_norms,
    head_width,
    rotation,
    smoothing,
    table_rows,
)
from mansard.estimator.operators.contrib.parts import ROTATE, microsoft, microsoft_shape, required
from mansard.estimator.operators.costs import reads_only, sort_comparisons, writes_only
from mansard.estimator.operators.normalization import rms_norm_cost
from mansard.estimator.operators.registry import Spec, Specs
from mansard.estimator.operators.shapes import check_rank, chosen, known_ints, same
from mansard.estimator.tensors import Node


class _PagedSizes(msgspec.Struct, frozen=True):
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


def _paged_sizes(node: Node) -> _PagedSizes:
    """Sizes of a PagedAttention.

    Lengths are known where their values are; otherwise each sequence fills its pages
    (an upper bound), and every token sees that much.
    """
    query, pages = check_rank(node, 0, 2), check_rank(node, 3, 4)
    check_tables(node, 8)
    heads, kv_heads = check_groups(node)
    width = head_width(node, heads, kv_heads)
    v_width = node.integer("v_head_size", 0) or width
    n_tokens, table = query.shape[0], check_rank(node, 7, 2)
    _capacity = table.shape[1] * pages.shape[1]
    pairs, n_past = _lengths(node, n_tokens, table.shape[0], _capacity)
    return _PagedSizes(heads, kv_heads, n_tokens, width, v_width, pairs, n_past)


def _lengths(node: Node, n_tokens: int, batch: int, _capacity: int) -> tuple[int, int]:
    """(pairs of query and key, cached keys)."""
    window = node.integer("local_window_size", -1)
    bound = min(_capacity, window) if window > 0 else _capacity
    ends, past = known_ints(node, 5), known_ints(node, 6)
    if ends is None or past is None:
        return n_tokens * bound, batch * _capacity
    if len(ends) != len(past) + 1 or ends[-1] != n_tokens:
        raise node.error(f"lengths {list(ends)} and {list(past)} do not fit {n_tokens} tokens")
    new = [b - a for a, b in pairwise(ends)]
    seen = [n + before for n, before in zip(new, past, strict=True)]
    if window > 0:
        seen = [min(n, window) for n in seen]
    return sum(n * keys for n, keys in zip(new, seen, strict=True)), sum(past)


def _paged_shape(node: Node) -> Specs:
    """[tokens, width]; the caches come out as they went in."""
    sizes = _selected_sizes(node) if node.op_type == "SparsePagedAttention" else _paged_sizes(node)
    values = node.optional(4)
    return [
        (node.input(0).dtype, (sizes.n_tokens, sizes.heads * sizes.v_width)),
        same(node.input(3)),
        same(node.input(3) if values is None else values),
    ]


# operator -> positions of cosines, head sink, query norm
_PLACES = {
    "DynamicSparseAttention": (11, 16, 14),
    "PagedAttention": (8, 11, 12),
    "SparsePagedAttention": (14, 16, 17),
}


def _sizes(node: Node) -> _PagedSizes:
    return _paged_sizes(node) if node.op_type == "PagedAttention" else _selected_sizes(node)


def _reads(node: Node, precision: Precision | None) -> int:
    """All inputs; of caches and tables the used rows, once."""
    sizes = _sizes(node)
    cosines, _, _ = _PLACES[node.op_type]
    keys = sizes.n_past * sizes.kv_heads
    caches = {3: keys * sizes.width, 4: keys * sizes.v_width}
    return reads_only(node, precision, caches | table_rows(node, cosines, sizes.n_tokens))


def _writes(node: Node, precision: Precision | None) -> int:
    """The result, new rows of caches."""
    sizes = _sizes(node)
    keys = sizes.n_tokens * sizes.kv_heads
    return writes_only(node, precision, {1: keys * sizes.width, 2: keys * sizes.v_width})


def _attention(node: Node) -> Cost:
    sizes = _sizes(node)
    cosines, sink, norm = _PLACES[node.op_type]
    n_rows, n_scores = sizes.heads * sizes.n_tokens, sizes.heads * sizes.n_pairs
    n_vectors = n_rows + sizes.kv_heads * sizes.n_tokens
    masked = int(node.integer("is_causal", 1) == 1)
    work = scores_cost(n_scores, n_rows, sizes.width, sizes.v_width, masked)
    work += caps(node, n_scores) + rotation(node, n_vectors, cosines)
    return work + smoothing(node, n_rows, sink) + head_norms(node, n_vectors, sizes.width, norm)


@microsoft(
    "PagedAttention",
    shape=_paged_shape,
    not_weights=(*range(3, 11), 14, 15, 16),
    operands=(0,),
    reads=_reads,
    writes=_writes,
)
def paged_attention(node: Node) -> Cost:
    """As GroupQueryAttention over packed tokens; unknown lengths fill their pages."""
    return _attention(node)


def _selected_sizes(node: Node) -> _PagedSizes:
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
    return _PagedSizes(heads, kv_heads, n_tokens, width, width, n_tokens * seen, n_tokens * seen)


def _dynamic_sparse_shape(node: Node) -> Specs:
    """[batch, queries, width], and the caches, which are buffers that come out as they went in."""
    check_rank(node, 0, 3)
    sizes, query = _selected_sizes(node), node.input(0)
    batch, n_queries, _ = query.shape
    past = node.optional(3)
    cache = (batch, sizes.kv_heads, n_queries, sizes.width) if past is None else past.shape
    return [
        (query.dtype, (batch, n_queries, sizes.heads * sizes.width)),
        (query.dtype, cache),
        (query.dtype, cache),
    ]


def _selected_shape(node: Node) -> Specs:
    is_paged = node.op_type == "SparsePagedAttention"
    return _paged_shape(node) if is_paged else _dynamic_sparse_shape(node)


@microsoft(
    *("DynamicSparseAttention", "SparsePagedAttention"),
    shape=_selected_shape,
    not_weights=(*range(3, 14), 19, 20, 21),
    operands=(0,),
    reads=_reads,
    writes=_writes,
)
def selected_attention(node: Node) -> Cost:
    """As GroupQueryAttention over selected keys (the length of the list) and a window."""
    return _attention(node)


def _capacity(node: Node) -> int:
    """How many keys are selected for a query at most."""
    if _is_blockwise(node):
        return required(node, "index_topk")
    return required(node, "token_budget") + required(node, "compress_ratio") - 1


def _is_blockwise(node: Node) -> bool:
    """Whether the entries are compressed blocks ("csa") and not tokens ("qsa")."""
    return chosen(node, "policy_mode", "", ("csa", "qsa")) == "csa"


def _compressed(node: Node) -> tuple[int, int]:
    """(blocks that this call closes, tokens that stay behind in the buffer)."""
    ratio, buffer = required(node, "compress_ratio"), node.optional(13)
    held = 0 if buffer is None else buffer.shape[2]
    n_new = node.input(0).shape[1]
    # A closed window stays in the buffer: the next one overlaps it.
    is_open = held >= ratio
    waiting = held - ratio if is_open else held
    closed = (waiting + n_new) // ratio
    left = (waiting + n_new) % ratio
    return closed, left + (ratio if is_open or closed else 0)


def index_keys(node: Node) -> Cost:
    """Normalised, rotated queries times all entries (an upper bound), sorted.

    A score: head width multiply-adds, comparison, sum and weight for each head.
    """
    is_packed = node.op_type.startswith("Packed")
    query = node.input(0)
    keys = node.input(12 if is_packed else 7)
    entries, width = keys.shape[1], keys.shape[2]
    blockwise = _is_blockwise(node)
    if not blockwise and not is_packed:
        entries = -(-(entries + query.shape[1]) // max(node.integer("compress_ratio", 1), 1))
    n_tokens = query.n_elements // max(query.shape[-1], 1)
    heads = query.shape[-1] // max(width, 1) - (0 if node.has(1) else 1)
    n_scores = n_tokens * heads * entries
    work = rms_norm_cost(n_tokens * heads * width, width, 1) + ROTATE * (n_tokens * heads * width)
    work += Cost(macs=n_scores * width, simple=(3 if blockwise else 2) * n_scores)
    return work + Cost(simple=n_tokens * sort_comparisons(entries))


@microsoft_shape("SparseAttentionIndexer", cost=index_keys, not_weights=tuple(range(4, 18)))
def _index_shape(node: Node) -> Specs:
    """[batch, queries, selected]; the keys so far, and what is not compressed yet."""
    query, past = node.input(0), node.input(7)
    n_entries, left = query.shape[1], 0
    if _is_blockwise(node):
        n_entries, left = _compressed(node)
    grown = 0 if node.has(12) else n_entries
    keys = (past.shape[0], past.shape[1] + grown, past.shape[2])
    specs: list[Spec] = [(INT32, (*query.shape[:2], _capacity(node))), (past.dtype, keys)]
    if node.has(13):
        buffer = node.input(13)
        specs.append((buffer.dtype, (*buffer.shape[:2], left, buffer.shape[3])))
    return specs


@microsoft_shape("PackedSparseAttentionIndexer", cost=index_keys, not_weights=tuple(range(4, 18)))
def _index_packed_shape(node: Node) -> Specs:
    """[tokens, selected], how many of them, and the states as they came in."""
    query, keys = node.input(0), node.input(12)
    batch, _, width = keys.shape
    gates = node.optional(14)
    captured = node.integer("state_update_capacity", 0)
    return [
        (INT32, (query.shape[0], _capacity(node))),
        (INT32, (query.shape[0],)),
        same(keys),
        same(node.input(13)),
        same(node.input(13) if gates is None else gates),
        same(node.input(15)),
        (keys.dtype, (batch, captured, width)),
    ]
