"""Fused attention, composed of its matrix products and its softmax.

https://onnx.ai/onnx/operators/onnx__Attention.html
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contraction import attention_sizes
from mansard.estimator.tensors import Node


@register("Attention", not_weights=(3, 4, 5, 6))
def attention(node: Node) -> Cost:
    """softmax(scale · Q·Kᵀ + mask)·V over the full square: a causal mask saves no work.

    For each score: the scale, the mask where there is one, and a softmax's 5 operations;
    a cap (cap · tanh(score / cap)) is two operations and a function more.
    """
    batch, heads, _, n_q, n_kv, width, v_width = attention_sizes(node)
    scores = batch * heads * n_q * n_kv
    is_masked = node.has(3) or node.integer("is_causal", 0)
    each = Cost(macs=width + v_width, simple=6 if is_masked else 5, functions=1)
    if node.number("softcap", 0.0) != 0.0:
        each += Cost(simple=2, functions=1)
    return scores * each


@register("RotaryEmbedding", not_weights=(1, 2, 3))
def rotary_embedding(node: Node) -> Cost:
    """Two multiplications and an addition for each element that is rotated."""
    data, rotated = node.input(0), node.integer("rotary_embedding_dim", 0)
    if not rotated:
        return Cost(simple=3 * data.n_elements)
    width = data.shape[-1] // (node.integer("num_heads", 1) if data.rank == 3 else 1)
    return Cost(simple=3 * (data.n_elements // max(width, 1)) * rotated)
