"""ONNX Runtime's recurrent layers: every step of every direction of every sequence.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
(DynamicQuantizeLSTM, AttnLSTM)
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.contrib_parts import QUANTIZE_DYNAMICALLY, SIGMOID
from mansard.estimator.formulas.normalization import softmax_cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.shapes.contrib_recurrent import lstm_sizes, memory_sizes
from mansard.estimator.shapes.recurrent import RecurrentSizes
from mansard.estimator.tensors import Node

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


@register(
    "DynamicQuantizeLSTM",
    domain=MICROSOFT,
    not_weights=(4, 5, 6, 8, 9, 10, 11),
    operands=(1, 2),
)
def dynamic_lstm(node: Node) -> Cost:
    """As LSTM on integers: inputs and states are quantised (7), 8 products scaled a cell."""
    sizes = lstm_sizes(node)
    hidden = _steps(sizes) * sizes.hidden_size
    quantized = sizes.n_directions * node.input(0).n_elements + hidden
    scaled = Cost(simple=8)
    return (_cell(node, sizes) + scaled) * hidden + QUANTIZE_DYNAMICALLY * quantized


@register("AttnLSTM", domain=MICROSOFT, not_weights=(4, 5, 6, 11, 12), operands=(0, 1))
def attention_lstm(node: Node) -> Cost:
    """As LSTM whose input is joined by what it attends to in a memory.

    Once: the memory times its weights. Each step: the state times the query's weights; for
    each slot of the memory a sum and a tanh for each element, their product with a vector,
    softmax over the slots, and the slots' sum by those weights; then the attention layer.
    """
    sizes, memory = lstm_sizes(node), memory_sizes(node)
    slots, inner = memory.n_slots, memory.inner
    keys = Cost(macs=sizes.batch * sizes.n_directions * slots * memory.depth * inner)
    step = Cost(macs=sizes.hidden_size * inner + slots * inner + slots * memory.depth)
    step += Cost(simple=slots * inner, functions=slots * inner) + softmax_cost(1, slots)
    if node.has(13):
        step += Cost(macs=(memory.depth + sizes.hidden_size) * memory.attended)
    return keys + (_cell(node, sizes) * sizes.hidden_size + step) * _steps(sizes)
