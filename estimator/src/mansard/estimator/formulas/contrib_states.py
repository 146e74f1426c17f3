"""ONNX Runtime's layers that carry a state: linear attention, causal convolutions.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.contrib_parts import SIGMOID, activation_cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.shapes.contrib_states import StateSizes, delta_sizes, linear_sizes
from mansard.estimator.tensors import Node

_SOFTPLUS = Cost(simple=1, functions=2)


def _recurrence(node: Node, sizes: StateSizes, n_decays: int) -> Cost:
    """S = S + k ⊗ v, o = scale · qᵀ·S, step by step, for all tokens; see LinearAttention.

    With a state of d x e for each head, a step is d·e multiply-adds for k ⊗ v, and d·e
    and e factors for each head that answers. A decay is d·e products and an exp for each
    of its numbers; the delta rule d·e multiply-adds, e differences and e factors.
    """
    rule = node.text("update_rule", "gated_delta")
    d, e = sizes.width, sizes.v_width
    state = Cost(macs=d * e)
    if "gated" in rule and n_decays:
        state += Cost(simple=d * e, functions=n_decays)
    if "delta" in rule:
        state += Cost(macs=d * e, simple=2 * e)
    answers = Cost(macs=d * e, simple=e) * max(sizes.heads, sizes.kv_heads)
    return sizes.n_tokens * (state * sizes.kv_heads + answers)


@register("LinearAttention", domain=MICROSOFT, not_weights=(3, 4, 5), operands=(0, 1, 2))
def linear_attention(node: Node) -> Cost:
    """As ONNX's LinearAttention; there may be more heads of keys than of queries."""
    sizes, decay = linear_sizes(node), node.optional(4)
    n_decays = 0 if decay is None else decay.shape[-1] // sizes.kv_heads
    return _recurrence(node, sizes, n_decays)


@register("LinearAttentionGate", domain=MICROSOFT)
def attention_gate(node: Node) -> Cost:
    """scale · log(1 + exp(a + bias)): 3 operations and 2 functions; a sigmoid for ``b``."""
    n = node.input(0).n_elements
    gate = SIGMOID * n if node.has(3) else Cost()
    return (Cost(simple=2) + _SOFTPLUS) * n + gate


@register("GatedDeltaNet", domain=MICROSOFT, not_weights=(3, 4, 5, 6, 9, 10), operands=(0, 1, 2))
def gated_delta_net(node: Node) -> Cost:
    """As LinearAttention; normalised queries and keys, gates computed from their inputs.

    A vector of n: n squares, n - 1 additions, a root, n quotients. A decay of "qwen": exp
    of a weight, a sum, Softplus, a product, a sign. A rate by sigmoid.
    """
    sizes, decay, rate = delta_sizes(node), node.optional(4), node.optional(5)
    n_decays = 0 if decay is None else decay.n_elements // max(sizes.n_tokens * sizes.kv_heads, 1)
    work = _recurrence(node, sizes, n_decays)
    if node.integer("qk_l2_norm", 0):
        n_vectors = 2 * sizes.n_tokens * sizes.heads
        work += n_vectors * Cost(simple=3 * sizes.width - 1, functions=1)
    if node.text("gate_activation", "none") == "qwen" and decay is not None:
        work += (_SOFTPLUS + Cost(simple=3, functions=1)) * decay.n_elements
    if node.text("beta_activation", "none") == "sigmoid" and rate is not None:
        work += SIGMOID * rate.n_elements
    return work


@register("CausalConvWithState", domain=MICROSOFT, not_weights=(3,))
@register("VarlenCausalConvWithState", domain=MICROSOFT, not_weights=(2, 4, 5))
def causal_conv(node: Node) -> Cost:
    """As many multiply-adds for each element as its kernel has; a bias, an activation."""
    n = node.output.n_elements
    place = 2 if node.op_type == "CausalConvWithState" else 3
    taps = math.prod(node.input(1).shape[2:])
    work = Cost(macs=n * taps, simple=n if node.has(place) else 0)
    return work + activation_cost(node, "none") * n
