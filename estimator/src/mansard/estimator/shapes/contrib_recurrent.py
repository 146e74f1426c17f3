"""ONNX Runtime's recurrent layers: quantised, and with attention.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
(DynamicQuantizeLSTM, AttnLSTM)
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mansard.estimator.shapes.checks import check_rank
from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.shapes.recurrent import RecurrentSizes
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


def lstm_sizes(node: Node) -> RecurrentSizes:
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


class MemorySizes(msgspec.Struct, frozen=True):
    """The attention of an AttnLSTM over a memory. ``attended`` is what a step takes from it."""

    n_slots: int
    depth: int
    inner: int
    attended: int


def memory_sizes(node: Node) -> MemorySizes:
    """Sizes of the memory, of its keys and of what the attention layer makes of them."""
    query, memory = node.input(8), node.input(11)
    check_rank(node, 11, 3)
    check_rank(node, 8, 3)
    layer = node.optional(13)
    attended = memory.shape[2] if layer is None else layer.shape[-1]
    return MemorySizes(memory.shape[1], memory.shape[2], query.shape[2], attended)


@rule("AttnLSTM", "DynamicQuantizeLSTM", domain=MICROSOFT)
def _lstm(node: Node) -> Sequence[Spec]:
    sizes, dtype = lstm_sizes(node), node.input(0).dtype
    if node.op_type == "AttnLSTM":
        memory_sizes(node)
    state = (sizes.n_directions, sizes.batch, sizes.hidden_size)
    full = (sizes.n_steps, *state)
    return [(dtype, full), (dtype, state), (dtype, state)]
