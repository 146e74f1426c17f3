"""LSTM, GRU, RNN. https://onnx.ai/onnx/operators/onnx__LSTM.html, …__GRU, …__RNN"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import msgspec

from mansard.estimator.shapes.checks import check_length
from mansard.estimator.shapes.registry import Spec, rule
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


@rule(*GATES)
def _recurrent(node: Node) -> Sequence[Spec]:
    sizes, dtype = recurrent_sizes(node), node.input(0).dtype
    if node.integer("layout", 0):
        state = (sizes.batch, sizes.n_directions, sizes.hidden_size)
        full = (sizes.batch, sizes.n_steps, sizes.n_directions, sizes.hidden_size)
    else:
        state = (sizes.n_directions, sizes.batch, sizes.hidden_size)
        full = (sizes.n_steps, sizes.n_directions, sizes.batch, sizes.hidden_size)
    return [(dtype, full), (dtype, state), (dtype, state)][: 3 if node.op_type == "LSTM" else 2]
