"""Mixtures of experts: each token runs through k of them.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md (MoE, QMoE)
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mansard.estimator.shapes.contrib_parts import MICROSOFT, same_as_first
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "identity")


class ExpertSizes(msgspec.Struct, frozen=True):
    """Sizes of a mixture. ``first_width``: rows of the first product, both halves of a gate."""

    n_tokens: int
    n_experts: int
    n_chosen: int
    hidden: int
    inner: int
    first_width: int
    has_third: bool


def expert_sizes(node: Node) -> ExpertSizes:
    """Sizes from the inputs; raises ModelError where they contradict."""
    is_quantized = node.op_type == "QMoE"
    data, router = node.input(0), node.input(1)
    first, second = node.input(2), node.input(5 if is_quantized else 4)
    third = node.optional(8 if is_quantized else 6)
    if data.rank not in (2, 3) or router.rank != 2 or first.rank != 3 or second.rank != 3:
        raise node.error("needs tokens, a router's matrix and weights of 3 dimensions")
    hidden = data.shape[-1]
    n_tokens = data.n_elements // max(hidden, 1)
    n_experts, first_width = first.shape[0], first.shape[1]
    is_gated = node.text("activation_type", "relu") == "swiglu"
    inner = first_width // 2 if is_gated and third is None else first_width
    n_chosen = node.integer("k", 1)
    if (
        router.shape != (n_tokens, n_experts)
        or second.shape[:2] != (n_experts, hidden)
        or not 0 < n_chosen <= max(n_experts, 1)
    ):
        raise node.error(
            f"tokens {list(data.shape)}, router {list(router.shape)}, weights "
            f"{list(first.shape)} and {list(second.shape)} do not go together"
        )
    return ExpertSizes(n_tokens, n_experts, n_chosen, hidden, inner, first_width, third is not None)


@rule("MoE", "QMoE", domain=MICROSOFT)
def _experts(node: Node) -> Sequence[Spec]:
    if node.text("activation_type", "relu") not in ACTIVATIONS:
        raise node.error(f"attribute 'activation_type' does not exist: {ACTIVATIONS}")
    expert_sizes(node)
    return same_as_first(node)
