"""ONNX Runtime's attention with a projection fused in.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

Scores are counted over the full square of queries and keys: a mask saves no work. Keys
and values that stand in a cache are read, but computed no more; a cache that past and
present share is written by its new rows only, any other one as a whole.
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.formulas.contrib_parts import QUANTIZE, ROTATE, reads_only, writes_only
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_attention import (
    FusedSizes,
    decoder_flags,
    decoder_keys,
    long_places,
    past_place,
    projected_sizes,
)
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.tensors import Node


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
    """All inputs, but of the cache only what is valid."""
    sizes = projected_sizes(node)
    valid = 2 * sizes.batch * sizes.heads * sizes.n_past * sizes.width
    return reads_only(node, precision, {past_place(node): valid})


def _cached_writes(node: Node, precision: Precision | None) -> int:
    """All outputs, but of a shared cache only the new rows."""
    sizes = projected_sizes(node)
    new = 2 * sizes.batch * sizes.heads * sizes.n_new * sizes.width
    return writes_only(node, precision, {1: new} if sizes.is_shared else {})


@register(
    *("Attention", "DecoderMaskedSelfAttention"),
    domain=MICROSOFT,
    not_weights=(3, 4, 5, 6, 7, 8),
    reads=_cached_reads,
    writes=_cached_writes,
)
def attention(node: Node) -> Cost:
    """Projection to queries, keys and values, then softmax(scale · Q·Kᵀ + mask)·V.

    Input · (2·hidden + values) multiply-adds for each token, and a bias; for each score a
    factor, a mask and a bias where they are, and softmax. A rotation takes 3 operations
    an element of queries and keys. Of the cache it reads what is valid, and writes the new
    rows where past and present share it, else all of it.
    """
    sizes = projected_sizes(node)
    work = _projection(node, sizes, node.has(2)) + _rotation(node, sizes)
    return work + attend(sizes, masks(node, 3, 5))


@register(
    "QAttention",
    domain=MICROSOFT,
    not_weights=(3, 4, 5, 6, 7, 8),
    reads=_cached_reads,
    writes=_cached_writes,
)
def quantized_attention(node: Node) -> Cost:
    """As Attention; each element of the projection takes a factor and a bias.

    The projection is of integers; scores are floats, but counted in one precision with it.
    """
    sizes = projected_sizes(node)
    n_rows = sizes.batch * sizes.n_queries
    factors = Cost(simple=n_rows * sizes.heads * (2 * sizes.width + sizes.v_width))
    work = _projection(node, sizes, True) + factors + _rotation(node, sizes)
    return work + attend(sizes, int(node.has(5) or node.integer("unidirectional", 0) == 1))


@register("PackedAttention", domain=MICROSOFT, not_weights=(3, 4, 5))
def packed_attention(node: Node) -> Cost:
    """As Attention over tokens without padding.

    The lengths of the sequences count where they are known; otherwise each token sees as
    many keys as the longest sequence may have.
    """
    sizes = projected_sizes(node)
    return _projection(node, sizes, node.has(2)) + attend(sizes, int(node.has(5)))


@register(
    "QOrderedAttention",
    domain=MICROSOFT,
    not_weights=(*range(1, 5), *range(8, 11), *range(14, 20)),
    operands=(0, 5),
)
def ordered_attention(node: Node) -> Cost:
    """As Attention in integers: projections, scores and result are quantised (5) each."""
    data, heads = node.input(0), node.integer("num_heads", 1)
    batch, steps, _ = data.shape
    queries, keys, values = (node.input(place).shape[1] for place in (5, 6, 7))
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


@register("LongformerAttention", domain=MICROSOFT, not_weights=(3, 6))
@register(
    "QOrderedLongformerAttention",
    domain=MICROSOFT,
    not_weights=(1, 3, 5, 6, 7, 9, 11, 12, 13),
    operands=(0, 2),
)
def longformer(node: Node) -> Cost:
    """Two projections, for local and for global attention; scores within the window.

    A token sees 2·window + 1 keys. Which tokens attend to all others depends on data:
    their scores are left out.
    """
    data, heads = node.input(0), node.integer("num_heads", 1)
    batch, steps, hidden = data.shape
    _, second = long_places(node)
    widths = node.input(long_places(node)[0]).shape[1] + node.input(second).shape[1]
    width = hidden // max(heads, 1)
    seen = min(2 * node.integer("window", 0) + 1, steps)
    n_rows = batch * heads * steps
    projected = Cost(macs=data.n_elements * widths, simple=batch * steps * widths)
    return projected + scores_cost(n_rows * seen, n_rows, width, width, 1)


@register("DecoderAttention", domain=MICROSOFT, not_weights=(5, 6, 7, 8, 9, 10, 11))
def decoder_attention(node: Node) -> Cost:
    """Queries, and the keys and values that are not cached, are projected; then scores.

    Cross attention projects ``key`` once, and finds it in the cache from then on.
    """
    query, heads = node.input(0), node.integer("num_heads", 1)
    steps, batch, hidden = query.shape
    static, past, state = decoder_flags(node)
    source = node.input(1) if static else query
    n_source = 0 if static and past and state else source.n_elements
    projected = query.n_elements + 2 * n_source
    width, n_rows = hidden // max(heads, 1), batch * heads * steps
    masked = int(bool(node.value(11).first))
    scores = scores_cost(n_rows * decoder_keys(node), n_rows, width, width, masked)
    return Cost(macs=projected * hidden, simple=projected) + scores
