"""ONNX Runtime's normalisations, with what is fused into them.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.numbers import FLOAT32, INT32
from mansard.estimator.operators.contrib.parts import microsoft, microsoft_shape, required
from mansard.estimator.operators.costs import DEQUANTIZE, QUANTIZE, SIGMOID, SILU, reads_only, rows
from mansard.estimator.operators.normalization import layer_norm_cost, rms_norm_cost, trailing_width
from mansard.estimator.operators.registry import Specs, operator
from mansard.estimator.operators.shapes import check_length, check_rank, same, same_as_first
from mansard.estimator.tensors import Node, Shape


def _skip_normalization_shape(node: Node) -> Specs:
    """The normalised sum, mean and reciprocal deviation of its rows, and the sum itself."""
    data, skip = node.input(0), node.input(1)
    width = data.shape[-1]
    if skip.shape not in (data.shape, (1, *data.shape[1:]), data.shape[1:]):
        raise node.error(f"skip {list(skip.shape)} does not fit {list(data.shape)}")
    for position in range(2, len(node.inputs)):
        check_length(node, position, width, "columns")
    rows = (FLOAT32, (*data.shape[:-1], 1))
    return [same(data), rows, rows, same(data)]


@microsoft("SkipLayerNormalization", shape=_skip_normalization_shape)
def skip_layer_normalization(node: Node) -> Cost:
    """1 for the sum, 1 for a bias, then as LayerNormalization with scale and bias."""
    n, width = node.output.n_elements, node.output.shape[-1]
    return Cost(simple=(1 + node.has(4)) * n) + layer_norm_cost(n, width, 1 + node.has(3))


@microsoft("SkipSimplifiedLayerNormalization", shape=_skip_normalization_shape)
def skip_rms_normalization(node: Node) -> Cost:
    """1 for the sum, 1 for a bias, then as RMSNormalization."""
    n, width = node.output.n_elements, node.output.shape[-1]
    return Cost(simple=(1 + node.has(3)) * n) + rms_norm_cost(n, width, 1)


def _simplified_normalization_shape(node: Node) -> Specs:
    """The output has the scale's type; the reciprocal root that of the intermediates."""
    data, scale = node.input(0), node.input(1)
    axis = data.axis(node.integer("axis", -1))
    return [(scale.dtype, data.shape), (FLOAT32, (*data.shape[:axis], *(1,) * (data.rank - axis)))]


@operator("SimplifiedLayerNormalization", shape=_simplified_normalization_shape)
@microsoft("SimplifiedLayerNormalization", shape=_simplified_normalization_shape)
def simplified_layer_normalization(node: Node) -> Cost:
    """As RMSNormalization with a scale."""
    return rms_norm_cost(node.input(0).n_elements, trailing_width(node), 1)


def _ordered_normalization_shape(node: Node) -> Specs:
    node.input(0).axis(node.integer("axis", -1))
    return same_as_first(node)


@microsoft("QOrderedLayerNormalization", shape=_ordered_normalization_shape, not_weights=(1, 4))
def ordered_normalization(node: Node) -> Cost:
    """As LayerNormalization; a factor 1, quantise 5."""
    n = node.input(0).n_elements
    work = (Cost(simple=1) + QUANTIZE) * n
    return work + layer_norm_cost(n, trailing_width(node), 1 + node.has(3))


def _group_width(node: Node) -> int:
    """Elements of a row of a GroupNorm: a row is one group of one image."""
    data, groups = check_rank(node, 0, 3, 4), required(node, "groups")
    channels = data.shape[-1 if node.integer("channels_last", 1) else 1]
    if channels % groups:
        raise node.error(f"{channels} channels do not divide into {groups} groups")
    check_length(node, 1, channels, "channels")
    check_length(node, 2, channels, "channels")
    return data.n_elements // max(data.shape[0] * groups, 1)


def group_norm(node: Node) -> Cost:
    """As GroupNormalization; 1 for ``skip``, 1 for a bias, SiLU 4 and a function."""
    n = node.input(0).n_elements
    sums = (node.has(3) + node.has(4)) if node.op_type == "SkipGroupNorm" else 0
    behind = SILU * n if node.integer("activation", 0) else Cost()
    return Cost(simple=sums * n) + layer_norm_cost(n, _group_width(node), 2) + behind


@microsoft_shape("GroupNorm", cost=group_norm)
def _group_norm_shape(node: Node) -> Specs:
    _group_width(node)
    return same_as_first(node)


@microsoft_shape("SkipGroupNorm", cost=group_norm)
def _skip_group_norm_shape(node: Node) -> Specs:
    """The normalised sum, and the sum itself."""
    _group_width(node)
    node.input(3)
    return [same(node.input(0))] * 2


def _branches(node: Node) -> tuple[Shape, int, int]:
    """(outer dimensions, branches, width of one) of [..., branches, width] or flattened."""
    shape, n = node.input(0).shape, node.integer("num_branches", 0)
    if n > 0:
        if shape[-1] % n:
            raise node.error(f"{shape[-1]} columns do not divide into {n} branches")
        return shape[:-1], n, shape[-1] // n
    if len(shape) < 2:
        raise node.error(f"needs [..., branches, width], the input is {list(shape)}")
    return shape[:-2], shape[-2], shape[-1]


def _branchwise_norm_shape(node: Node) -> Specs:
    _branches(node)
    return same_as_first(node)


