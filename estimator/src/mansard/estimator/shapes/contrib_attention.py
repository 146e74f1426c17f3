"""Attention of ONNX Runtime with a projection fused in: queries, keys, values from one input.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md (Attention,
QAttention, QOrderedAttention, PackedAttention, DecoderMaskedSelfAttention and kin)

How many keys there are: those of this call and those in the cache. Where the cache is a
buffer that past and present share, its valid part is what ``past_sequence_length`` says,
or, where that depends on data, all that leaves room for the new keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from mansard.estimator.shapes.checks import check_rank, known_int
from mansard.estimator.shapes.contrib_parts import MICROSOFT, check_shape, required, split_heads
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape, Tensor


class FusedSizes(msgspec.Struct, frozen=True):
    """Sizes of an attention.

    ``n_new`` keys are made by this node, ``n_past`` found in the cache; ``n_room`` is the
    length of the cache behind it. ``is_shared``: it is the same memory as before, so only
    new rows are written. ``n_pairs``: queries times the keys each of them sees, over the
    batch, for one head.
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
    is_shared: bool
    n_pairs: int

    @property
    def n_keys(self) -> int:
        return self.n_past + self.n_new

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


def past_place(node: Node) -> int:
    """Where the cache of such an attention stands among its inputs."""
    return _PLACES[node.op_type][1] or 0


def past_length(node: Node, cache: Tensor, axis: int, n_new: int, place: int | None) -> int:
    """Valid keys in a cache that past and present share."""
    room = cache.shape[axis]
    known = None if place is None else known_int(node, place)
    length = max(room - n_new, 0) if known is None else known
    if not 0 <= length <= room:
        raise node.error(f"{length} keys in a cache of {room}")
    return length


def projected_sizes(node: Node) -> FusedSizes:
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
        return _packed(node, heads, width, v_width)
    batch, n_queries, _ = data.shape
    past = None if past_at is None else node.optional(past_at)
    if past is None:
        pairs = batch * n_queries * n_queries
        return FusedSizes(
            *(batch, heads, heads, n_queries, n_queries, 0, n_queries, width, v_width, False),
            pairs,
        )
    if past.rank != 5 or past.shape[:3] != (2, batch, heads) or past.shape[4] != width:
        raise node.error(f"cache {list(past.shape)} is not [2, {batch}, {heads}, length, {width}]")
    is_shared = bool(node.integer("past_present_share_buffer", 0))
    n_past = past.shape[3]
    n_room = n_past + n_queries
    if is_shared:
        n_past, n_room = past_length(node, past, 3, n_queries, length_at), n_past
    pairs = batch * n_queries * (n_past + n_queries)
    return FusedSizes(
        *(batch, heads, heads, n_queries, n_queries, n_past, n_room, width, v_width, is_shared),
        pairs,
    )


def _packed(node: Node, heads: int, width: int, v_width: int) -> FusedSizes:
    """Tokens of several sequences without padding; each sees at most a whole sequence."""
    offsets = node.input(3)
    check_rank(node, 3, 2)
    n_steps, n_tokens = offsets.shape[1], node.input(0).shape[0]
    pairs = packed_pairs(node, 4, n_tokens, n_steps)
    return FusedSizes(
        *(1, heads, heads, n_tokens, n_tokens, 0, n_tokens, width, v_width, False), pairs
    )


def packed_pairs(node: Node, position: int, n_tokens: int, n_steps: int) -> int:
    """Pairs of queries and keys of packed sequences.

    Their squares where the cumulative lengths at ``position`` are known, else every token
    with as many keys as the longest sequence may have: an upper bound.
    """
    ends = node.input(position).value
    if ends is None:
        return n_tokens * min(n_steps, n_tokens)
    lengths = [int(b) - int(a) for a, b in pairwise(ends.flat)]
    if min(lengths, default=0) < 0 or sum(lengths) != n_tokens:
        raise node.error(f"lengths {lengths} are not those of {n_tokens} tokens")
    return sum(length * length for length in lengths)


@rule("Attention", "DecoderMaskedSelfAttention", "QAttention", domain=MICROSOFT)
def _attention(node: Node) -> Sequence[Spec]:
    """[batch, queries, width], and the cache [2, batch, heads, length, width of a head]."""
    sizes = projected_sizes(node)
    dtype = node.input(3 if node.op_type == "QAttention" else 0).dtype
    cache = (2, sizes.batch, sizes.heads, sizes.n_room, sizes.width)
    return [
        (dtype, (sizes.batch, sizes.n_queries, sizes.heads * sizes.v_width)),
        (dtype, cache),
    ]


@rule("PackedAttention", domain=MICROSOFT)
def _packed_attention(node: Node) -> Sequence[Spec]:
    sizes = projected_sizes(node)
    return [(node.input(0).dtype, (sizes.n_queries, sizes.heads * sizes.v_width))]


@rule("QOrderedAttention", domain=MICROSOFT)
def _ordered_attention(node: Node) -> Sequence[Spec]:
    """Three matrices of weights; as wide at the end as the values."""
    data, heads = node.input(0), required(node, "num_heads")
    check_rank(node, 0, 3)
    widths: list[int] = []
    for position in (5, 6, 7):
        weights = node.input(position)
        if weights.rank != 2 or weights.shape[0] != data.shape[2]:
            raise node.error(f"weights {list(weights.shape)} do not project {list(data.shape)}")
        widths.append(weights.shape[1])
        split_heads(node, widths[-1], heads)
    return [(data.dtype, (*data.shape[:2], widths[2]))]


@rule("LongformerAttention", "QOrderedLongformerAttention", domain=MICROSOFT)
def _longformer(node: Node) -> Sequence[Spec]:
    data, weights = node.input(0), node.input(long_places(node)[0])
    check_rank(node, 0, 3)
    hidden = data.shape[2]
    split_heads(node, hidden, required(node, "num_heads"))
    required(node, "window")
    if weights.shape != (hidden, 3 * hidden):
        raise node.error(f"weights {list(weights.shape)} do not project {list(data.shape)}")
    return [same(data)]


def long_places(node: Node) -> tuple[int, int]:
    """Positions of the weights for local and for global attention."""
    return (2, 8) if node.op_type == "QOrderedLongformerAttention" else (1, 4)


@rule("DecoderAttention", domain=MICROSOFT)
def _decoder_attention(node: Node) -> Sequence[Spec]:
    """Steps first; the caches come out as long as the keys that were seen."""
    data, heads = node.input(0), required(node, "num_heads")
    check_rank(node, 0, 3)
    steps, batch, hidden = data.shape
    cache: Shape = (batch, heads, decoder_keys(node), split_heads(node, hidden, heads))
    check_shape(node, 2, (hidden, hidden))
    check_shape(node, 3, (hidden, 2 * hidden))
    return [(data.dtype, (steps, batch, hidden)), (data.dtype, cache), (data.dtype, cache)]


def decoder_flags(node: Node) -> tuple[bool, bool, bool]:
    """(static keys, uses the cache, has a state), inputs of a DecoderAttention."""
    static, past, state = (bool(node.value(place).first) for place in (8, 9, 10))
    return static, past, state


def decoder_keys(node: Node) -> int:
    """Keys of a DecoderAttention: cached, those of ``key`` in cross attention, own ones else."""
    static, past, state = decoder_flags(node)
    cached = node.input(6).shape[2] if state and past else 0
    if static:
        return cached if cached else node.input(1).shape[0]
    return cached + node.input(0).shape[0]
