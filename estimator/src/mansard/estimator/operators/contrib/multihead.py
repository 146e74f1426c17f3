"""ONNX Runtime's attention over queries, keys and values that were projected before.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
(MultiHeadAttention, PackedMultiHeadAttention, DecoderMaskedMultiHeadAttention; with fewer
heads of keys than of queries GroupQueryAttention, SparseAttention)

The length so far of the last two is what ``total_sequence_length`` says; where that
depends on data, what the longest of ``seqlens_k`` says; where that does too, the cache's
length and the new keys. Samples count with their own lengths where these are known. A
cache that already holds that length is a buffer that past and present share (the runtime's
own test): only the new rows of it are written. Scores are counted over all keys there are,
those in the cache included; a mask saves no work, a window and a sparse layout do.
"""

from __future__ import annotations

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.operators.contrib.attention import (
    FusedSizes,
    attend,
    masks,
    packed_sizes,
    past_length,
    scores_cost,
)
from mansard.estimator.operators.contrib.parts import ROTATE, microsoft, required, split_heads
from mansard.estimator.operators.costs import reads_only, writes_only
from mansard.estimator.operators.normalization import rms_norm_cost
from mansard.estimator.operators.registry import Specs
from mansard.estimator.operators.shapes import check_rank, known_int, known_ints
from mansard.estimator.tensors import Node


def _multihead_sizes(node: Node) -> FusedSizes:
    """Sizes of either attention over a batch; raises ModelError where they contradict."""
    is_masked = node.op_type == "DecoderMaskedMultiHeadAttention"
    sizes = _without_past(node, required(node, "num_heads"), is_masked)
    key, past = node.optional(1), node.optional(5 if is_masked else 6)
    # Keys of 4 dimensions stand in a cache already, which is only read.
    is_cross = node.input(0).rank != 5 and key is not None and key.rank == 4
    if past is None or is_cross:
        return sizes
    length = past.shape[2] if past.rank == 4 else 0
    expected = (sizes.batch, sizes.heads, length, sizes.width)
    if past.shape != expected:
        raise node.error(f"cache {list(past.shape)} is not {list(expected)}")
    shares = node.integer("past_present_share_buffer", 0) if is_masked else node.has(8)
    if not shares:
        return msgspec.structs.replace(sizes, n_past=length, n_room=length + sizes.n_new)
    n_past = past_length(node, past, 2, sizes.n_new, 7 if is_masked else 8)
    return msgspec.structs.replace(sizes, n_past=n_past, n_room=length, is_shared=True)