@microsoft("BranchwiseRMSNorm", shape=_branchwise_norm_shape)
def branchwise_norm(node: Node) -> Cost:
    """As RMSNormalization; a row is one branch."""
    return rms_norm_cost(node.input(0).n_elements, _branches(node)[2], int(node.has(1)))


def _pre_mix_shape(node: Node) -> Specs:
    outer, _, width = _branches(node)
    node.input(1)
    return [(node.input(0).dtype, (*outer, width))]


@microsoft("HyperConnectionPreMix", shape=_pre_mix_shape)
def pre_mix(node: Node) -> Cost:
    """1 product for each element, sums over branches, a factor other than 1."""
    n, n_outputs = node.input(0).n_elements, node.output.n_elements
    scaled = n_outputs if node.number("reduction_scale", 1.0) != 1.0 else 0
    return Cost(simple=max(2 * n - n_outputs, 0) + scaled)


def _post_mix_shape(node: Node) -> Specs:
    _branches(node)
    node.input(2)
    return same_as_first(node)


@microsoft("HyperConnectionPostMix", shape=_post_mix_shape, not_weights=(2, 3))
def post_mix(node: Node) -> Cost:
    """2 operations for each element, and as many multiply-adds as there are branches."""
    n = node.output.n_elements
    return Cost(macs=n * _branches(node)[1] if node.has(3) else 0, simple=2 * n)


def _gated_norm_shape(node: Node) -> Specs:
    data, scale, gate = node.input(0), node.input(1), node.input(2)
    width = scale.n_elements
    if not width or data.shape[-1] % width or gate.shape != data.shape:
        raise node.error(
            f"scale {list(scale.shape)} or gate {list(gate.shape)} does not fit {list(data.shape)}"
        )
    return [same(data)]


@microsoft("GatedRMSNorm", shape=_gated_norm_shape)
def gated_norm(node: Node) -> Cost:
    """RMSNormalization times the gate's sigmoid or SiLU."""
    n, width = node.output.n_elements, node.input(1).n_elements
    gate = SIGMOID if node.text("activation", "silu") == "sigmoid" else SILU
    return rms_norm_cost(n, width, 1) + (gate + Cost(simple=1)) * n


def _engram_gate_shape(node: Node) -> Specs:
    """Keys and queries [batch, steps, streams, width], values [batch, steps, width]."""
    key, query, value = check_rank(node, 0, 4), node.input(1), node.input(2)
    if query.shape != key.shape or value.shape != (*key.shape[:2], key.shape[3]):
        raise node.error(
            f"keys {list(key.shape)}, queries {list(query.shape)} and values "
            f"{list(value.shape)} do not go together"
        )
    return [(value.dtype, key.shape)] * 2


@microsoft("EngramGate", shape=_engram_gate_shape)
def engram_gate(node: Node) -> Cost:
    """RMSNormalization of keys and queries, their dot product, the gate, gate times values.

    The gate of a row: 5 operations, a root and a sigmoid. RMSNormalization of the result if
    requested.
    """
    key = node.input(0)
    n, width = key.n_elements, key.shape[-1]
    n_rows = rows(n, width)
    work = 2 * rms_norm_cost(n, width, 1) + Cost(simple=2 * n - n_rows)
    work += (Cost(simple=5, functions=1) + SIGMOID) * n_rows + Cost(simple=n)
    if len(node.output_names) > 1 and node.output_names[1]:
        work += rms_norm_cost(n, width, 1)
    return work


def _embed_shape(node: Node) -> Specs:
    """[batch, steps, width], how long each sequence is, and the sum before normalisation."""
    ids, words = check_rank(node, 0, 2), node.input(2)
    shape = (*ids.shape, words.shape[-1])
    return [(words.dtype, shape), (INT32, ids.shape[:1]), (words.dtype, shape)]


def _embedded_bytes(node: Node, precision: Precision | None) -> int:
    """Of tables the selected rows."""
    return reads_only(node, precision, dict.fromkeys((2, 3, 4), node.output.n_elements))


@microsoft(
    "EmbedLayerNormalization", shape=_embed_shape, not_weights=(0, 1, 7, 8), reads=_embedded_bytes
)
def embed(node: Node) -> Cost:
    """Sum of two or three embeddings, then as LayerNormalization; 1 for each mask element."""
    n, width, mask = node.output.n_elements, node.output.shape[-1], node.optional(7)
    counted = 0 if mask is None else mask.n_elements
    return Cost(simple=(1 + node.has(4)) * n + counted) + layer_norm_cost(n, width, 2)


def _quantized_embed_shape(node: Node) -> Specs:
    """As EmbedLayerNormalization of 8-bit tables; the result is a float."""
    ids, words = check_rank(node, 0, 2), node.input(2)
    dtype = node.input(8).dtype
    return [(dtype, (*ids.shape, words.shape[-1])), (INT32, ids.shape[:1])]


@microsoft(
    "QEmbedLayerNormalization",
    shape=_quantized_embed_shape,
    not_weights=(0, 1, *range(7, 18)),
    reads=_embedded_bytes,
)
def quantized_embed(node: Node) -> Cost:
    """As EmbedLayerNormalization; dequantisation 2."""
    n, width = node.output.n_elements, node.output.shape[-1]
    return embed(node) + DEQUANTIZE * ((2 + node.has(4)) * n + 2 * width)
