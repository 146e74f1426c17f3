"""Mixtures of experts: each token runs through k of them.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md (MoE, QMoE)
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.operators.contrib.parts import microsoft, named_activation
from mansard.estimator.operators.costs import DEQUANTIZE, SIGMOID
from mansard.estimator.operators.normalization import softmax_cost
from mansard.estimator.operators.registry import Specs
from mansard.estimator.operators.shapes import same_as_first
from mansard.estimator.tensors import Node, Tensor

_ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "identity")


class _ExpertSizes(msgspec.Struct, frozen=True):
    """Sizes of a mixture. ``first_width``: rows of the first product, both halves of a gate."""

    n_tokens: int
    n_experts: int
    n_chosen: int
    hidden: int
    inner: int
    first_width: int
    has_third: bool


def _expert_sizes(node: Node) -> _ExpertSizes:
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
    return _ExpertSizes(
        n_tokens, n_experts, n_chosen, hidden, inner, first_width, third is not None
    )


def _experts_shape(node: Node) -> Specs:
    if node.text("activation_type", "relu") not in _ACTIVATIONS:
        raise node.error(f"attribute 'activation_type' does not exist: {_ACTIVATIONS}")
    _expert_sizes(node)
    return same_as_first(node)


def _used(sizes: _ExpertSizes) -> int:
    """Experts that are used at most: all of them, or one for each choice of a token."""
    return min(sizes.n_experts, sizes.n_tokens * sizes.n_chosen)


def _read_bytes(node: Node, precision: Precision | None) -> int:
    """Weights, biases and scales of experts that can be chosen."""
    sizes = _expert_sizes(node)
    return sum(_part(tensor, sizes, precision) for tensor in node.distinct)


def _part(tensor: Tensor, sizes: _ExpertSizes, precision: Precision | None) -> int:
    n = tensor.n_elements
    if tensor.rank > 1 and tensor.shape[0] == sizes.n_experts and sizes.n_experts:
        is_router = tensor.shape == (sizes.n_tokens, sizes.n_experts)
        n = n if is_router else n // sizes.n_experts * _used(sizes)
    return tensor.dtype.size_bytes(n, precision)


def _choice(node: Node, sizes: _ExpertSizes) -> Cost:
    """Softmax over the experts, a comparison for each choice of each, a sum to normalise."""
    chosen = sizes.n_tokens * sizes.n_chosen
    work = softmax_cost(sizes.n_tokens, sizes.n_experts) + Cost(simple=chosen * sizes.n_experts)
    if node.integer("normalize_routing_weights", 0):
        work += Cost(simple=2 * chosen - sizes.n_tokens)
    return work


def _per_token(node: Node, sizes: _ExpertSizes, biases: tuple[int, int, int]) -> Cost:
    """The products of one token in one expert, its biases and activation, and its weight."""
    widths = (sizes.first_width, sizes.hidden, sizes.inner)
    third = sizes.hidden * sizes.inner if sizes.has_third else 0
    macs = sizes.hidden * sizes.first_width + sizes.inner * sizes.hidden + third
    added = sum(width for position, width in zip(biases, widths, strict=True) if node.has(position))
    return Cost(macs=macs, simple=added + 2 * sizes.hidden) + _activation(node, sizes)


def _activation(node: Node, sizes: _ExpertSizes) -> Cost:
    name = node.text("activation_type", "relu")
    if name == "swiglu":
        # gate · sigmoid(alpha · gate) · (value + beta), both clamped where there is a limit
        limit = 3 if "swiglu_limit" in node.attributes else 0
        return (SIGMOID + Cost(simple=4 + limit)) * sizes.inner
    each = named_activation(node, name)
    return (each + Cost(simple=int(sizes.has_third))) * sizes.inner


@microsoft("MoE", shape=_experts_shape, not_weights=(1,), operands=(0, 2), reads=_read_bytes)
def experts(node: Node) -> Cost:
    """Softmax over experts, a comparison for each choice, 2 or 3 products in k experts.

    hidden · inner multiply-adds a product, biases, activation (swiglu: 7 and a function), 2 an
    output.
    """
    sizes = _expert_sizes(node)
    each = _per_token(node, sizes, (3, 5, 7))
    return _choice(node, sizes) + each * (sizes.n_tokens * sizes.n_chosen)


def _unpacked(position: int) -> Callable[[Node], int]:
    """How many weights an input of a QMoE holds: rows as long as its product is deep."""

    def elements(node: Node) -> int:
        sizes, held = _expert_sizes(node), node.input(position)
        depth = sizes.inner if position == 5 else sizes.hidden
        return held.shape[0] * held.shape[1] * depth

    return elements


@microsoft(
    "QMoE",
    shape=_experts_shape,
    not_weights=(1, *range(14, 21)),
    statistics=(3, 6, 9, 11, 12, 13),
    operands=(0,),
    packed={position: _unpacked(position) for position in (2, 5, 8)},
    reads=_read_bytes,
)
def quantized_experts(node: Node) -> Cost:
    """As MoE; dequantisation 2 for each weight that can be chosen."""
    sizes = _expert_sizes(node)
    each = _per_token(node, sizes, (4, 7, 10))
    third = sizes.inner if sizes.has_third else 0
    held = sizes.hidden * (sizes.first_width + sizes.inner + third)
    work = _choice(node, sizes) + each * (sizes.n_tokens * sizes.n_chosen)
    return work + DEQUANTIZE * (held * _used(sizes))
