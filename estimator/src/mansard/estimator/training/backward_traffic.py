"""The bytes of the backward pass."""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.operators.indexing import PICKING
from mansard.estimator.operators.movement import MOVING
from mansard.estimator.operators.recurrent import GATES
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node, Tensor
from mansard.estimator.training.backward import PASSING, PRODUCTS, is_subtracted
from mansard.estimator.training.saved import extra_bytes, kept_tensors
from mansard.estimator.weights import weight_inputs


def backward_traffic(
    node: Node, formula: Operator, operands: tuple[Tensor, ...], precision: Precision | None
) -> Cost:
    """Reads the outputs' gradients and what was saved, writes the operands' gradients."""
    if not operands or (formula.is_view and node.op_type != "Dropout"):
        return NOTHING
    gradient = _gradient_bytes(node, precision)
    results = sum(operand.n_bytes(precision) for operand in operands)
    if node.op_type in PASSING:
        made = [o for o in operands if o.shape != node.output.shape or is_subtracted(node, o)]
        written = sum(operand.n_bytes(precision) for operand in made)
        return Cost(read_bytes=gradient * len(made), write_bytes=written)
    if node.op_type in PRODUCTS:
        # One kernel for each gradient. A factor's reads the other factors, a bias's none.
        factors = {t.name: t.n_bytes(precision) for t in _factors(node)}
        others = sum(
            sum(factors.values()) - factors[operand.name]
            for operand in operands
            if operand.name in factors
        )
        return Cost(read_bytes=gradient * len(operands) + others, write_bytes=results)
    if node.op_type in PICKING:
        return Cost(read_bytes=gradient, write_bytes=min(gradient, results))
    if node.op_type in MOVING:
        return Cost(read_bytes=gradient, write_bytes=results)
    saved = _saved_bytes(node, formula, operands, precision)
    return Cost(read_bytes=gradient + saved, write_bytes=results)


def _factors(node: Node) -> tuple[Tensor, ...]:
    if node.op_type == "Einsum":
        return node.present
    return node.input(0), node.input(1)


def _gradient_bytes(node: Node, precision: Precision | None) -> int:
    """The gradients that come in: of all parts of a Split and all results of a recurrence."""
    if node.op_type == "Split" or node.op_type in GATES:
        return sum(output.n_bytes(precision) for output in node.outputs if output.name)
    return node.output.n_bytes(precision)


def _saved_bytes(
    node: Node, formula: Operator, operands: tuple[Tensor, ...], precision: Precision | None
) -> int:
    """What the forward pass kept for this node, and its weights."""
    held = weight_inputs(node, formula)
    read = {id(tensor): tensor for tensor in kept_tensors(node, operands, formula.is_view)}
    read.update((id(tensor), tensor) for tensor in node.distinct if tensor.name in held)
    return extra_bytes(node, precision) + sum(t.n_bytes(precision) for t in read.values())
