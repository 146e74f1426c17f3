"""ONNX Runtime's position embeddings and biases, padding, and the choice of keys.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.contrib_parts import ROTATE, SIGMOID, reads_only
from mansard.estimator.formulas.normalization import rms_norm_cost
from mansard.estimator.formulas.picking import sort_comparisons
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.shapes.contrib_positions import rotary_sizes
from mansard.estimator.shapes.contrib_selection import is_blockwise
from mansard.estimator.tensors import Node


def _table_rows(node: Node, precision: Precision | None) -> int:
    """The data and positions, and of the tables a row for each position."""
    n = node.input(1).n_elements
    data = node.input(0)
    if node.input(1).rank == 1:  # one position that the others follow
        n = data.shape[0] * data.shape[-2]
    picked = n * node.input(2).shape[-1]
    return reads_only(node, precision, {2: picked, 3: picked})


@register(
    "MRotaryEmbedding",
    "RotaryEmbedding",
    domain=MICROSOFT,
    not_weights=(1, 2, 3),
    reads=_table_rows,
)
def rotary_embedding(node: Node) -> Cost:
    """3 operations for each element that is rotated, a factor where one is given.

    Of the tables it reads a row for each position.
    """
    n_vectors, _, rotated = rotary_sizes(node)
    scaled = Cost(simple=int(node.number("scale", 1.0) != 1.0))
    return (ROTATE + scaled) * (n_vectors * rotated)


@register("GemmaRotaryEmbedding", domain=MICROSOFT)
def gemma_rotary(node: Node) -> Cost:
    """Sine and cosine of each angle, then 3 operations for each element of both."""
    n = node.input(1).n_elements + node.input(3).n_elements
    return ROTATE * n + Cost(functions=2 * node.input(0).n_elements)


@register("RelativePositionBias", domain=MICROSOFT, not_weights=(1, 2))
def relative_bias(node: Node) -> Cost:
    """The bucket of each distance: difference, sign, comparison, log, factor, rounding.

    Another comparison keeps it in the table: 6 operations and a function for each pair of
    positions, whatever the heads.
    """
    n = node.output.shape[2] * node.output.shape[3]
    return Cost(simple=6 * n, functions=n)


@register("GatedRelativePositionBias", domain=MICROSOFT, not_weights=(2, 6))
def gated_bias(node: Node) -> Cost:
    """A gate for each head's query, then a product for each score.

    The bias of the query; its product with a matrix, another bias, sums of both halves;
    two sigmoids and 4 operations for the gate.
    """
    query, weights, bias = node.input(0), node.input(3), node.input(4)
    heads = node.integer("num_heads", 1)
    n_vectors = query.n_elements // max(query.shape[-1], 1) * heads
    columns = weights.shape[-1]
    halves = Cost(simple=max(columns - 2, 0))
    gate = Cost(macs=weights.n_elements, simple=bias.n_elements + 4) + halves + 2 * SIGMOID
    return gate * n_vectors + Cost(simple=query.n_elements + node.output.n_elements)


@register("RemovePadding", "RestorePadding", domain=MICROSOFT, not_weights=(1,))
def move_padding(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads its inputs and writes its outputs."""
    return NOTHING


@register(
    *("PackedSparseAttentionIndexer", "SparseAttentionIndexer"),
    domain=MICROSOFT,
    not_weights=tuple(range(4, 18)),
)
def index_keys(node: Node) -> Cost:
    """Normalise and rotate the queries, score them against every entry, select the best.

    A score is head width multiply-adds for each head, a comparison with 0, a sum, and a
    weight where heads have one; then the entries of a query are sorted. Entries are all
    that the state has room for (an upper bound); what it takes to make them is left out.
    """
    is_packed = node.op_type.startswith("Packed")
    query = node.input(0)
    keys = node.input(12 if is_packed else 7)
    entries, width = keys.shape[1], keys.shape[2]
    blockwise = is_blockwise(node)
    if not blockwise and not is_packed:
        entries = -(-(entries + query.shape[1]) // max(node.integer("compress_ratio", 1), 1))
    n_tokens = query.n_elements // max(query.shape[-1], 1)
    heads = query.shape[-1] // max(width, 1) - (0 if node.has(1) else 1)
    n_scores = n_tokens * heads * entries
    work = rms_norm_cost(n_tokens * heads, width, 1) + ROTATE * (n_tokens * heads * width)
    work += Cost(macs=n_scores * width, simple=(3 if blockwise else 2) * n_scores)
    return work + Cost(simple=n_tokens * sort_comparisons(entries))
