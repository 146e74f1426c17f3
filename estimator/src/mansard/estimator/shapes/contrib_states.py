"""ONNX Runtime's layers that carry a state from call to call: linear attention, convolutions.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
(LinearAttention, GatedDeltaNet, CausalConvWithState and kin)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from mansard.estimator.element_types import FLOAT32
from mansard.estimator.shapes.checks import check_length, check_rank
from mansard.estimator.shapes.contrib_parts import MICROSOFT, required, split_heads
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node, Shape


class StateSizes(msgspec.Struct, frozen=True):
    """Sizes of a linear attention; ``n_tokens`` over the batch, a state is width x v_width."""

    batch: int
    n_tokens: int
    heads: int
    kv_heads: int
    width: int
    v_width: int


def linear_sizes(node: Node) -> StateSizes:
    """Sizes of a LinearAttention; raises ModelError where they contradict."""
    query, key, value = node.input(0), node.input(1), node.input(2)
    for position in range(3):
        check_rank(node, position, 3)
    heads, kv_heads = required(node, "q_num_heads"), required(node, "kv_num_heads")
    width = split_heads(node, query.shape[2], heads)
    v_width = split_heads(node, value.shape[2], kv_heads)
    if key.shape[:2] != query.shape[:2] or value.shape[:2] != query.shape[:2]:
        raise node.error(f"keys {list(key.shape)} do not fit queries {list(query.shape)}")
    batch, n_steps, _ = query.shape
    return StateSizes(batch, batch * n_steps, heads, kv_heads, width, v_width)


@rule("LinearAttention", domain=MICROSOFT)
def _linear_attention(node: Node) -> Sequence[Spec]:
    """[batch, steps, width] and the state; with a window a state for each of its steps."""
    sizes, query, past = linear_sizes(node), node.input(0), node.optional(3)
    n_outputs = max(sizes.heads, sizes.kv_heads) * sizes.v_width
    state: Shape = (sizes.batch, sizes.kv_heads, sizes.width, sizes.v_width)
    window = node.integer("state_window", 0)
    held = (window, *state) if window > 0 else state
    return [
        (query.dtype, (*query.shape[:2], n_outputs)),
        (query.dtype if past is None else past.dtype, held),
    ]


@rule("LinearAttentionGate", domain=MICROSOFT)
def _attention_gate(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    check_length(node, 1, data.shape[-1], "heads")
    check_length(node, 2, data.shape[-1], "heads")
    return [same(data), same(data)]


def delta_sizes(node: Node) -> StateSizes:
    """Sizes of a GatedDeltaNet, which has its heads in its shapes."""
    query, state = node.input(0), node.optional(6)
    key, value = node.optional(1), node.optional(2)
    if key is None or value is None:
        if state is None or state.rank != 4:
            raise node.error("packed queries need the initial state")
        batch, kv_heads, v_width, width = state.shape
        n_tokens = query.n_elements // max(query.shape[-1], 1)
        heads = (query.shape[-1] - kv_heads * v_width) // max(2 * width, 1)
        return StateSizes(batch, n_tokens, heads, kv_heads, width, v_width)
    check_rank(node, 0, 3, 4)
    heads, width = query.shape[-2:]
    kv_heads, v_width = value.shape[-2:]
    batch = query.shape[0] if query.rank == 4 else 1
    if state is not None:
        batch = state.shape[0]
    elif node.has(3):
        batch = node.input(3).n_elements - 1
    return StateSizes(batch, math.prod(query.shape[:-2]), heads, kv_heads, width, v_width)


@rule("GatedDeltaNet", domain=MICROSOFT)
def _gated_delta_net(node: Node) -> Sequence[Spec]:
    """[tokens, heads, width], the state with values first, and captured transitions."""
    query = node.input(0)
    sizes = delta_sizes(node)
    tokens = query.shape[:-2] if node.has(1) else query.shape[:-1]
    each = sizes.kv_heads * (1 + sizes.v_width) + sizes.heads * sizes.width
    captured = node.integer("state_update_capacity", 0) * each
    return [
        (query.dtype, (*tokens, max(sizes.heads, sizes.kv_heads), sizes.v_width)),
        (FLOAT32, (sizes.batch, sizes.kv_heads, sizes.v_width, sizes.width)),
        (FLOAT32, (sizes.batch, captured)),
    ]


@rule("CausalConvWithState", domain=MICROSOFT)
def _causal_conv(node: Node) -> Sequence[Spec]:
    """A depthwise convolution over what came before; the state is the last of that."""
    data, weights = node.input(0), node.input(1)
    n_axes, dilation = node.integer("ndim", 1), node.integer("dilation", 1)
    check_rank(node, 1, n_axes + 2)
    length = (weights.shape[-1] - 1) * dilation
    if node.integer("channels_last", 0):
        state: Shape = (data.shape[0], length, *data.shape[2:])
        channels = math.prod(data.shape[2:])
    else:
        check_rank(node, 0, n_axes + 2)
        state = (*data.shape[:-1], length)
        channels = data.shape[1]
    if weights.shape[0] != channels:
        raise node.error(f"weights {list(weights.shape)} do not fit {channels} channels")
    check_length(node, 2, channels, "channels")
    window = node.integer("state_window", 0)
    return [same(data), (data.dtype, (window, *state) if window > 0 else state)]


@rule("VarlenCausalConvWithState", domain=MICROSOFT)
def _packed_causal_conv(node: Node) -> Sequence[Spec]:
    """The same over packed tokens [tokens, channels], and the tokens that were captured."""
    data, state = node.input(0), node.input(4)
    check_rank(node, 0, 2)
    check_rank(node, 4, 3)
    capacity = node.integer("state_update_capacity", 0)
    return [same(data), same(state), (data.dtype, (state.shape[0], capacity, data.shape[1]))]
