"""The work of the backward pass: the gradient of each input that needs one.

A convolution or matrix product costs as much again for each such operand. Not counted:
the loss itself (unless the graph holds it), and adding up the gradients of a tensor
that several nodes read.
"""

from __future__ import annotations

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.operators.indexing import PICKING
from mansard.estimator.operators.movement import MOVING
from mansard.estimator.operators.recurrent import GATES, recurrent_macs, recurrent_sizes
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node, Tensor
from mansard.estimator.training.derivatives import derivative

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum"})

# The gradient goes on as it is: no work, and no bytes where shapes are equal. What was
# subtracted gets it negated.
PASSING = frozenset({"Add", "Sub", "Sum", "Identity"})

# Normalisations give all their gradients in one go: two sums over dy and dy·x̂, the
# data gradient, and the normalised x̂ again; 11 operations an element.
NORMALIZATIONS = frozenset(
    {"BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization"}
    | {"RMSNormalization", "SimplifiedLayerNormalization"}
)
_NORMALIZATION_SIMPLE = 11


def backward_work(node: Node, formula: Operator, operands: tuple[Tensor, ...]) -> Cost:
    """The work of the gradients of ``operands``, the inputs of ``node`` that need one."""
    if not operands:
        return NOTHING
    forward = formula.cost(node)
    names = {tensor.name for tensor in operands}
    if node.op_type in PRODUCTS:
        return _product_backward(node, forward, names)
    if node.op_type in GATES:
        return _recurrent_backward(node, forward, names)
    if forward.macs:
        # Attention is two products, and both have two operands.
        is_attention = "Attention" in node.op_type
        factors = sum(node.has(i) and node.input(i).name in names for i in formula.operands)
        times = 2 if is_attention else factors
        return Cost(forward.macs * times, forward.simple, forward.functions)
    if node.op_type in NORMALIZATIONS:
        return Cost(simple=_NORMALIZATION_SIMPLE * node.output.n_elements)
    return _elementwise_backward(node, formula, forward, operands)


def _product_backward(node: Node, forward: Cost, names: set[str]) -> Cost:
    if node.op_type == "Einsum":
        return _einsum_backward(node, forward, names)
    factors = [t for t in node.inputs[:2] if t is not None and t.name in names]
    biases = [t for t in node.inputs[2:] if t is not None and t.name in names]
    sums = sum(max(node.output.n_elements - bias.n_elements, 0) for bias in biases)
    return Cost(macs=forward.macs) * len(factors) + Cost(simple=sums)


def _einsum_backward(node: Node, forward: Cost, names: set[str]) -> Cost:
    if len(node.present) == 1:
        return NOTHING  # a transposition, or a sum whose gradient is repeated
    factors = [tensor for tensor in node.present if tensor.name in names]
    if forward.macs:
        return Cost(macs=forward.macs) * len(factors)
    # Nothing was summed forwards: what an operand was repeated for is summed backwards.
    n_summed = sum(tensor.n_elements < node.output.n_elements for tensor in factors)
    return Cost(macs=forward.simple * n_summed, simple=forward.simple * (len(factors) - n_summed))


def is_subtracted(node: Node, tensor: Tensor) -> bool:
    """Whether ``tensor`` is the subtrahend of a Sub."""
    return node.op_type == "Sub" and node.input(1).name == tensor.name


def _recurrent_backward(node: Node, forward: Cost, names: set[str]) -> Cost:
    of_input, of_recurrence = recurrent_macs(node)
    macs = of_input * sum(node.input(position).name in names for position in (0, 1))
    if node.input(2).name in names:
        macs += of_recurrence
    # The gradient runs back from step to step, whether or not the data needs one; the
    # initial state needs none.
    n_steps = recurrent_sizes(node).n_steps
    macs += of_recurrence // max(n_steps, 1) * max(n_steps - 1, 0)
    return Cost(macs, forward.simple, forward.functions)


def _elementwise_backward(
    node: Node, formula: Operator, forward: Cost, operands: tuple[Tensor, ...]
) -> Cost:
    n = node.output.n_elements
    # A broadcast operand's gradient is summed over what it was repeated for.
    sums = (
        sum(max(n - operand.n_elements, 0) for operand in operands) if len(node.present) > 1 else 0
    )
    if formula.is_view or node.op_type in MOVING:
        if node.op_type == "Dropout":
            return Cost(simple=n)
        return Cost(simple=sums if node.op_type == "Expand" else 0)
    if node.op_type in PASSING:
        negations = sum(t.n_elements for t in operands if is_subtracted(node, t))
        return Cost(simple=sums + negations)
    names = {operand.name for operand in operands}
    used = [i for i, t in enumerate(node.inputs) if t is not None and t.name in names]
    each = [derivative(node, position) for position in used]
    if None in each:
        return Cost(simple=forward.simple, functions=forward.functions) * len(operands)
    if node.op_type in PICKING:
        sums = 0
    size = max(n, operands[0].n_elements) if node.op_type.startswith("Reduce") else n
    return sum((cost * size for cost in each if cost is not None), Cost(simple=sums))
