"""ONNX Runtime's normalisations, with what is fused into them.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import FLOAT32, INT32
from mansard.estimator.shapes.checks import check_length, check_rank
from mansard.estimator.shapes.contrib_parts import MICROSOFT, required, same_as_first
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape


@rule("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_normalization(node: Node) -> Sequence[Spec]:
    """The normalised sum, mean and reciprocal deviation of its rows, and the sum itself."""
    data, skip = node.input(0), node.input(1)
    width = data.shape[-1]
    if skip.shape not in (data.shape, (1, *data.shape[1:]), data.shape[1:]):
        raise node.error(f"skip {list(skip.shape)} does not fit {list(data.shape)}")
    for position in range(2, len(node.inputs)):
        check_length(node, position, width, "columns")
    rows = (FLOAT32, (*data.shape[:-1], 1))
    return [same(data), rows, rows, same(data)]


@rule("SimplifiedLayerNormalization")
@rule("SimplifiedLayerNormalization", domain=MICROSOFT)
def _simplified_normalization(node: Node) -> Sequence[Spec]:
    """The output has the scale's type; the reciprocal root that of the intermediates."""
    data, scale = node.input(0), node.input(1)
    axis = data.axis(node.integer("axis", -1))
    return [
        (scale.dtype, data.shape),
        (FLOAT32, (*data.shape[:axis], *(1,) * (data.rank - axis))),
    ]


@rule("QOrderedLayerNormalization", domain=MICROSOFT)
def _ordered_normalization(node: Node) -> Sequence[Spec]:
    node.input(0).axis(node.integer("axis", -1))
    return same_as_first(node)


def group_rows(node: Node) -> tuple[int, int]:
    """(rows, elements of a row) of a GroupNorm: a row is one group of one image."""
    data, groups = node.input(0), required(node, "groups")
    check_rank(node, 0, 3, 4)
    channels = data.shape[-1 if node.integer("channels_last", 1) else 1]
    if channels % groups:
        raise node.error(f"{channels} channels do not divide into {groups} groups")
    check_length(node, 1, channels, "channels")
    check_length(node, 2, channels, "channels")
    rows = data.shape[0] * groups
    return rows, data.n_elements // max(rows, 1)


@rule("GroupNorm", domain=MICROSOFT)
def _group_norm(node: Node) -> Sequence[Spec]:
    group_rows(node)
    return same_as_first(node)


@rule("SkipGroupNorm", domain=MICROSOFT)
def _skip_group_norm(node: Node) -> Sequence[Spec]:
    """The normalised sum, and the sum itself."""
    group_rows(node)
    node.input(3)
    return [same(node.input(0))] * 2


def branches(node: Node) -> tuple[Shape, int, int]:
    """(outer dimensions, branches, width of one) of [..., branches, width] or flattened."""
    shape, n = node.input(0).shape, node.integer("num_branches", 0)
    if n > 0:
        if shape[-1] % n:
            raise node.error(f"{shape[-1]} columns do not divide into {n} branches")
        return shape[:-1], n, shape[-1] // n
    if len(shape) < 2:
        raise node.error(f"needs [..., branches, width], the input is {list(shape)}")
    return shape[:-2], shape[-2], shape[-1]


@rule("BranchwiseRMSNorm", domain=MICROSOFT)
def _branchwise_norm(node: Node) -> Sequence[Spec]:
    branches(node)
    return same_as_first(node)


@rule("HyperConnectionPreMix", domain=MICROSOFT)
def _pre_mix(node: Node) -> Sequence[Spec]:
    outer, _, width = branches(node)
    node.input(1)
    return [(node.input(0).dtype, (*outer, width))]


@rule("HyperConnectionPostMix", domain=MICROSOFT)
def _post_mix(node: Node) -> Sequence[Spec]:
    branches(node)
    node.input(2)
    return same_as_first(node)


@rule("GatedRMSNorm", domain=MICROSOFT)
def _gated_norm(node: Node) -> Sequence[Spec]:
    data, scale, gate = node.input(0), node.input(1), node.input(2)
    width = scale.n_elements
    if not width or data.shape[-1] % width or gate.shape != data.shape:
        raise node.error(
            f"scale {list(scale.shape)} or gate {list(gate.shape)} does not fit {list(data.shape)}"
        )
    return [same(data)]


@rule("EngramGate", domain=MICROSOFT)
def _engram_gate(node: Node) -> Sequence[Spec]:
    """Keys and queries [batch, steps, streams, width], values [batch, steps, width]."""
    key, query, value = node.input(0), node.input(1), node.input(2)
    check_rank(node, 0, 4)
    if query.shape != key.shape or value.shape != (*key.shape[:2], key.shape[3]):
        raise node.error(
            f"keys {list(key.shape)}, queries {list(query.shape)} and values "
            f"{list(value.shape)} do not go together"
        )
    return [(value.dtype, key.shape)] * 2


@rule("EmbedLayerNormalization", domain=MICROSOFT)
def _embed(node: Node) -> Sequence[Spec]:
    """[batch, steps, width], how long each sequence is, and the sum before normalisation."""
    ids, words = node.input(0), node.input(2)
    check_rank(node, 0, 2)
    shape = (*ids.shape, words.shape[-1])
    return [(words.dtype, shape), (INT32, ids.shape[:1]), (words.dtype, shape)]


@rule("QEmbedLayerNormalization", domain=MICROSOFT)
def _quantized_embed(node: Node) -> Sequence[Spec]:
    """As EmbedLayerNormalization of 8-bit tables; the result is a float."""
    ids, words = node.input(0), node.input(2)
    check_rank(node, 0, 2)
    dtype = node.input(8).dtype
    return [(dtype, (*ids.shape, words.shape[-1])), (INT32, ids.shape[:1])]
