"""LSTM, GRU, RNN: every step of every direction of every sequence in the batch.

https://onnx.ai/onnx/operators/onnx__LSTM.html, …__GRU, …__RNN. Shorter sequences
(sequence_lens) save nothing: how long they are depends on data.
"""

from __future__ import annotations

from types import MappingProxyType

import msgspec

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.operators.elementwise import PER_ELEMENT
from mansard.estimator.operators.registry import Specs, operator
from mansard.estimator.operators.shapes import check_length
from mansard.estimator.tensors import Node

GATES = MappingProxyType({"LSTM": 4, "GRU": 3, "RNN": 1})


class RecurrentSizes(msgspec.Struct, frozen=True):
    """The sizes of a recurrent layer. ``n_directions`` is 2 for a bidirectional one."""

    n_steps: int
    batch: int
    n_directions: int
    input_size: int
    hidden_size: int


def recurrent_sizes(node: Node) -> RecurrentSizes:
    """Sizes from the data and the weights; raises ModelError where they contradict."""
    data, weights, recurrence = node.input(0), node.input(1), node.input(2)
    if data.rank != 3 or weights.rank != 3 or recurrence.rank != 3:
        raise node.error("needs data, W and R of 3 dimensions")
    _check_attributes(node, recurrence.shape[2])
    first, second, input_size = data.shape
    n_steps, batch = (second, first) if node.integer("layout", 0) else (first, second)
    directions = 2 if node.text("direction", "forward") == "bidirectional" else 1
    hidden = recurrence.shape[2]
    rows = GATES[node.op_type] * hidden
    if weights.shape != (directions, rows, input_size):
        raise node.error(
            f"weights W {list(weights.shape)} do not fit {directions} direction(s), "
            f"{rows} gate rows and inputs of {input_size}"
        )
    if recurrence.shape != (directions, rows, hidden):
        raise node.error(f"recurrent weights R {list(recurrence.shape)} contradict W")
    sizes = RecurrentSizes(n_steps, batch, directions, input_size, hidden)
    _check_states(node, sizes)
    return sizes


def _check_attributes(node: Node, hidden: int) -> None:
    if node.text("direction", "forward") not in ("forward", "reverse", "bidirectional"):
        raise node.error(f"direction {node.text('direction', '')!r} does not exist")
    if node.integer("hidden_size", hidden) != hidden:
        raise node.error(
            f"hidden_size {node.integer('hidden_size', hidden)} contradicts weights R of {hidden}"
        )
    if node.integer("layout", 0) not in (0, 1):
        raise node.error(f"layout {node.integer('layout', 0)} does not exist")


def _check_states(node: Node, sizes: RecurrentSizes) -> None:
    directions, hidden = sizes.n_directions, sizes.hidden_size
    expected = (directions, sizes.batch, hidden)
    if node.integer("layout", 0):
        expected = (sizes.batch, directions, hidden)
    is_lstm = node.op_type == "LSTM"
    for position in (5, 6) if is_lstm else (5,):
        state = node.optional(position)
        if state is not None and state.shape != expected:
            raise node.error(
                f"initial state {state.name!r} is {list(state.shape)}, not {list(expected)}",
                "the file fixes another batch inside the graph: "
                "export the model with the batch dynamic",
            )
    check_length(node, 3, directions * 2 * GATES[node.op_type] * hidden, "gates' biases")
    check_length(node, 4, sizes.batch, "sequences")
    if is_lstm:
        check_length(node, 7, directions * 3 * hidden, "peepholes")


def _recurrent_shape(node: Node) -> Specs:
    sizes, dtype = recurrent_sizes(node), node.input(0).dtype
    if node.integer("layout", 0):
        state = (sizes.batch, sizes.n_directions, sizes.hidden_size)
        full = (sizes.batch, sizes.n_steps, sizes.n_directions, sizes.hidden_size)
    else:
        state = (sizes.n_directions, sizes.batch, sizes.hidden_size)
        full = (sizes.n_steps, sizes.n_directions, sizes.batch, sizes.hidden_size)
    return [(dtype, full), (dtype, state), (dtype, state)][: 3 if node.op_type == "LSTM" else 2]


