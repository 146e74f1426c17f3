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

    For each score: the scale, the mask where there is one, and a softmax's 5 operations.
    """
    batch, heads, _, n_q, n_kv, width, v_width = attention_sizes(node)
    scores = batch * heads * n_q * n_kv
    is_masked = node.has(3) or node.integer("is_causal", 0)
    return Cost(
        macs=scores * (width + v_width),
        simple=scores * (6 if is_masked else 5),
        functions=scores,
    )


@register("RotaryEmbedding", not_weights=(1, 2, 3))
def rotary_embedding(node: Node) -> Cost:
    """Two multiplications and an addition for each element."""
    return Cost(simple=3 * node.output.n_elements)
