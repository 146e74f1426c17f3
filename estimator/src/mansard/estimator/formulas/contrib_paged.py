"""ONNX Runtime's attention over caches in pages, and over keys that were selected.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.formulas.contrib_attention import scores_cost
from mansard.estimator.formulas.contrib_multihead import caps, head_norms, rotation, smoothing
from mansard.estimator.formulas.contrib_parts import reads_only, writes_only
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_paged import PagedSizes, paged_sizes, selected_sizes
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.tensors import Node

# operator -> positions of cosines, head sink, query norm
_PLACES = {
    "DynamicSparseAttention": (11, 16, 14),
    "PagedAttention": (8, 11, 12),
    "SparsePagedAttention": (14, 16, 17),
}


def _sizes(node: Node) -> PagedSizes:
    return paged_sizes(node) if node.op_type == "PagedAttention" else selected_sizes(node)


def _reads(node: Node, precision: Precision | None) -> int:
    """All inputs, but of caches and tables only the rows that are used.

    Keys that several queries select are read once: no more than the cache holds.
    """
    sizes = _sizes(node)
    cosines, _, _ = _PLACES[node.op_type]
    elements = {3: sizes.n_past * sizes.kv_heads * sizes.width}
    elements[4] = sizes.n_past * sizes.kv_heads * sizes.v_width
    for place in (cosines, cosines + 1):
        table = node.optional(place)
        if table is not None:
            elements[place] = sizes.n_tokens * table.shape[-1]
    return reads_only(node, precision, elements)


def _writes(node: Node, precision: Precision | None) -> int:
    """The result, and the new rows of caches that are written in place."""
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


@register(
    "PagedAttention",
    domain=MICROSOFT,
    not_weights=(*range(3, 11), 14, 15, 16),
    operands=(0,),
    reads=_reads,
    writes=_writes,
)
def paged_attention(node: Node) -> Cost:
    """As GroupQueryAttention over packed tokens and pages of the cache.

    The lengths of the sequences count where they are known; otherwise every sequence is
    taken to fill its pages, and every token to see that much. New rows are written in place.
    """
    return _attention(node)


@register(
    "DynamicSparseAttention",
    "SparsePagedAttention",
    domain=MICROSOFT,
    not_weights=(*range(3, 14), 19, 20, 21),
    operands=(0,),
    reads=_reads,
    writes=_writes,
)
def selected_attention(node: Node) -> Cost:
    """As GroupQueryAttention over the keys that were selected, and a window of others.

    A query sees as many keys as its list has room for.
    """
    return _attention(node)
