"""Activations: what the forward pass keeps because the backward pass reads it.

A tensor is kept once, at the first node whose gradient reads it. Weights are there
anyway. Derivatives written with an operator's output keep the output, which the next
layer mostly keeps as its input already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mansard.core.precision import Precision
from mansard.estimator.operators.indexing import PICKING
from mansard.estimator.operators.movement import MOVING, VIEWS
from mansard.estimator.operators.recurrent import GATES, recurrent_sizes
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node, Origin, Tensor
from mansard.estimator.training.backward import NORMALIZATIONS, PASSING
from mansard.estimator.training.gradients import needing_gradient
from mansard.estimator.walk import Placed

# Operators whose derivative is written with the output (``derivatives``).
_FROM_OUTPUT = frozenset(
    {"Relu", "LeakyRelu", "HardSigmoid", "Sigmoid", "Tanh", "Exp", "Sqrt", "Reciprocal"}
    | {"Softmax", "LogSoftmax", "Clip", "Elu", "Selu", "ThresholdedRelu"}
)
_FROM_NOTHING = frozenset(
    {"ReduceSum", "ReduceMean", "AveragePool", "GlobalAveragePool", "Cast", "CumSum"}
)
_SHOWING = frozenset(VIEWS) - {"Dropout"}  # the output is the input's memory in training too
_MASKED = frozenset({"MaxPool", "GlobalMaxPool"})
_KEEPING_NOTHING = PASSING | _FROM_NOTHING | _MASKED | frozenset(MOVING)
_INDEX_BYTES = 8  # a position is kept as int64, as PyTorch's max_pool2d_with_indices does


def saved_bytes(
    placed: Iterable[Placed],
    formulas: Mapping[tuple[str, str], Operator | None],
    differentiable: set[str],
    precision: Precision | None,
    segments: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Bytes that each node makes the forward pass keep, by the node's index.

    With ``segments``, by the node's index, only what is made in the node's own segment
    counts: what comes from another one is kept there.
    """
    makers: dict[int, Placed] = {}  # by the tensor's identity
    memory: dict[int, int] = {}  # a view's identity -> that of the tensor it shows
    kept: set[int] = set()
    saved: dict[int, int] = {}
    for each in placed:
        node, formula = each.node, formulas[each.node.domain, each.node.op_type]
        is_view = formula is not None and formula.is_view
        makers.update((id(output), each) for output in node.outputs)
        if shows_input(node):
            source = id(node.input(0))
            memory.update((id(output), memory.get(source, source)) for output in node.outputs)
        if node.is_constant or node.bodies:
            continue
        operands = needing_gradient(node, formula, differentiable)
        if not operands:
            continue
        total = each.runs * extra_bytes(node, precision)
        for tensor in kept_tensors(node, operands, is_view):
            held = memory.get(id(tensor), id(tensor))
            if tensor.origin is not Origin.DATA or held in kept:
                continue
            maker = makers.get(held)
            if segments and maker and segments[maker.node.index] != segments[node.index]:
                continue
            kept.add(held)
            total += _runs(maker, each) * tensor.n_bytes(precision)
        if total:
            saved[node.index] = saved.get(node.index, 0) + total
    return saved


def shows_input(node: Node) -> bool:
    """Whether the outputs are the first input's memory, in training too."""
    return node.op_type in _SHOWING and not node.domain


def _runs(maker: Placed | None, user: Placed) -> int:
    """How often a tensor is made; one from outside a loop is the same in each of its runs."""
    if maker is not None:
        return maker.runs
    return 1 if user.scope == "" else user.runs


def kept_tensors(node: Node, operands: tuple[Tensor, ...], is_view: bool) -> Iterator[Tensor]:
    """The node's tensors that the gradients of ``operands`` read, weights among them."""
    if is_view or node.op_type in _KEEPING_NOTHING:
        return
    names = {operand.name for operand in operands}
    floats = [tensor for tensor in node.distinct if tensor.dtype.is_float]
    if node.op_type in PICKING:
        yield from node.distinct[1:]  # where the elements came from
    elif node.op_type in _FROM_OUTPUT:
        yield node.output
    elif node.op_type in NORMALIZATIONS:
        yield node.input(0)
    elif node.op_type in GATES:
        yield from floats
        yield from node.outputs
    elif node.op_type == "Where":
        yield node.input(0)
    elif node.op_type == "TopK":
        yield from node.outputs[1:]  # where the elements came from
    elif len(floats) > 1:
        # The gradient of one operand reads the others.
        yield from (t for t in floats if names - {t.name})
        if _is_used_twice(node) or _needs_own(node, names):
            yield from floats
    else:
        yield from floats


def _needs_own(node: Node, names: set[str]) -> bool:
    """Whether the gradient of an operand reads that operand too."""
    if node.op_type == "Div":
        return node.input(1).name in names  # the divisor's
    return node.op_type in ("Pow", "PRelu")


def _is_used_twice(node: Node) -> bool:
    return len(node.distinct) < len(node.present)


def extra_bytes(node: Node, precision: Precision | None) -> int:
    """Bytes that one run keeps beside the node's tensors: positions, a mask, gates."""
    if node.op_type in _MASKED:
        return _INDEX_BYTES * node.output.n_elements
    if node.op_type == "Dropout":
        return node.output.n_elements  # the mask, one byte an element
    if node.op_type in GATES:
        # Every gate, and an LSTM's cell, of every step.
        sizes = recurrent_sizes(node)
        each = sizes.n_steps * sizes.batch * sizes.n_directions * sizes.hidden_size
        n_kept = GATES[node.op_type] + (node.op_type == "LSTM")
        return node.input(0).dtype.size_bytes(n_kept * each, precision)
    return 0