# What an activation does for one element, by the definitions in the specification.
_ACTIVATIONS = {
    "affine": Cost(simple=2),  # a·x + b
    "scaledtanh": Cost(simple=2, functions=1),  # a·tanh(b·x)
}
for _name in (
    *("Elu", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"),
    "ThresholdedRelu",
):
    _simple, _functions = PER_ELEMENT[_name]
    _ACTIVATIONS[_name.lower()] = Cost(simple=_simple, functions=_functions)
_DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}


def recurrent_macs(node: Node) -> tuple[int, int]:
    """Multiply-adds with the inputs' weights W and with the recurrent weights R."""
    sizes = recurrent_sizes(node)
    rows = GATES[node.op_type] * _cells(sizes)
    return rows * sizes.input_size, rows * sizes.hidden_size


def _cells(sizes: RecurrentSizes) -> int:
    """How often one hidden element is computed, over all directions."""
    return sizes.n_steps * sizes.batch * sizes.n_directions * sizes.hidden_size


def _activations(node: Node) -> list[list[Cost]]:
    """The activations of each direction, a clamp of their input with them where there is one."""
    default = _DEFAULTS[node.op_type]
    n_directions = recurrent_sizes(node).n_directions
    given = node.attributes.get("activations")
    if not isinstance(given, tuple) or not given:
        given = default * n_directions
    if len(given) == len(default):
        given = given * n_directions  # some exporters name those of one direction only
    if len(given) != len(default) * n_directions:
        raise node.error(f"{len(given)} activations for {n_directions} direction(s)")
    clamp = Cost(simple=0 if node.attributes.get("clip") is None else 2)
    costs = []
    for name in given:
        known = _ACTIVATIONS.get(str(name).lower())
        if known is None:
            raise node.error(f"activation {name!r} does not exist")
        costs.append(known + clamp)
    n = len(default)
    return [costs[i * n : (i + 1) * n] for i in range(n_directions)]


@operator("LSTM", shape=_recurrent_shape, not_weights=(4, 5, 6), operands=(0, 1, 2))
def lstm(node: Node) -> Cost:
    """Gates i, o, f (sigmoid), c (tanh); C = f·C + i·c, H = o·tanh(C).

    1 addition a gate for its two products, 1 for a bias, 2 for a peephole; ``clip`` 2
    comparisons.
    """
    total = NOTHING
    gate = Cost(simple=2 if node.has(3) else 1)
    peephole = Cost(simple=2 if node.has(7) else 0)
    for f, g, h in _activations(node):
        one = gate + peephole + f
        forget = Cost(simple=1) if node.integer("input_forget", 0) else one
        total += 2 * one + forget + gate + g + h + Cost(simple=4)
    return _with_macs(node, total)


@operator("GRU", shape=_recurrent_shape, not_weights=(4, 5), operands=(0, 1, 2))
def gru(node: Node) -> Cost:
    """Gates z, r (sigmoid), h (tanh); H = (1 - z)·h + z·H.

    Sums, biases, activations and ``clip`` as in LSTM; r multiplies once.
    """
    total = NOTHING
    for f, g in _activations(node):
        cell = 3 * Cost(simple=2 if node.has(3) else 1) + 2 * f + g + Cost(simple=5)
        if node.has(3) and node.integer("linear_before_reset", 0):
            cell += Cost(simple=1)
        total += cell
    return _with_macs(node, total)


@operator("RNN", shape=_recurrent_shape, not_weights=(4, 5), operands=(0, 1, 2))
def rnn(node: Node) -> Cost:
    """H = tanh(W·x + R·H + bias). Activations and ``clip`` as in LSTM."""
    total = NOTHING
    for (f,) in _activations(node):
        total += Cost(simple=2 if node.has(3) else 1) + f
    return _with_macs(node, total)


def _with_macs(node: Node, cells: Cost) -> Cost:
    """``cells``: the work of one hidden element, of each direction, added up."""
    sizes = recurrent_sizes(node)
    return Cost(macs=sum(recurrent_macs(node))) + cells * (_cells(sizes) // sizes.n_directions)
