"""ONNX Runtime's normalisations, with what is fused into them.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.formulas.contrib_parts import (
    DEQUANTIZE,
    QUANTIZE,
    SIGMOID,
    SILU,
    reads_only,
    rows,
)
from mansard.estimator.formulas.normalization import layer_norm_cost, rms_norm_cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_normalization import branches, group_rows
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.tensors import Node


@register("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: Node) -> Cost:
    """An addition and one for a bias, then layer normalisation with scale and shift."""
    n, width = node.output.n_elements, node.output.shape[-1]
    sums = Cost(simple=(1 + node.has(4)) * n)
    return sums + layer_norm_cost(rows(n, width), width, 1 + node.has(3))


@register("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_normalization(node: Node) -> Cost:
    """An addition and one for a bias, then RMS normalisation with a scale."""
    n, width = node.output.n_elements, node.output.shape[-1]
    return Cost(simple=(1 + node.has(3)) * n) + rms_norm_cost(rows(n, width), width, 1)


@register("SimplifiedLayerNormalization")
@register("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(node: Node) -> Cost:
    """As RMSNormalization with a scale."""
    data = node.input(0)
    width = math.prod(data.shape[data.axis(node.integer("axis", -1)) :])
    return rms_norm_cost(rows(data.n_elements, width), width, 1)


@register("QOrderedLayerNormalization", domain=MICROSOFT, not_weights=(1, 4))
def ordered_normalization(node: Node) -> Cost:
    """A factor for each element, layer normalisation, quantise (5)."""
    data = node.input(0)
    width = math.prod(data.shape[data.axis(node.integer("axis", -1)) :])
    n = data.n_elements
    each = Cost(simple=1) + QUANTIZE
    return each * n + layer_norm_cost(rows(n, width), width, 1 + node.has(3))


@register("GroupNorm", "SkipGroupNorm", domain=MICROSOFT)
def group_norm(node: Node) -> Cost:
    """A row is one group of one image: layer normalisation with scale and shift.

    Before it the sum with ``skip`` and a bias; behind it SiLU (4 operations and a
    function) where ``activation`` asks for it.
    """
    n = node.input(0).n_elements
    sums = (node.has(3) + node.has(4)) if node.op_type == "SkipGroupNorm" else 0
    behind = SILU * n if node.integer("activation", 0) else Cost()
    return Cost(simple=sums * n) + layer_norm_cost(*group_rows(node), 2) + behind


@register("BranchwiseRMSNorm", domain=MICROSOFT)
def branchwise_norm(node: Node) -> Cost:
    """As RMSNormalization; a row is one branch."""
    _, _, width = branches(node)
    n = node.input(0).n_elements
    return rms_norm_cost(rows(n, width), width, int(node.has(1)))


@register("GatedRMSNorm", domain=MICROSOFT)
def gated_norm(node: Node) -> Cost:
    """RMS normalisation with a scale, times the sigmoid or SiLU of the gate."""
    n, width = node.output.n_elements, node.input(1).n_elements
    gate = SIGMOID if node.text("activation", "silu") == "sigmoid" else SILU
    return rms_norm_cost(rows(n, width), width, 1) + (gate + Cost(simple=1)) * n


@register("EngramGate", domain=MICROSOFT)
def engram_gate(node: Node) -> Cost:
    """RMS normalisation of keys and queries with their scales, their product's sum.

    For each row: a factor, absolute value, maximum, root, sign and its product, a
    sigmoid; then the values times the gate, and RMS normalisation of that if asked for.
    """
    key = node.input(0)
    n, width = key.n_elements, key.shape[-1]
    n_rows = rows(n, width)
    work = 2 * rms_norm_cost(n_rows, width, 1) + Cost(simple=2 * n - n_rows)
    work += (Cost(simple=5, functions=1) + SIGMOID) * n_rows + Cost(simple=n)
    if len(node.output_names) > 1 and node.output_names[1]:
        work += rms_norm_cost(n_rows, width, 1)
    return work


@register("HyperConnectionPreMix", domain=MICROSOFT)
def pre_mix(node: Node) -> Cost:
    """A product for each element, sums over the branches, a factor where it is not 1."""
    n, n_outputs = node.input(0).n_elements, node.output.n_elements
    scaled = n_outputs if node.number("reduction_scale", 1.0) != 1.0 else 0
    return Cost(simple=max(2 * n - n_outputs, 0) + scaled)


@register("HyperConnectionPostMix", domain=MICROSOFT, not_weights=(2, 3))
def post_mix(node: Node) -> Cost:
    """A product and a sum for each element; before it the branches times their matrix.

    That is as many multiply-adds for each element as there are branches.
    """
    _, n_branches, _ = branches(node)
    n = node.output.n_elements
    return Cost(macs=n * n_branches if node.has(3) else 0, simple=2 * n)


def _embedded_bytes(node: Node, precision: Precision | None) -> int:
    """Of each table only the rows that the ids name."""
    picked = node.output.n_elements
    return reads_only(node, precision, dict.fromkeys((2, 3, 4), picked))


def _n_tables(node: Node) -> int:
    return 2 + node.has(4)


@register(
    "EmbedLayerNormalization",
    domain=MICROSOFT,
    not_weights=(0, 1, 7, 8),
    reads=_embedded_bytes,
)
def embed(node: Node) -> Cost:
    """The sum of two or three embeddings, then layer normalisation with scale and shift.

    With a mask, a comparison for each of its elements. Of a table it reads only the rows
    that it adds.
    """
    n, width = node.output.n_elements, node.output.shape[-1]
    mask = node.optional(7)
    counted = 0 if mask is None else mask.n_elements
    sums = Cost(simple=(_n_tables(node) - 1) * n + counted)
    return sums + layer_norm_cost(rows(n, width), width, 2)


@register(
    "QEmbedLayerNormalization",
    domain=MICROSOFT,
    not_weights=(0, 1, *range(7, 18)),
    reads=_embedded_bytes,
)
def quantized_embed(node: Node) -> Cost:
    """As EmbedLayerNormalization; rows of the tables, scale and shift are dequantised (2)."""
    n, width = node.output.n_elements, node.output.shape[-1]
    return embed(node) + DEQUANTIZE * (_n_tables(node) * n + 2 * width)
