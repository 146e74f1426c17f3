"""ONNX Runtime's position embeddings and biases, and padding that comes and goes.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import INT32
from mansard.estimator.shapes.checks import check_rank, known_int
from mansard.estimator.shapes.contrib_parts import MICROSOFT, required, same_as_first, split_heads
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


@rule("MRotaryEmbedding", "RotaryEmbedding", domain=MICROSOFT)
def _rotary(node: Node) -> Sequence[Spec]:
    check_rank(node, 0, 3, 4)
    rotary_sizes(node)
    return same_as_first(node)


def rotary_sizes(node: Node) -> tuple[int, int, int]:
    """(heads' vectors, width of one, how much of it is rotated)."""
    data, cosines = node.input(0), node.input(2)
    if cosines.rank != 2:
        raise node.error(f"the table of cosines {list(cosines.shape)} is no matrix")
    rotated = node.integer("rotary_embedding_dim", 0) or 2 * cosines.shape[1]
    heads = node.integer("num_heads", 0)
    if data.rank == 4:
        width = data.shape[3]
    else:
        width = split_heads(node, data.shape[-1], heads) if heads > 0 else rotated
    if not 0 < rotated <= width or data.shape[-1] % width:
        raise node.error(f"{list(data.shape)} has no heads of which {rotated} can be rotated")
    return data.n_elements // width, width, rotated


@rule("GemmaRotaryEmbedding", domain=MICROSOFT)
def _gemma_rotary(node: Node) -> Sequence[Spec]:
    """Rotated queries and keys; the rotation of halves was prepared before."""
    query, key = node.input(1), node.input(3)
    for position, other in ((2, query), (4, key)):
        if node.input(position).shape != other.shape:
            raise node.error(f"{node.input(position).name!r} is not of shape {list(other.shape)}")
    return [same(query), same(key)]


@rule("RelativePositionBias", domain=MICROSOFT)
def _relative_bias(node: Node) -> Sequence[Spec]:
    """[1, heads, queries, keys] from a table [buckets, heads]."""
    table = node.input(0)
    check_rank(node, 0, 2)
    node.input(2)
    return [(table.dtype, (1, table.shape[1], known_int(node, 1), known_int(node, 2)))]


@rule("GatedRelativePositionBias", domain=MICROSOFT)
def _gated_bias(node: Node) -> Sequence[Spec]:
    """[batch, heads, steps, steps] for queries [batch, steps, width] or packed tokens."""
    query, heads = node.input(0), required(node, "num_heads")
    check_rank(node, 0, 2, 3)
    batch, steps = (node.input(6) if query.rank == 2 else query).shape[:2]
    return [(query.dtype, (batch, heads, steps, steps))]


@rule("RemovePadding", domain=MICROSOFT)
def _remove_padding(node: Node) -> Sequence[Spec]:
    """How many tokens remain depends on the lengths of the sequences."""
    data, counts = node.input(0), node.input(1)
    check_rank(node, 0, 3)
    batch, steps, width = data.shape
    n_tokens = None if counts.value is None else sum(counts.value.flat)
    return [
        (data.dtype, (n_tokens, width)),
        (INT32, (batch, steps)),
        (INT32, (batch + 1,)),
        (INT32, (1,)),
    ]


@rule("RestorePadding", domain=MICROSOFT)
def _restore_padding(node: Node) -> Sequence[Spec]:
    data, offsets = node.input(0), node.input(1)
    check_rank(node, 0, 2)
    check_rank(node, 1, 2)
    return [(data.dtype, (*offsets.shape, data.shape[1]))]
