"""ONNX Runtime's position embeddings and biases, and padding that comes and goes.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.numbers import INT32
from mansard.estimator.operators.contrib.parts import (
    ROTATE,
    microsoft,
    microsoft_shape,
    required,
    split_heads,
)
from mansard.estimator.operators.costs import SIGMOID, reads_only
from mansard.estimator.operators.registry import Specs
from mansard.estimator.operators.shapes import check_rank, known_int, same, same_as_first
from mansard.estimator.tensors import Node


def _rotary_shape(node: Node) -> Specs:
    check_rank(node, 0, 3, 4)
    _rotary_sizes(node)
    return same_as_first(node)


def _table_rows(node: Node, precision: Precision | None) -> int:
    """Data, positions, a table row for each position."""
    n = node.input(1).n_elements
    data = node.input(0)
    if node.input(1).rank == 1:  # one position that the others follow
        n = data.shape[0] * data.shape[-2]
    picked = n * node.input(2).shape[-1]
    return reads_only(node, precision, {2: picked, 3: picked})


@microsoft(
    "MRotaryEmbedding",
    "RotaryEmbedding",
    shape=_rotary_shape,
    not_weights=(1, 2, 3),
    reads=_table_rows,
)
def rotary_embedding(node: Node) -> Cost:
    """3 operations for each rotated element, 1 for a factor."""
    n_vectors, _, rotated = _rotary_sizes(node)
    scaled = Cost(simple=int(node.number("scale", 1.0) != 1.0))
    return (ROTATE + scaled) * (n_vectors * rotated)


def _rotary_sizes(node: Node) -> tuple[int, int, int]:
    """(heads' vectors, width of one, how much of it is rotated)."""
    data, cosines = node.input(0), node.input(2)
    if cosines.rank != 2:
        raise node.error(f"the table of cosines {list(cosines.shape)} is not a matrix")
    rotated = node.integer("rotary_embedding_dim", 0) or 2 * cosines.shape[1]
    heads = node.integer("num_heads", 0)
    if data.rank == 4:
        width = data.shape[3]
    else:
        width = split_heads(node, data.shape[-1], heads) if heads > 0 else rotated
    if not 0 < rotated <= width or data.shape[-1] % width:
        raise node.error(f"{list(data.shape)} has no heads of which {rotated} can be rotated")
    return data.n_elements // width, width, rotated


def _gemma_rotary_shape(node: Node) -> Specs:
    """Rotated queries and keys; the rotation of halves was prepared before."""
    query, key = node.input(1), node.input(3)
    for position, other in ((2, query), (4, key)):
        if node.input(position).shape != other.shape:
            raise node.error(f"{node.input(position).name!r} is not of shape {list(other.shape)}")
    return [same(query), same(key)]


@microsoft("GemmaRotaryEmbedding", shape=_gemma_rotary_shape)
def gemma_rotary(node: Node) -> Cost:
    """Sine and cosine of each angle, 3 operations for each element."""
    n = node.input(1).n_elements + node.input(3).n_elements
    return ROTATE * n + Cost(functions=2 * node.input(0).n_elements)


def _relative_bias_shape(node: Node) -> Specs:
    """[1, heads, queries, keys] from a table [buckets, heads]."""
    table = check_rank(node, 0, 2)
    node.input(2)
    return [(table.dtype, (1, table.shape[1], known_int(node, 1), known_int(node, 2)))]


@microsoft("RelativePositionBias", shape=_relative_bias_shape, not_weights=(1, 2))
def relative_bias(node: Node) -> Cost:
    """6 operations and a function for each pair of positions."""
    n = node.output.shape[2] * node.output.shape[3]
    return Cost(simple=6 * n, functions=n)


def _gated_bias_shape(node: Node) -> Specs:
    """[batch, heads, steps, steps] for queries [batch, steps, width] or packed tokens."""
    query, heads = check_rank(node, 0, 2, 3), required(node, "num_heads")
    batch, steps = (node.input(6) if query.rank == 2 else query).shape[:2]
    return [(query.dtype, (batch, heads, steps, steps))]


@microsoft("GatedRelativePositionBias", shape=_gated_bias_shape, not_weights=(2, 6))
def gated_bias(node: Node) -> Cost:
    """1 product for each score; a gate for each query.

    The gate: bias, matrix product, bias, two sums, two sigmoids, 4 operations.
    """
    query, weights, bias = node.input(0), node.input(3), node.input(4)
    heads = node.integer("num_heads", 1)
    n_vectors = query.n_elements // max(query.shape[-1], 1) * heads
    columns = weights.shape[-1]
    halves = Cost(simple=max(columns - 2, 0))
    gate = Cost(macs=weights.n_elements, simple=bias.n_elements + 4) + halves + 2 * SIGMOID
    return gate * n_vectors + Cost(simple=query.n_elements + node.output.n_elements)


def move_padding(node: Node) -> Cost:  # noqa: ARG001
    """No work."""
    return NOTHING


@microsoft_shape("RemovePadding", cost=move_padding, not_weights=(1,))
def _remove_padding_shape(node: Node) -> Specs:
    """How many tokens remain depends on the lengths of the sequences."""
    data, counts = check_rank(node, 0, 3), node.input(1)
    batch, steps, width = data.shape
    n_tokens = None if counts.value is None else sum(counts.value.flat)
    return [
        (data.dtype, (n_tokens, width)),
        (INT32, (batch, steps)),
        (INT32, (batch + 1,)),
        (INT32, (1,)),
    ]


@microsoft_shape("RestorePadding", cost=move_padding, not_weights=(1,))
def _restore_padding_shape(node: Node) -> Specs:
    data, offsets = check_rank(node, 0, 2), check_rank(node, 1, 2)
    return [(data.dtype, (*offsets.shape, data.shape[1]))]
