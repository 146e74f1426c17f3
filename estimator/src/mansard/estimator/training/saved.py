"""Activations: what the forward pass keeps because the backward pass reads it.

A tensor is kept once, at the first node whose gradient reads it. Weights are there
anyway. Derivatives written with an operator's output keep the output, which the next
layer mostly keeps as its input already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mansard.core.precision import Precision
from mansard.estimator.cost import Formula
from mansard.estimator.formulas.movement import MOVING, PICKING
from mansard.estimator.shapes.recurrent import GATES, recurrent_sizes
from mansard.estimator.tensors import Node, Origin, Tensor
from mansard.estimator.training.backward import NORMALIZATIONS, PASSING
from mansard.estimator.training.gradients import needing_gradient
from mansard.estimator.walk import Placed

# Operators whose derivative is written with the output (``derivatives``).
_FROM_OUTPUT = frozenset(
    {"Relu", "LeakyRelu", "HardSigmoid", "Sigmoid", "Tanh", "Exp", "Sqrt", "Reciprocal"}
    | {"Softmax", "LogSoftmax", "Clip", "Elu", "Selu", "ThresholdedRelu"}
)
_FROM_NOTHING = frozenset({"ReduceSum", "ReduceMean", "AveragePool", "GlobalAveragePool", "Cast"})
_MASKED = frozenset({"MaxPool", "GlobalMaxPool"})
_KEEPING_NOTHING = PASSING | _FROM_NOTHING | _MASKED | frozenset(MOVING)
_INDEX_BYTES = 8  # a position is kept as int64, as PyTorch's max_pool2d_with_indices does


def saved_bytes(
    placed: Iterable[Placed],
    formulas: Mapping[tuple[str, str], Formula | None],
    differentiable: set[str],
    precision: Precision | None,
) -> dict[int, int]:
    """Bytes that each node makes the forward pass keep, by the node's index."""
    runs_of: dict[int, int] = {}  # how often a tensor is made, by its identity
    kept: set[int] = set()
    saved: dict[int, int] = {}
    for each in placed:
        node, formula = each.node, formulas[each.node.domain, each.node.op_type]
        runs_of.update((id(output), each.runs) for output in node.outputs)
        if node.is_constant or node.bodies:
            continue
        operands = needing_gradient(node, formula, differentiable)
        if not operands:
            continue
        is_view = formula is not None and formula.is_view
        total = each.runs * _extra_bytes(node, precision)
        for tensor in _kept_tensors(node, operands, is_view):
            if tensor.origin is Origin.DATA and id(tensor) not in kept:
                kept.add(id(tensor))
                # One that comes from outside a loop is the same in each of its runs.
                runs = runs_of.get(id(tensor), 1 if each.scope == "" else each.runs)
                total += runs * tensor.n_bytes(precision)
        if total:
            saved[node.index] = saved.get(node.index, 0) + total
    return saved


def _kept_tensors(node: Node, operands: tuple[Tensor, ...], is_view: bool) -> Iterator[Tensor]:
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
    elif len(node.present) > 1:
        # The gradient of one operand reads the others.
        yield from (t for t in floats if names - {t.name})
        if _is_used_twice(node) or node.op_type in ("Pow", "PRelu", "Div"):
            yield from floats
    else:
        yield from floats


def _is_used_twice(node: Node) -> bool:
    return len(node.distinct) < len(node.present)


def _extra_bytes(node: Node, precision: Precision | None) -> int:
    """What is kept beside the node's tensors."""
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
