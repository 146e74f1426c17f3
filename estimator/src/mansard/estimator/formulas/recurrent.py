"""LSTM, GRU, RNN: every step of every direction of every sequence in the batch.

https://onnx.ai/onnx/operators/onnx__LSTM.html, …__GRU, …__RNN (default activations)
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.recurrent import GATES, RecurrentSizes, recurrent_sizes
from mansard.estimator.tensors import Node

_SIGMOID = Cost(simple=3, functions=1)
_TANH = Cost(functions=1)


def recurrent_macs(node: Node) -> tuple[int, int]:
    """Multiply-adds with the inputs' weights W and with the recurrent weights R."""
    sizes = recurrent_sizes(node)
    rows = GATES[node.op_type] * _cells(sizes)
    return rows * sizes.input_size, rows * sizes.hidden_size


def _cells(sizes: RecurrentSizes) -> int:
    """How often one hidden element is computed."""
    return sizes.n_steps * sizes.batch * sizes.n_directions * sizes.hidden_size


@register("LSTM", not_weights=(4, 5, 6))
def lstm(node: Node) -> Cost:
    """4 gates: i, o, f by sigmoid, c by tanh; then C = f·C + i·c and H = o·tanh(C).

    Each gate adds its two halves; a bias adds once more (W's and R's biases fold
    into one); peepholes are a multiplication and an addition at three gates.
    """
    cell = 4 * Cost(simple=2 if node.has(3) else 1) + 3 * _SIGMOID + 2 * _TANH + Cost(simple=4)
    if node.has(7):
        cell += Cost(simple=6)
    return _with_macs(node, cell)


@register("GRU", not_weights=(4, 5))
def gru(node: Node) -> Cost:
    """3 gates: z, r by sigmoid, h by tanh; r multiplies once; H = (1 - z)·h + z·H.

    Each gate adds its two halves, and a bias once more; with ``linear_before_reset``
    h has two biases, for r multiplies one of them.
    """
    cell = 3 * Cost(simple=2 if node.has(3) else 1) + 2 * _SIGMOID + _TANH + Cost(simple=5)
    if node.has(3) and node.integer("linear_before_reset", 0):
        cell += Cost(simple=1)
    return _with_macs(node, cell)


@register("RNN", not_weights=(4, 5))
def rnn(node: Node) -> Cost:
    """H = tanh(W·x + R·H + bias)."""
    return _with_macs(node, Cost(simple=2 if node.has(3) else 1) + _TANH)


def _with_macs(node: Node, cell: Cost) -> Cost:
    return Cost(macs=sum(recurrent_macs(node))) + cell * _cells(recurrent_sizes(node))
