"""ONNX Runtime's layers with a state: recurrent ones, linear attention, causal convolutions.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
(DynamicQuantizeLSTM, AttnLSTM, LinearAttention, GatedDeltaNet, CausalConvWithState and kin)
"""

from __future__ import annotations

import math

import msgspec

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import FLOAT32
from mansard.estimator.operators.attention import LinearSizes, recurrence_cost
from mansard.estimator.operators.contrib.parts import (
    QUANTIZE_DYNAMICALLY,
    activation_cost,
    microsoft,
    microsoft_shape,
    required,
    split_heads,
)
from mansard.estimator.operators.costs import SIGMOID, SOFTPLUS
from mansard.estimator.operators.normalization import softmax_cost
from mansard.estimator.operators.recurrent import RecurrentSizes
from mansard.estimator.operators.registry import Specs
from mansard.estimator.operators.shapes import check_length, check_rank, same
from mansard.estimator.tensors import Node, Shape


def _lstm_sizes(node: Node) -> RecurrentSizes:
    """Sizes of either layer; the input size is what the weights W take."""
    for position in range(3):
        check_rank(node, position, 3)
    data, weights, recurrence = node.input(0), node.input(1), node.input(2)
    n_steps, batch, _ = data.shape
    directions = 2 if node.text("direction", "forward") == "bidirectional" else 1
    if node.op_type == "DynamicQuantizeLSTM":
        # These weights stand transposed.
        hidden, gates, taken = recurrence.shape[1], recurrence.shape[2], weights.shape[1]
        fits = weights.shape == (directions, data.shape[2], gates)
    else:
        hidden, gates, taken = recurrence.shape[2], recurrence.shape[1], weights.shape[2]
        fits = weights.shape[:2] == (directions, gates) and taken >= data.shape[2]
    if not fits or gates != 4 * hidden or recurrence.shape[0] != directions:
        raise node.error(
            f"weights W {list(weights.shape)} and R {list(recurrence.shape)} do not fit "
            f"{directions} direction(s) and data {list(data.shape)}"
        )
    return RecurrentSizes(n_steps, batch, directions, taken, hidden)


class _MemorySizes(msgspec.Struct, frozen=True):
    """The attention of an AttnLSTM over a memory. ``attended`` is what a step takes from it."""

    n_slots: int
    depth: int
    inner: int
    attended: int


def _memory_sizes(node: Node) -> _MemorySizes:
    """Sizes of the memory, of its keys and of what the attention layer makes of them."""
    query, memory = check_rank(node, 8, 3), check_rank(node, 11, 3)
    layer = node.optional(13)
    attended = memory.shape[2] if layer is None else layer.shape[-1]
    return _MemorySizes(memory.shape[1], memory.shape[2], query.shape[2], attended)


def _lstm_shape(node: Node) -> Specs:
    sizes, dtype = _lstm_sizes(node), node.input(0).dtype
    if node.op_type == "AttnLSTM":
        _memory_sizes(node)
    state = (sizes.n_directions, sizes.batch, sizes.hidden_size)
    full = (sizes.n_steps, *state)
    return [(dtype, full), (dtype, state), (dtype, state)]


_TANH = Cost(functions=1)


def _cell(node: Node, sizes: RecurrentSizes) -> Cost:
    """One hidden element of one step: 4 gates, their sums and biases, and the update.

    4·(inputs + hidden) multiply-adds; 4 sums, 4 biases, 3 sigmoids, 2 tanh, 4 operations
    to update cell and output; peepholes 2 at each of 3 gates.
    """
    macs = 4 * (sizes.input_size + sizes.hidden_size)
    simple = 4 * (2 if node.has(3) else 1) + 4 + (6 if node.has(7) else 0)
    return Cost(macs=macs, simple=simple) + 3 * SIGMOID + 2 * _TANH


def _steps(sizes: RecurrentSizes) -> int:
    return sizes.n_steps * sizes.batch * sizes.n_directions


@microsoft(
    "DynamicQuantizeLSTM", shape=_lstm_shape, not_weights=(4, 5, 6, 8, 9, 10, 11), operands=(1, 2)
)
def dynamic_lstm(node: Node) -> Cost:
    """As LSTM on integers; quantisation 7, 8 scaled products a cell."""
    sizes = _lstm_sizes(node)
    hidden = _steps(sizes) * sizes.hidden_size
    quantized = sizes.n_directions * node.input(0).n_elements + hidden
    scaled = Cost(simple=8)
    return (_cell(node, sizes) + scaled) * hidden + QUANTIZE_DYNAMICALLY * quantized


@microsoft("AttnLSTM", shape=_lstm_shape, not_weights=(4, 5, 6, 11, 12), operands=(0, 1))
def attention_lstm(node: Node) -> Cost:
    """As LSTM with attention to a memory at each step. Once: memory times weights.

    Each step: query times weights; sum, tanh and product for each slot; softmax; the weighted
    sum; the attention layer.
    """
    sizes, memory = _lstm_sizes(node), _memory_sizes(node)
    slots, inner = memory.n_slots, memory.inner
    keys = Cost(macs=sizes.batch * sizes.n_directions * slots * memory.depth * inner)
    step = Cost(macs=sizes.hidden_size * inner + slots * inner + slots * memory.depth)
    step += Cost(simple=slots * inner, functions=slots * inner) + softmax_cost(1, slots)
    if node.has(13):
        step += Cost(macs=(memory.depth + sizes.hidden_size) * memory.attended)
    return keys + (_cell(node, sizes) * sizes.hidden_size + step) * _steps(sizes)


def _linear_sizes(node: Node) -> LinearSizes:
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
    return LinearSizes(batch, batch * n_steps, heads, kv_heads, width, v_width)


