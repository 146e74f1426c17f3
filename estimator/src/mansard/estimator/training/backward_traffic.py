"""The bytes of the backward pass."""

from __future__ import annotations

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost, Formula
from mansard.estimator.formulas.movement import MOVING, PICKING
from mansard.estimator.tensors import Node, Tensor
from mansard.estimator.training.backward import PASSING, PRODUCTS, is_subtracted


def backward_traffic(
    node: Node, formula: Formula, operands: tuple[Tensor, ...], precision: Precision | None
) -> Cost:
    """Reads the output's gradient and what was saved, writes the operands' gradients."""
    if not operands or (formula.is_view and node.op_type != "Dropout"):
        return NOTHING
    gradient = node.output.n_bytes(precision)
    results = sum(operand.n_bytes(precision) for operand in operands)
    inputs = sum(tensor.n_bytes(precision) for tensor in node.distinct if tensor.dtype.is_float)
    if node.op_type in PASSING:
        made = [o for o in operands if o.shape != node.output.shape or is_subtracted(node, o)]
        written = sum(operand.n_bytes(precision) for operand in made)
        return Cost(read_bytes=gradient * len(made), write_bytes=written)
    if node.op_type in PRODUCTS:
        # One kernel for each gradient: it reads the other operand, not its own.
        others = sum(inputs - operand.n_bytes(precision) for operand in operands)
        return Cost(read_bytes=gradient * len(operands) + others, write_bytes=results)
    if node.op_type in PICKING:
        return Cost(read_bytes=gradient, write_bytes=min(gradient, results))
    if node.op_type in MOVING:
        return Cost(read_bytes=gradient, write_bytes=results)
    return Cost(read_bytes=gradient + inputs, write_bytes=results)
