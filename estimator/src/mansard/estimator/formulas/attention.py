"""Fused attention, composed of its matrix products and its softmax.

https://onnx.ai/onnx/operators/onnx__Attention.html, …__RotaryEmbedding, …__LinearAttention,
…_aionnxpreview_FlexAttention
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.normalization import softmax_cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.attention import (
    AttentionSizes,
    attention_sizes,
    linear_attention_sizes,
)
from mansard.estimator.tensors import Node


def products_and_softmax(sizes: AttentionSizes) -> Cost:
    """Q·Kᵀ, a factor for each score, softmax of each query's row, and its product with V."""
    scores = sizes.n_scores
    rows = scores // sizes.n_keys if sizes.n_keys else 0
    products = Cost(macs=scores * (sizes.width + sizes.v_width), simple=scores)
    return products + softmax_cost(rows, sizes.n_keys)


@register("Attention", not_weights=(3, 4, 5, 6))
def attention(node: Node) -> Cost:
    """softmax(scale · Q·Kᵀ + mask)·V over the full square: a mask saves no work.

    For each score: a factor, the mask where there is one (given, causal or a window), and
    softmax (4·n - 2 operations and n functions for a row of n); a cap (cap · tanh(score /
    cap)) is two operations and a function more.
    """
    sizes = attention_sizes(node)
    windows = (node.integer("left_window_size", -1), node.integer("right_window_size", -1))
    is_masked = node.has(3) or node.has(6) or node.integer("is_causal", 0) or max(windows) >= 0
    work = products_and_softmax(sizes) + Cost(simple=sizes.n_scores if is_masked else 0)
    if node.number("softcap", 0.0) != 0.0:
        work += sizes.n_scores * Cost(simple=2, functions=1)
    return work


@register("FlexAttention", domain="ai.onnx.preview")
def flex_attention(node: Node) -> Cost:
    """softmax(scale · Q·Kᵀ)·V; the graphs that change scores count for themselves."""
    return products_and_softmax(attention_sizes(node))


@register("RotaryEmbedding", not_weights=(1, 2, 3))
def rotary_embedding(node: Node) -> Cost:
    """Two multiplications and an addition for each element that is rotated."""
    data, rotated = node.input(0), node.integer("rotary_embedding_dim", 0)
    if not rotated:
        return Cost(simple=3 * data.n_elements)
    width = data.shape[-1] // (node.integer("num_heads", 1) if data.rank == 3 else 1)
    return Cost(simple=3 * (data.n_elements // max(width, 1)) * rotated)


@register("LinearAttention", not_weights=(3, 4, 5), operands=(0, 1, 2))
def linear_attention(node: Node) -> Cost:
    """The recurrence S = S + k ⊗ v, o = scale · qᵀ·S, step by step as it is defined.

    With a state of d x e for each key head, a step of it is d·e multiply-adds for k ⊗ v,
    each query head d·e for q·S and e factors. A decay is d·e products and an exp for each
    of its numbers; the delta rule reads S by d·e multiply-adds, then takes e differences
    and e factors. A chunked form does other work for the same result.
    """
    sizes = linear_attention_sizes(node)
    rule = node.text("update_rule", "gated_delta")
    d, e = sizes.width, sizes.v_width
    state = Cost(macs=d * e)
    if "gated" in rule and node.has(4):
        n_decays = node.input(4).shape[-1] // sizes.kv_heads
        state += Cost(simple=d * e, functions=n_decays)
    if "delta" in rule:
        state += Cost(macs=d * e, simple=2 * e)
    query = Cost(macs=d * e, simple=e)
    return sizes.batch * sizes.n_steps * (state * sizes.kv_heads + query * sizes.heads)