def _linear_attention_shape(node: Node) -> Specs:
    """[batch, steps, width] and the state; with a window a state for each of its steps."""
    sizes, query, past = _linear_sizes(node), node.input(0), node.optional(3)
    n_outputs = max(sizes.heads, sizes.kv_heads) * sizes.v_width
    state: Shape = (sizes.batch, sizes.kv_heads, sizes.width, sizes.v_width)
    window = node.integer("state_window", 0)
    held = (window, *state) if window > 0 else state
    return [
        (query.dtype, (*query.shape[:2], n_outputs)),
        (query.dtype if past is None else past.dtype, held),
    ]


@microsoft(
    "LinearAttention", shape=_linear_attention_shape, not_weights=(3, 4, 5), operands=(0, 1, 2)
)
def linear_attention(node: Node) -> Cost:
    """As ONNX's LinearAttention."""
    sizes, decay = _linear_sizes(node), node.optional(4)
    return recurrence_cost(
        node, sizes, None if decay is None else decay.shape[-1] // sizes.kv_heads
    )


def _attention_gate_shape(node: Node) -> Specs:
    data = node.input(0)
    check_length(node, 1, data.shape[-1], "heads")
    check_length(node, 2, data.shape[-1], "heads")
    return [same(data), same(data)]


@microsoft("LinearAttentionGate", shape=_attention_gate_shape)
def attention_gate(node: Node) -> Cost:
    """scale · log(1 + exp(a + bias)): 3 operations and 2 functions; a sigmoid for ``b``."""
    n = node.input(0).n_elements
    gate = SIGMOID * n if node.has(3) else Cost()
    return (Cost(simple=2) + SOFTPLUS) * n + gate


def _delta_sizes(node: Node) -> LinearSizes:
    """Sizes of a GatedDeltaNet, which has its heads in its shapes."""
    query, state = node.input(0), node.optional(6)
    key, value = node.optional(1), node.optional(2)
    if key is None or value is None:
        if state is None or state.rank != 4:
            raise node.error("packed queries need the initial state")
        batch, kv_heads, v_width, width = state.shape
        n_tokens = query.n_elements // max(query.shape[-1], 1)
        heads = (query.shape[-1] - kv_heads * v_width) // max(2 * width, 1)
        return LinearSizes(batch, n_tokens, heads, kv_heads, width, v_width)
    check_rank(node, 0, 3, 4)
    heads, width = query.shape[-2:]
    kv_heads, v_width = value.shape[-2:]
    batch = query.shape[0] if query.rank == 4 else 1
    if state is not None:
        batch = state.shape[0]
    elif node.has(3):
        batch = node.input(3).n_elements - 1
    return LinearSizes(batch, math.prod(query.shape[:-2]), heads, kv_heads, width, v_width)


def _gated_delta_net_shape(node: Node) -> Specs:
    """[tokens, heads, width], the state with values first, and captured transitions."""
    query = node.input(0)
    sizes = _delta_sizes(node)
    tokens = query.shape[:-2] if node.has(1) else query.shape[:-1]
    each = sizes.kv_heads * (1 + sizes.v_width) + sizes.heads * sizes.width
    captured = node.integer("state_update_capacity", 0) * each
    return [
        (query.dtype, (*tokens, max(sizes.heads, sizes.kv_heads), sizes.v_width)),
        (FLOAT32, (sizes.batch, sizes.kv_heads, sizes.v_width, sizes.width)),
        (FLOAT32, (sizes.batch, captured)),
    ]


@microsoft(
    "GatedDeltaNet",
    shape=_gated_delta_net_shape,
    not_weights=(3, 4, 5, 6, 9, 10),
    operands=(0, 1, 2),
)
def gated_delta_net(node: Node) -> Cost:
    """As LinearAttention; 3·n - 1 operations and a root for each normalised vector of n.

    A "qwen" decay is 3 operations, an exp and Softplus; a rate is a sigmoid.
    """
    sizes, decay, rate = _delta_sizes(node), node.optional(4), node.optional(5)
    per_head = max(sizes.n_tokens * sizes.kv_heads, 1)
    work = recurrence_cost(node, sizes, None if decay is None else decay.n_elements // per_head)
    if node.integer("qk_l2_norm", 0):
        n_vectors = 2 * sizes.n_tokens * sizes.heads
        work += n_vectors * Cost(simple=3 * sizes.width - 1, functions=1)
    if node.text("gate_activation", "none") == "qwen" and decay is not None:
        work += (SOFTPLUS + Cost(simple=3, functions=1)) * decay.n_elements
    if node.text("beta_activation", "none") == "sigmoid" and rate is not None:
        work += SIGMOID * rate.n_elements
    return work


def causal_conv(node: Node) -> Cost:
    """k multiply-adds for each element, a bias, an activation."""
    n = node.output.n_elements
    bias = 2 if node.op_type == "CausalConvWithState" else 3
    taps = math.prod(node.input(1).shape[2:])
    work = Cost(macs=n * taps, simple=n if node.has(bias) else 0)
    return work + activation_cost(node, "none") * n


@microsoft_shape("CausalConvWithState", cost=causal_conv, not_weights=(3,))
def _causal_conv_shape(node: Node) -> Specs:
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


@microsoft_shape("VarlenCausalConvWithState", cost=causal_conv, not_weights=(2, 4, 5))
def _packed_causal_conv_shape(node: Node) -> Specs:
    """The same over packed tokens [tokens, channels], and the tokens that were captured."""
    data, state = check_rank(node, 0, 2), check_rank(node, 4, 3)
    capacity = node.integer("state_update_capacity", 0)
    return [same(data), same(state), (data.dtype, (state.shape[0], capacity, data.shape[1]))]
