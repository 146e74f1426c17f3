"""ONNX Runtime's attention over what was projected before, with caches for decoders.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. Scores are
counted over all keys there are, those in the cache included; a mask saves no work, a
window and a sparse layout do.
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.formulas.contrib_attention import attend, masks, scores_cost
from mansard.estimator.formulas.contrib_parts import ROTATE, reads_only, writes_only
from mansard.estimator.formulas.normalization import rms_norm_cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_attention import FusedSizes
from mansard.estimator.shapes.contrib_grouped import grouped_sizes, sparse_pairs
from mansard.estimator.shapes.contrib_multihead import multihead_sizes, packed_sizes
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.tensors import Node

_CACHES = {"DecoderMaskedMultiHeadAttention": (5, 6), "MultiHeadAttention": (6, 7)}


def _multihead_reads(node: Node, precision: Precision | None) -> int:
    """All inputs, but of the caches only what is valid."""
    sizes = multihead_sizes(node)
    first, second = _CACHES[node.op_type]
    valid = sizes.batch * sizes.heads * sizes.n_past
    return reads_only(node, precision, {first: valid * sizes.width, second: valid * sizes.v_width})


def _multihead_writes(node: Node, precision: Precision | None) -> int:
    """All outputs, but of shared caches only the new rows."""
    sizes = multihead_sizes(node)
    new = sizes.batch * sizes.heads * sizes.n_new
    shared = {1: new * sizes.width, 2: new * sizes.v_width}
    return writes_only(node, precision, shared if sizes.is_shared else {})


def _biases(node: Node, place: int, sizes: FusedSizes) -> Cost:
    """A bias for each element of queries, new keys and new values."""
    if not node.has(place):
        return Cost()
    keys = sizes.n_new * (sizes.width + sizes.v_width)
    return Cost(simple=sizes.batch * sizes.heads * (sizes.n_queries * sizes.width + keys))


@register(
    "MultiHeadAttention",
    domain=MICROSOFT,
    not_weights=(4, 5, 6, 7, 8, 9),
    reads=_multihead_reads,
    writes=_multihead_writes,
)
def multihead_attention(node: Node) -> Cost:
    """softmax(scale · Q·Kᵀ + mask + bias)·V over all keys, those of the cache included.

    For each score a factor, a mask and a bias where they are, and softmax; a bias for
    each element of queries, keys and values. Of the caches it reads what is valid, and
    writes the new rows where past and present share them, else all of them.
    """
    sizes = multihead_sizes(node)
    return attend(sizes, masks(node, 4, 5)) + _biases(node, 3, sizes)


@register(
    "DecoderMaskedMultiHeadAttention",
    domain=MICROSOFT,
    not_weights=(3, 4, 5, 6, 7, 8, 9),
    reads=_multihead_reads,
    writes=_multihead_writes,
)
def masked_multihead_attention(node: Node) -> Cost:
    """As MultiHeadAttention, for one query of each sequence."""
    sizes = multihead_sizes(node)
    return attend(sizes, masks(node, 3, 4)) + _biases(node, 10, sizes)


@register("PackedMultiHeadAttention", domain=MICROSOFT, not_weights=(4, 5, 6))
def packed_multihead_attention(node: Node) -> Cost:
    """As MultiHeadAttention over tokens without padding; see PackedAttention."""
    sizes = packed_sizes(node)
    return attend(sizes, int(node.has(6))) + _biases(node, 3, sizes)


def grouped_rows(node: Node, sizes: FusedSizes, places: tuple[int, int]) -> dict[int, int]:
    """Elements of the tables of cosines and sines that are read: a row for each position."""
    found = {}
    for place in places:
        table = node.optional(place)
        if table is not None:
            found[place] = sizes.batch * sizes.n_queries * table.shape[-1]
    return found


def _grouped_reads(node: Node, precision: Precision | None) -> int:
    """All inputs, but of the caches and tables only the rows that are used.

    A window needs no more keys than its own, and one for each further query.
    """
    sizes = grouped_sizes(node)
    is_sparse = node.op_type == "SparseAttention"
    n_past, window = sizes.n_past, node.integer("local_window_size", -1)
    if window > 0:
        n_past = min(n_past, window + sizes.n_queries - 1)
    past = node.optional(3)
    held = sizes.width if past is None else past.shape[3]
    valid = sizes.batch * sizes.kv_heads * n_past * held
    tables = grouped_rows(node, sizes, (9, 10) if is_sparse else (7, 8))
    return reads_only(node, precision, {3: valid, 4: valid, **tables})


def _grouped_writes(node: Node, precision: Precision | None) -> int:
    """All outputs, but of shared caches only the new rows."""
    sizes = grouped_sizes(node)
    past = node.optional(3)
    held = sizes.width if past is None else past.shape[3]
    new = sizes.batch * sizes.kv_heads * sizes.n_new * held
    return writes_only(node, precision, {1: new, 2: new} if sizes.is_shared else {})


def rotation(node: Node, n_vectors: int, table: int) -> Cost:
    """3 operations for each element that is rotated: two for each in the table of cosines."""
    if not node.integer("do_rotary", 0) or not node.has(table):
        return Cost()
    return ROTATE * (n_vectors * 2 * node.input(table).shape[-1])


def head_norms(node: Node, n_vectors: int, width: int, place: int) -> Cost:
    """RMS normalisation of each head of queries and new keys, where its weights are given."""
    return rms_norm_cost(n_vectors, width, 1) if node.has(place) else Cost()


def smoothing(node: Node, n_rows: int, place: int) -> Cost:
    """One more exp in each row's sum: its difference from the maximum, and an addition."""
    is_smooth = node.has(place) or node.integer("smooth_softmax", 0) == 1
    return Cost(simple=2 * n_rows, functions=n_rows) if is_smooth else Cost()


