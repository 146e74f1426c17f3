"""Attention of ONNX Runtime for decoders: fewer heads of keys than of queries, and a cache.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
(GroupQueryAttention, SparseAttention)

The length so far is what ``total_sequence_length`` says; where that depends on data,
what the longest of ``seqlens_k`` says; where that does too, the cache's length and the
new keys. A cache that already holds that length is a buffer that past and present share
(the runtime's own test): only the new rows of it are written.
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.shapes.checks import check_rank, known_int, known_ints
from mansard.estimator.shapes.contrib_attention import FusedSizes
from mansard.estimator.shapes.contrib_parts import MICROSOFT, required, split_heads
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


def check_groups(node: Node) -> tuple[int, int]:
    """(heads of queries, heads of keys); raises ModelError where they do not divide."""
    heads, kv_heads = required(node, "num_heads"), required(node, "kv_num_heads")
    if heads % kv_heads:
        raise node.error(f"{heads} heads do not divide into {kv_heads} groups")
    return heads, kv_heads


def head_width(node: Node, heads: int, kv_heads: int) -> int:
    """Width of a head; without keys the queries' rows hold keys and values too."""
    query, key = node.input(0), node.optional(1)
    if key is None:
        return split_heads(node, query.shape[-1], heads + 2 * kv_heads)
    width = split_heads(node, query.shape[-1], heads)
    for tensor in (key, node.input(2)):
        if tensor.rank == query.rank and tensor.shape[-1] != kv_heads * width:
            raise node.error(
                f"{tensor.name!r} {list(tensor.shape)} has no rows of {kv_heads} heads"
            )
    return width


def check_tables(node: Node, first: int) -> None:
    """Raise ModelError unless the tables of cosines and sines are matrices, where given."""
    for position in (first, first + 1):
        if node.has(position):
            check_rank(node, position, 2)


def grouped_sizes(node: Node) -> FusedSizes:
    """Sizes of a GroupQueryAttention or SparseAttention."""
    check_rank(node, 0, 3)
    check_tables(node, 9 if node.op_type == "SparseAttention" else 7)
    heads, kv_heads = check_groups(node)
    width = head_width(node, heads, kv_heads)
    batch, n_queries, _ = node.input(0).shape
    key, past = node.optional(1), node.optional(3)
    n_new = n_queries if key is None else key.shape[-2]
    buffer = _buffer(node, batch, kv_heads)
    total = _total(node)
    n_past = (buffer if total is None else max(total - n_new, 0)) if past is not None else 0
    is_sparse = node.op_type == "SparseAttention"
    if is_sparse and total is None:
        n_past = max(buffer - n_new, 0)  # past and present are always one buffer
    is_shared = past is not None and (is_sparse or n_past + n_new <= buffer)
    window = node.integer("local_window_size", -1)
    n_keys = n_past + n_new
    is_evicting = node.integer("sliding_window_cache", 0) and past is not None
    if is_evicting:
        is_shared = True
    n_room = buffer if is_shared else n_keys
    seen = min(n_keys, window) if window > 0 else n_keys
    return FusedSizes(
        *(batch, heads, kv_heads, n_queries, n_new, n_past, n_room, width, width, is_shared),
        batch * n_queries * seen,
    )


def _buffer(node: Node, batch: int, kv_heads: int) -> int:
    past = node.optional(3)
    if past is None:
        return 0
    if past.rank != 4 or past.shape[:2] != (batch, kv_heads):
        raise node.error(f"cache {list(past.shape)} is not [{batch}, {kv_heads}, length, width]")
    return past.shape[2]


def _total(node: Node) -> int | None:
    is_sparse = node.op_type == "SparseAttention"
    total = known_int(node, 7 if is_sparse else 6)
    if total is not None:
        return total
    lengths = known_ints(node, 8 if is_sparse else 5)
    if not lengths:
        return None
    return max(lengths) + (0 if is_sparse else 1)


@rule("GroupQueryAttention", domain=MICROSOFT)
def _grouped(node: Node) -> Sequence[Spec]:
    """[batch, queries, width], the caches [batch, heads of keys, length, width], the scores.

    A cache of 4 bits holds two numbers in a byte.
    """
    sizes, query, past = grouped_sizes(node), node.input(0), node.optional(3)
    dtype = query.dtype if past is None else past.dtype
    held = sizes.width if past is None else past.shape[3]
    cache = (sizes.batch, sizes.kv_heads, sizes.n_room, held)
    return [
        (query.dtype, (sizes.batch, sizes.n_queries, sizes.heads * sizes.width)),
        (dtype, cache),
        (dtype, cache),
        (query.dtype, (sizes.batch, sizes.heads, sizes.n_queries, sizes.n_keys)),
    ]


@rule("SparseAttention", domain=MICROSOFT)
def _sparse(node: Node) -> Sequence[Spec]:
    sizes, query = grouped_sizes(node), node.input(0)
    past, value = node.input(3), node.input(4)
    return [
        (query.dtype, (sizes.batch, sizes.n_queries, sizes.heads * sizes.width)),
        (past.dtype, past.shape),
        (value.dtype, value.shape),
    ]


def sparse_pairs(node: Node) -> int:
    """Pairs of queries and keys over the batch and all heads of a SparseAttention.

    Where the rows of its mask are known: for each query the blocks of its row, whole.
    Otherwise every key.
    """
    sizes, rows = grouped_sizes(node), node.input(5)
    if rows.value is None or rows.rank != 2:
        return sizes.n_pairs * sizes.heads
    block, layouts = required(node, "sparse_block_size"), rows.value.array
    first, last = sizes.n_past // block, (sizes.n_keys - 1) // block
    if last + 1 >= layouts.shape[1]:
        raise node.error(f"{sizes.n_keys} keys are outside a mask of {layouts.shape[1] - 1} rows")
    total = 0
    for place in range(first, last + 1):
        start, end = max(place * block, sizes.n_past), min((place + 1) * block, sizes.n_keys)
        blocks = layouts[:, place + 1] - layouts[:, place]
        seen = sum(min(int(n) * block, sizes.n_keys) for n in blocks)
        total += (end - start) * seen * (sizes.heads // max(len(blocks), 1))
    return sizes.batch * total