def _without_past(node: Node, heads: int, is_masked: bool) -> FusedSizes:
    """What the first three inputs hold."""
    query, key, value = node.input(0), node.optional(1), node.optional(2)

    def found(batch: int, n_queries: int, n_keys: int, width: int, v_width: int) -> FusedSizes:
        return FusedSizes(batch, heads, heads, n_queries, n_keys, 0, n_keys, width, v_width)

    if query.rank == 5:  # [batch, steps, heads, 3, width]
        batch, steps, _, _, width = query.shape
        _check_packed(node, query.shape[2:4], (heads, 3))
        return found(batch, steps, steps, width, width)
    batch, n_queries, hidden = check_rank(node, 0, 3).shape
    if key is None:
        if not is_masked or hidden % 3:
            raise node.error(f"keys are missing, and {list(query.shape)} does not hold them")
        width = split_heads(node, hidden // 3, heads)
        return found(batch, n_queries, n_queries, width, width)
    width = split_heads(node, hidden, heads)
    if key.rank == 5:  # [batch, keys, heads, 2, width]
        _check_packed(node, key.shape[2:], (heads, 2, width))
        return found(batch, n_queries, key.shape[1], width, width)
    if value is None or key.rank != value.rank or key.rank not in (3, 4):
        raise node.error("keys and values do not go together")
    if key.rank == 4:
        if key.shape[:2] != (batch, heads) or key.shape[3] != width:
            raise node.error(f"keys {list(key.shape)} do not fit queries {list(query.shape)}")
        return found(batch, n_queries, key.shape[2], width, value.shape[3])
    if key.shape[0] != batch or key.shape[2] != hidden or value.shape[:2] != key.shape[:2]:
        raise node.error(
            f"queries {list(query.shape)}, keys {list(key.shape)} and values "
            f"{list(value.shape)} do not go together"
        )
    return found(batch, n_queries, key.shape[1], width, split_heads(node, value.shape[2], heads))


def _check_packed(node: Node, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if found != expected:
        raise node.error(f"packed operands end in {list(found)}, not {list(expected)}")


def _multihead_shape(node: Node) -> Specs:
    """[batch, queries, width], keys and values [batch, heads, length, width], the scores."""
    sizes, dtype = _multihead_sizes(node), node.input(0).dtype
    cache = (sizes.batch, sizes.heads, sizes.n_room)
    return [
        (dtype, (sizes.batch, sizes.n_queries, sizes.heads * sizes.v_width)),
        (dtype, (*cache, sizes.width)),
        (dtype, (*cache, sizes.v_width)),
        (dtype, (sizes.batch, sizes.heads, sizes.n_queries, sizes.n_keys)),
    ]


_CACHES = {"DecoderMaskedMultiHeadAttention": (5, 6), "MultiHeadAttention": (6, 7)}


def _multihead_reads(node: Node, precision: Precision | None) -> int:
    """All inputs, valid rows of the caches."""
    sizes = _multihead_sizes(node)
    first, second = _CACHES[node.op_type]
    valid = sizes.batch * sizes.heads * sizes.n_past
    return reads_only(node, precision, {first: valid * sizes.width, second: valid * sizes.v_width})


def _multihead_writes(node: Node, precision: Precision | None) -> int:
    """All outputs, new rows of shared caches."""
    sizes = _multihead_sizes(node)
    new = sizes.batch * sizes.heads * sizes.n_new
    shared = {1: new * sizes.width, 2: new * sizes.v_width}
    return writes_only(node, precision, shared if sizes.is_shared else {})


def _biases(node: Node, position: int, sizes: FusedSizes) -> Cost:
    """A bias for each element of queries, new keys and new values."""
    if not node.has(position):
        return Cost()
    keys = sizes.n_new * (sizes.width + sizes.v_width)
    return Cost(simple=sizes.batch * sizes.heads * (sizes.n_queries * sizes.width + keys))


@microsoft(
    "MultiHeadAttention",
    shape=_multihead_shape,
    not_weights=(4, 5, 6, 7, 8, 9),
    reads=_multihead_reads,
    writes=_multihead_writes,
)
def multihead_attention(node: Node) -> Cost:
    """As ONNX's Attention over all keys, those of the cache included.

    Biases 1 an element of queries, keys, values and scores.
    """
    sizes = _multihead_sizes(node)
    return attend(sizes, masks(node, 4, 5)) + _biases(node, 3, sizes)


@microsoft(
    "DecoderMaskedMultiHeadAttention",
    shape=_multihead_shape,
    not_weights=(3, 4, 5, 6, 7, 8, 9),
    reads=_multihead_reads,
    writes=_multihead_writes,
)
def masked_multihead_attention(node: Node) -> Cost:
    """As MultiHeadAttention, for one query of each sequence."""
    sizes = _multihead_sizes(node)
    return attend(sizes, masks(node, 3, 4)) + _biases(node, 10, sizes)


def _packed_sizes(node: Node) -> FusedSizes:
    """Sizes of a PackedMultiHeadAttention: tokens without padding."""
    query, heads = check_rank(node, 0, 2, 4), required(node, "num_heads")
    if query.rank == 4:  # [tokens, heads, 3, width]
        _check_packed(node, query.shape[1:3], (heads, 3))
        width = v_width = query.shape[3]
    else:
        width = split_heads(node, query.shape[1], heads)
        v_width = split_heads(node, node.input(2).shape[-1], heads)
    return packed_sizes(node, 4, heads, width, v_width)


def _packed_shape(node: Node) -> Specs:
    sizes = _packed_sizes(node)
    return [(node.input(0).dtype, (sizes.n_queries, sizes.heads * sizes.v_width))]


@microsoft("PackedMultiHeadAttention", shape=_packed_shape, not_weights=(4, 5, 6))
def packed_multihead_attention(node: Node) -> Cost:
    """As MultiHeadAttention over tokens without padding; see PackedAttention."""
    sizes = _packed_sizes(node)
    return attend(sizes, int(node.has(6))) + _biases(node, 3, sizes)


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


def _grouped_sizes(node: Node) -> FusedSizes:
    """Sizes of a GroupQueryAttention or SparseAttention."""
    check_rank(node, 0, 3)
    check_tables(node, 9 if node.op_type == "SparseAttention" else 7)
    heads, kv_heads = check_groups(node)
    width = head_width(node, heads, kv_heads)
    batch, n_queries, _ = node.input(0).shape
    key, past = node.optional(1), node.optional(3)
    n_new = n_queries if key is None else key.shape[-2]
    buffer = _buffer(node, batch, kv_heads, width)
    totals, is_sparse = _totals(node, batch), node.op_type == "SparseAttention"
    total, longest = _total(node), max(totals, default=0)
    if total is None:
        total = longest or None
    elif longest > total:
        raise node.error(f"a sample has {longest} keys, and all have at most {total}")
    n_past = (buffer if total is None else max(total - n_new, 0)) if past is not None else 0
    if is_sparse and total is None:
        n_past = max(buffer - n_new, 0)  # past and present are always one buffer
    is_ring = past is not None and bool(node.integer("sliding_window_cache", 0))
    is_shared = is_ring or (past is not None and (is_sparse or n_past + n_new <= buffer))
    if n_past > buffer and not is_ring:
        raise node.error(f"{n_past + n_new} keys do not go into a cache of {buffer}")
    n_keys, window = n_past + n_new, node.integer("local_window_size", -1)
    n_room = buffer if is_shared else n_keys
    totals = totals or (n_keys,) * batch
    # A window needs no more keys than its own, and one for each further query.
    most_past = window + n_queries - 1 if window > 0 else n_keys
    n_read = sum(min(max(each - n_new, 0), most_past) for each in totals) if n_past else 0
    pairs = n_queries * sum(min(each, window) if window > 0 else each for each in totals)
    return FusedSizes(
        *(batch, heads, kv_heads, n_queries, n_new, n_past, n_room, width, width, is_shared),
        pairs,
        n_read,
    )


def _totals(node: Node, batch: int) -> tuple[int, ...]:
    """Keys of each sample, the new ones included, where their lengths are known."""
    is_sparse = node.op_type == "SparseAttention"
    lengths = known_ints(node, 8 if is_sparse else 5)
    if not lengths:
        return ()
    if len(lengths) != batch:
        raise node.error(f"{len(lengths)} lengths are not those of {batch} samples")
    return tuple(length + (0 if is_sparse else 1) for length in lengths)


def _buffer(node: Node, batch: int, kv_heads: int, width: int) -> int:
    """The length of the cache; raises ModelError where it does not fit the operator."""
    past = node.optional(3)
    if past is None:
        return 0
    if past.rank != 4 or past.shape[:2] != (batch, kv_heads):
        raise node.error(f"cache {list(past.shape)} is not [{batch}, {kv_heads}, length, width]")
    # Two numbers of 4 bits stand in a byte.
    is_packed = node.integer("kv_cache_bit_width", 0) == 4 and past.dtype.n_bits == 8
    # Rows of a language model's cache are blocks of any format (``language.drawing``).
    row = node.integer("kv_row_bytes", 0) or (-(-width // 2) if is_packed else width)
    expected = (*past.shape[:3], row)
    for tensor in (past, node.input(4)):
        if tensor.shape != expected:
            raise node.error(
                f"cache {tensor.name!r} {list(tensor.shape)} is not {list(expected)}",
                f"its heads have {width} elements: give its last dimension as {expected[3]}, or "
                "leave that out",
            )
    return past.shape[2]


def _total(node: Node) -> int | None:
    return known_int(node, 7 if node.op_type == "SparseAttention" else 6)


def _grouped_shape(node: Node) -> Specs:
    """[batch, queries, width], the caches [batch, heads of keys, length, width], the scores."""
    sizes, query, past = _grouped_sizes(node), node.input(0), node.optional(3)
    dtype = query.dtype if past is None else past.dtype
    cache = (sizes.batch, sizes.kv_heads, sizes.n_room, _row_width(node, sizes))
    return [
        (query.dtype, (sizes.batch, sizes.n_queries, sizes.heads * sizes.width)),
        (dtype, cache),
        (dtype, cache),
        (query.dtype, (sizes.batch, sizes.heads, sizes.n_queries, sizes.n_keys)),
    ]


def _row_width(node: Node, sizes: FusedSizes) -> int:
    """Elements of a row of the cache; one of 4 bits holds two numbers in a byte."""
    past = node.optional(3)
    return sizes.width if past is None else past.shape[3]


def table_rows(node: Node, first: int, n_positions: int) -> dict[int, int]:
    """Elements of the tables of cosines and sines that are read: a row for each position."""
    tables = {position: node.optional(position) for position in (first, first + 1)}
    return {
        position: n_positions * table.shape[-1]
        for position, table in tables.items()
        if table is not None
    }


def _grouped_reads(node: Node, precision: Precision | None) -> int:
    """All inputs, used rows of caches and tables."""
    sizes = _grouped_sizes(node)
    is_sparse = node.op_type == "SparseAttention"
    valid = sizes.kv_heads * sizes.n_read * _row_width(node, sizes)
    tables = table_rows(node, 9 if is_sparse else 7, sizes.batch * sizes.n_queries)
    return reads_only(node, precision, {3: valid, 4: valid, **tables})


def _grouped_writes(node: Node, precision: Precision | None) -> int:
    """All outputs, new rows of shared caches."""
    sizes = _grouped_sizes(node)
    new = sizes.batch * sizes.kv_heads * sizes.n_new * _row_width(node, sizes)
    return writes_only(node, precision, {1: new, 2: new} if sizes.is_shared else {})


def rotation(node: Node, n_vectors: int, table: int) -> Cost:
    """3 operations for each element that is rotated: two for each in the table of cosines."""
    if not node.integer("do_rotary", 0) or not node.has(table):
        return Cost()
    return ROTATE * (n_vectors * 2 * node.input(table).shape[-1])


def head_norms(node: Node, n_vectors: int, width: int, position: int) -> Cost:
    """RMS normalisation of each head of queries and new keys, where its weights are given."""
    return rms_norm_cost(n_vectors * width, width, 1) if node.has(position) else Cost()


def smoothing(node: Node, n_rows: int, position: int) -> Cost:
    """One more exp in each row's sum: its difference from the maximum, and an addition."""
    is_smooth = node.has(position) or node.integer("smooth_softmax", 0) == 1
    return Cost(simple=2 * n_rows, functions=n_rows) if is_smooth else Cost()


def caps(node: Node, n_scores: int) -> Cost:
    """cap · tanh(score / cap) for each score, where there is a cap."""
    capped = node.number("softcap", 0.0) != 0.0
    return Cost(simple=2, functions=1) * n_scores if capped else Cost()


@microsoft(
    "GroupQueryAttention",
    shape=_grouped_shape,
    not_weights=(3, 4, 5, 6, 7, 8, 9, 10, 12, 13),
    operands=(0,),
    reads=_grouped_reads,
    writes=_grouped_writes,
)
def grouped_attention(node: Node) -> Cost:
    """As ONNX's Attention over the length so far or the window.

    Rotation 3 an element of queries and new keys, RMSNormalization of heads, 1 for each
    quantised key.
    """
    sizes = _grouped_sizes(node)
    n_rows = sizes.heads * sizes.n_rows
    new_vectors = sizes.batch * sizes.kv_heads * sizes.n_new
    n_vectors = n_rows + new_vectors
    n_summands = int(node.integer("causal", 1) == 1) + node.has(10)
    work = attend(sizes, n_summands) + caps(node, sizes.heads * sizes.n_pairs)
    work += rotation(node, n_vectors, 7) + smoothing(node, n_rows, 11)
    work += head_norms(node, n_vectors, sizes.width, 14)
    if node.has(12):  # a quantised cache: new rows are quantised (5), all rows scaled
        rows = sizes.kv_heads * (sizes.n_read + sizes.batch * sizes.n_new)
        work += Cost(simple=2 * (rows + 5 * new_vectors) * sizes.width)
    return work


def _sparse_shape(node: Node) -> Specs:
    sizes, query = _grouped_sizes(node), node.input(0)
    past, value = node.input(3), node.input(4)
    return [
        (query.dtype, (sizes.batch, sizes.n_queries, sizes.heads * sizes.width)),
        (past.dtype, past.shape),
        (value.dtype, value.shape),
    ]


@microsoft(
    "SparseAttention",
    shape=_sparse_shape,
    not_weights=tuple(range(3, 11)),
    operands=(0,),
    reads=_grouped_reads,
    writes=_grouped_writes,
)
def sparse_attention(node: Node) -> Cost:
    """As GroupQueryAttention over whole blocks of the mask, all keys if it depends on data."""
    sizes = _grouped_sizes(node)
    n_rows = sizes.heads * sizes.n_rows
    n_vectors = n_rows + sizes.batch * sizes.kv_heads * sizes.n_new
    scores = scores_cost(_sparse_pairs(node), n_rows, sizes.width, sizes.v_width, 1)
    return scores + rotation(node, n_vectors, 9)


def _sparse_pairs(node: Node) -> int:
    """Pairs of queries and keys over the batch and all heads of a SparseAttention.

    Where the rows of its mask are known: for each query the blocks of its row, whole.
    Otherwise every key.
    """
    sizes, rows = _grouped_sizes(node), node.input(5)
    if rows.value is None or rows.rank != 2:
        return sizes.n_pairs * sizes.heads
    block, layouts = required(node, "sparse_block_size"), rows.value.array
    first, last = sizes.n_past // block, (sizes.n_keys - 1) // block
    if last + 1 >= layouts.shape[1]:
        raise node.error(f"{sizes.n_keys} keys are outside a mask of {layouts.shape[1] - 1} rows")
    total = 0
    for row in range(first, last + 1):
        start, end = max(row * block, sizes.n_past), min((row + 1) * block, sizes.n_keys)
        blocks = layouts[:, row + 1] - layouts[:, row]
        seen = sum(min(int(n) * block, sizes.n_keys) for n in blocks)
        total += (end - start) * seen * (sizes.heads // max(len(blocks), 1))
    return sizes.batch * total
