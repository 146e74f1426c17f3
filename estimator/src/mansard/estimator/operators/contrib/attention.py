"""ONNX Runtime's attention with a projection fused in: queries, keys, values from one input.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md (Attention,
QAttention, QOrderedAttention, PackedAttention, DecoderMaskedSelfAttention and kin)

How many keys there are: those of this call and those in the cache. Where the cache is a
buffer that past and present share, its valid part is what ``past_sequence_length`` says,
or, where that depends on data, all that leaves room for the new keys.

Scores are counted over the full square of queries and keys: a mask saves no work. Keys
and values that stand in a cache are read, but computed no more; a cache that past and
present share is written by its new rows only, any other one as a whole.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.operators.contrib.parts import (
    ROTATE,
    check_shape,
    microsoft,
    required,
    split_heads,
)
from mansard.estimator.operators.costs import QUANTIZE, reads_only, writes_only
from mansard.estimator.operators.registry import Specs
from mansard.estimator.operators.shapes import check_rank, known_int, same
from mansard.estimator.tensors import Node, Shape, Tensor


class FusedSizes(msgspec.Struct, frozen=True):
    """Sizes of an attention.

    ``n_new`` keys are made by this node, ``n_past`` found in the cache; ``n_room`` is the
    length of the cache behind it. ``is_shared``: it is the same memory as before, so only
    new rows are written. ``known_pairs``: pairs of a query and a key that it sees, over the
    batch, for one head; None: each query sees all keys. ``known_past``: keys that are read
    from the cache, over the batch; None: ``n_past`` of each sample.
    """

    batch: int
    heads: int
    kv_heads: int
    n_queries: int
    n_new: int
    n_past: int
    n_room: int
    width: int
    v_width: int
    is_shared: bool = False
    known_pairs: int | None = None
    known_past: int | None = None

    @property
    def n_read(self) -> int:
        """Keys that are read from the cache, over the batch."""
        return self.batch * self.n_past if self.known_past is None else self.known_past

    @property
    def n_keys(self) -> int:
        return self.n_past + self.n_new

    @property
    def n_pairs(self) -> int:
        all_pairs = self.batch * self.n_queries * self.n_keys
        return all_pairs if self.known_pairs is None else self.known_pairs

    @property
    def n_rows(self) -> int:
        """Rows of scores for one head. Packed tokens count as one sequence."""
        return self.batch * self.n_queries


# operator -> positions of weights, past, past_sequence_length; None: it has none
_PLACES: dict[str, tuple[int, int | None, int | None]] = {
    "Attention": (1, 4, 6),
    "DecoderMaskedSelfAttention": (1, 4, 6),
    "PackedAttention": (1, None, None),
    "QAttention": (1, 8, None),
}


def past_length(node: Node, cache: Tensor, axis: int, n_new: int, position: int | None) -> int:
    """Valid keys in a cache that past and present share."""
    room = cache.shape[axis]
    known = None if position is None else known_int(node, position)
    length = max(room - n_new, 0) if known is None else known
    if not 0 <= length <= room:
        raise node.error(f"{length} keys in a cache of {room}")
    return length


def _projected_sizes(node: Node) -> FusedSizes:
    """Sizes of an attention that projects its input; raises ModelError where they contradict."""
    weights_at, past_at, length_at = _PLACES[node.op_type]
    data, weights = node.input(0), node.input(weights_at)
    heads = required(node, "num_heads")
    packed = node.op_type == "PackedAttention"
    check_rank(node, 0, 2 if packed else 3)
    hidden = node.integers("qkv_hidden_sizes") or (weights.shape[-1] // 3,) * 3
    if len(hidden) != 3 or weights.shape != (data.shape[-1], sum(hidden)):
        raise node.error(
            f"weights {list(weights.shape)} do not project {list(data.shape)} to {list(hidden)}"
        )
    width, v_width = split_heads(node, hidden[0], heads), split_heads(node, hidden[2], heads)
    if packed:
        return packed_sizes(node, 3, heads, width, v_width)
    batch, n_queries, _ = data.shape
    past = None if past_at is None else node.optional(past_at)
    if past is None:
        return FusedSizes(batch, heads, heads, n_queries, n_queries, 0, n_queries, width, v_width)
    if past.rank != 5 or past.shape[:3] != (2, batch, heads) or past.shape[4] != width:
        raise node.error(f"cache {list(past.shape)} is not [2, {batch}, {heads}, length, {width}]")
    is_shared = bool(node.integer("past_present_share_buffer", 0))
    n_past = past.shape[3]
    n_room = n_past + n_queries
    if is_shared:
        n_past, n_room = past_length(node, past, 3, n_queries, length_at), n_past
    return FusedSizes(
        batch, heads, heads, n_queries, n_queries, n_past, n_room, width, v_width, is_shared
    )


def packed_sizes(node: Node, lengths: int, heads: int, width: int, v_width: int) -> FusedSizes:
    """Sizes over tokens of several sequences without padding, which count as one.

    The inputs at ``lengths`` are offsets and cumulative lengths. Pairs are the squares of
    the sequences' lengths where these are known, else every token with as many keys as the
    longest sequence may have: an upper bound.
    """
    n, n_steps = node.input(0).shape[0], check_rank(node, lengths, 2).shape[1]
    ends = node.input(lengths + 1).value
    if ends is None:
        pairs = n * min(n_steps, n)
    else:
        steps = [int(b) - int(a) for a, b in pairwise(ends.flat)]
        if min(steps, default=0) < 0 or sum(steps) != n:
            raise node.error(f"lengths {steps} are not those of {n} tokens")
        pairs = sum(length * length for length in steps)
    return FusedSizes(1, heads, heads, n, n, 0, n, width, v_width, False, pairs)


def _attention_shape(node: Node) -> Specs:
    """[batch, queries, width], and the cache [2, batch, heads, length, width of a head]."""
    sizes = _projected_sizes(node)
    dtype = node.input(3 if node.op_type == "QAttention" else 0).dtype
    cache = (2, sizes.batch, sizes.heads, sizes.n_room, sizes.width)
    return [(dtype, (sizes.batch, sizes.n_queries, sizes.heads * sizes.v_width)), (dtype, cache)]


def scores_cost(n_pairs: int, n_rows: int, width: int, v_width: int, n_summands: int) -> Cost:
    """softmax(scale · Q·Kᵀ + summands)·V of ``n_pairs`` scores in ``n_rows`` rows.

    A factor and the summands for each score; a softmax of a row of n takes 4·n - 2
    operations and n functions.
    """
    if not n_pairs:
        return Cost()
    simple = (5 + n_summands) * n_pairs - 2 * n_rows
    return Cost(macs=n_pairs * (width + v_width), simple=simple, functions=n_pairs)


def attend(sizes: FusedSizes, n_summands: int) -> Cost:
    """The scores of all heads."""
    heads = sizes.heads
    return scores_cost(
        heads * sizes.n_pairs, heads * sizes.n_rows, sizes.width, sizes.v_width, n_summands
    )


def masks(node: Node, mask: int, bias: int) -> int:
    """Summands of each score: a mask, given or causal, and a bias."""
    return int(node.has(mask) or node.integer("unidirectional", 0) == 1) + node.has(bias)


def _projection(node: Node, sizes: FusedSizes, has_bias: bool) -> Cost:
    """Queries, keys and values from the input; a bias for each of their elements."""
    data = node.input(0)
    n_rows = data.n_elements // max(data.shape[-1], 1)
    width = sizes.heads * (2 * sizes.width + sizes.v_width)
    return Cost(macs=data.n_elements * width, simple=n_rows * width if has_bias else 0)


def _rotation(node: Node, sizes: FusedSizes) -> Cost:
    """Queries and new keys are rotated where that is asked for."""
    if not node.integer("do_rotary", 0):
        return Cost()
    width = min(node.integer("rotary_embedding_dim", 0) or sizes.width, sizes.width)
    return ROTATE * (sizes.batch * sizes.heads * (sizes.n_queries + sizes.n_new) * width)


def _cached_reads(node: Node, precision: Precision | None) -> int:
    """All inputs, valid rows of the cache."""
    sizes = _projected_sizes(node)
    valid = 2 * sizes.batch * sizes.heads * sizes.n_past * sizes.width
    return reads_only(node, precision, {_PLACES[node.op_type][1] or 0: valid})


def _cached_writes(node: Node, precision: Precision | None) -> int:
    """All outputs, new rows of a shared cache."""
    sizes = _projected_sizes(node)
    new = 2 * sizes.batch * sizes.heads * sizes.n_new * sizes.width
    return writes_only(node, precision, {1: new} if sizes.is_shared else {})


@microsoft(
    *("Attention", "DecoderMaskedSelfAttention"),
    shape=_attention_shape,
    not_weights=(3, 4, 5, 6, 7, 8),
    reads=_cached_reads,
    writes=_cached_writes,
)
def attention(node: Node) -> Cost:
    """Projection: input · (2·hidden + values) multiply-adds a token.

    Then as ONNX's Attention; a bias 1 an element, a rotation 3 an element of queries and keys.
    """
    sizes = _projected_sizes(node)
    work = _projection(node, sizes, node.has(2)) + _rotation(node, sizes)
    return work + attend(sizes, masks(node, 3, 5))


@microsoft(
    "QAttention",
    shape=_attention_shape,
    not_weights=(3, 4, 5, 6, 7, 8),
    reads=_cached_reads,
    writes=_cached_writes,
)
def quantized_attention(node: Node) -> Cost:
    """As Attention; 2 operations more for each element of the projection."""
    sizes = _projected_sizes(node)
    n_rows = sizes.batch * sizes.n_queries
    factors = Cost(simple=n_rows * sizes.heads * (2 * sizes.width + sizes.v_width))
    work = _projection(node, sizes, True) + factors + _rotation(node, sizes)
    return work + attend(sizes, int(node.has(5) or node.integer("unidirectional", 0) == 1))


def _packed_attention_shape(node: Node) -> Specs:
    sizes = _projected_sizes(node)
    return [(node.input(0).dtype, (sizes.n_queries, sizes.heads * sizes.v_width))]


@microsoft("PackedAttention", shape=_packed_attention_shape, not_weights=(3, 4, 5))
def packed_attention(node: Node) -> Cost:
    """As Attention over tokens without padding; unknown lengths count as the longest."""
    sizes = _projected_sizes(node)
    return _projection(node, sizes, node.has(2)) + attend(sizes, int(node.has(5)))


def _ordered_attention_shape(node: Node) -> Specs:
    """Three matrices of weights; as wide at the end as the values."""
    data, heads = check_rank(node, 0, 3), required(node, "num_heads")
    widths: list[int] = []
    for position in (5, 6, 7):
        weights = node.input(position)
        if weights.rank != 2 or weights.shape[0] != data.shape[2]:
            raise node.error(f"weights {list(weights.shape)} do not project {list(data.shape)}")
        widths.append(weights.shape[1])
        split_heads(node, widths[-1], heads)
    return [(data.dtype, (*data.shape[:2], widths[2]))]


@microsoft(
    "QOrderedAttention",
    shape=_ordered_attention_shape,
    not_weights=(*range(1, 5), *range(8, 11), *range(14, 20)),
    operands=(0, 5),
)
def ordered_attention(node: Node) -> Cost:
    """As Attention; projections, scores and result are quantised (5)."""
    data, heads = node.input(0), node.integer("num_heads", 1)
    batch, steps, _ = data.shape
    queries, keys, values = (node.input(position).shape[1] for position in (5, 6, 7))
    projected = batch * steps * (queries + keys + values)
    n_pairs = heads * batch * steps * steps
    scores = scores_cost(
        n_pairs,
        heads * batch * steps,
        queries // max(heads, 1),
        values // max(heads, 1),
        masks(node, 17, 19),
    )
    macs = data.n_elements * (queries + keys + values)
    quantized = QUANTIZE * (projected + n_pairs + node.output.n_elements)
    return Cost(macs=macs, simple=projected) + quantized + scores


def _longformer_shape(node: Node) -> Specs:
    data, weights = check_rank(node, 0, 3), node.input(_long_positions(node)[0])
    hidden = data.shape[2]
    split_heads(node, hidden, required(node, "num_heads"))
    required(node, "window")
    if weights.shape != (hidden, 3 * hidden):
        raise node.error(f"weights {list(weights.shape)} do not project {list(data.shape)}")
    return [same(data)]


@microsoft("LongformerAttention", shape=_longformer_shape, not_weights=(3, 6))
@microsoft(
    "QOrderedLongformerAttention",
    shape=_longformer_shape,
    not_weights=(1, 3, 5, 6, 7, 9, 11, 12, 13),
    operands=(0, 2),
)
def longformer(node: Node) -> Cost:
    """Local and global projections; 2·window + 1 keys a token, without global tokens."""
    data, heads = node.input(0), node.integer("num_heads", 1)
    batch, steps, hidden = data.shape
    widths = sum(node.input(position).shape[1] for position in _long_positions(node))
    width = hidden // max(heads, 1)
    seen = min(2 * node.integer("window", 0) + 1, steps)
    n_rows = batch * heads * steps
    projected = Cost(macs=data.n_elements * widths, simple=batch * steps * widths)
    return projected + scores_cost(n_rows * seen, n_rows, width, width, 1)


def _long_positions(node: Node) -> tuple[int, int]:
    """Positions of the weights for local and for global attention."""
    return (2, 8) if node.op_type == "QOrderedLongformerAttention" else (1, 4)


def _decoder_attention_shape(node: Node) -> Specs:
    """Steps first; the caches come out as long as the keys that were seen."""
    data, heads = check_rank(node, 0, 3), required(node, "num_heads")
    steps, batch, hidden = data.shape
    cache: Shape = (batch, heads, _decoder_keys(node), split_heads(node, hidden, heads))
    check_shape(node, 2, (hidden, hidden))
    check_shape(node, 3, (hidden, 2 * hidden))
    return [(data.dtype, (steps, batch, hidden)), (data.dtype, cache), (data.dtype, cache)]


@microsoft("DecoderAttention", shape=_decoder_attention_shape, not_weights=(5, 6, 7, 8, 9, 10, 11))
def decoder_attention(node: Node) -> Cost:
    """Projections of queries and of keys and values that are not cached; scores."""
    query, heads = node.input(0), node.integer("num_heads", 1)
    steps, batch, hidden = query.shape
    static, past, state = _decoder_flags(node)
    source = node.input(1) if static else query
    n_source = 0 if static and past and state else source.n_elements
    projected = query.n_elements + 2 * n_source
    width, n_rows = hidden // max(heads, 1), batch * heads * steps
    masked = int(bool(node.value(11).first))
    scores = scores_cost(n_rows * _decoder_keys(node), n_rows, width, width, masked)
    return Cost(macs=projected * hidden, simple=projected) + scores


def _decoder_flags(node: Node) -> tuple[bool, bool, bool]:
    """(static keys, uses the cache, has a state), inputs of a DecoderAttention."""
    static, past, state = (bool(node.value(position).first) for position in (8, 9, 10))
    return static, past, state


def _decoder_keys(node: Node) -> int:
    """Keys of a DecoderAttention: cached, those of ``key`` in cross attention, own ones else."""
    static, past, state = _decoder_flags(node)
    cached = node.input(6).shape[2] if state and past else 0
    if static:
        return cached if cached else node.input(1).shape[0]
    return cached + node.input(0).shape[0]