def caps(node: Node, n_scores: int) -> Cost:
    """cap · tanh(score / cap) for each score, where there is a cap."""
    capped = node.number("softcap", 0.0) != 0.0
    return Cost(simple=2, functions=1) * n_scores if capped else Cost()


@register(
    "GroupQueryAttention",
    domain=MICROSOFT,
    not_weights=(3, 4, 5, 6, 7, 8, 9, 10, 12, 13),
    operands=(0,),
    reads=_grouped_reads,
    writes=_grouped_writes,
)
def grouped_attention(node: Node) -> Cost:
    """softmax(scale · Q·Kᵀ + mask)·V over the length so far, or the window if that is less.

    For each score a factor, the causal mask, a bias and a cap (2 and a function) where
    they are, and softmax; a rotation of 3 operations an element of queries and new keys; RMS
    normalisation of heads; for keys of few bits a product for each element. Of the
    caches it reads what is valid, and writes the new rows where past and present share
    them, else all of them.
    """
    sizes = grouped_sizes(node)
    n_rows = sizes.heads * sizes.n_rows
    new_vectors = sizes.batch * sizes.kv_heads * sizes.n_new
    n_vectors = n_rows + new_vectors
    n_summands = int(node.integer("causal", 1) == 1) + node.has(10)
    work = attend(sizes, n_summands) + caps(node, sizes.heads * sizes.n_pairs)
    work += rotation(node, n_vectors, 7) + smoothing(node, n_rows, 11)
    work += head_norms(node, n_vectors, sizes.width, 14)
    if node.has(12):  # a quantised cache: new rows are quantised (5), all rows scaled
        rows = sizes.batch * sizes.kv_heads * sizes.n_keys
        work += Cost(simple=2 * (rows + 5 * new_vectors) * sizes.width)
    return work


@register(
    "SparseAttention",
    domain=MICROSOFT,
    not_weights=tuple(range(3, 11)),
    operands=(0,),
    reads=_grouped_reads,
    writes=_grouped_writes,
)
def sparse_attention(node: Node) -> Cost:
    """As GroupQueryAttention over the blocks that the mask leaves, whole ones.

    Where the mask depends on data, over all keys. It reads the cache as a whole.
    """
    sizes = grouped_sizes(node)
    n_rows = sizes.heads * sizes.n_rows
    n_vectors = n_rows + sizes.batch * sizes.kv_heads * sizes.n_new
    scores = scores_cost(sparse_pairs(node), n_rows, sizes.width, sizes.v_width, 1)
    return scores + rotation(node, n_vectors, 9)
