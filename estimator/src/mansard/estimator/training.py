"""What a training step adds to an inference pass: gradients, and the optimizer.

For every operator: the gradient of each input that needs one. An input needs one if
it is a weight, or computed from a weight; so the first layer has no data gradient.
A convolution or matrix product costs as much again for each such operand. The
optimizer is plain SGD, w := w - rate·g, for each learned element one multiplication,
one subtraction, two reads and one write. Not counted: the loss itself, adding up the
gradients of a tensor that several nodes read, and recomputation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost, Formula
from mansard.estimator.derivatives import derivative
from mansard.estimator.formulas.movement import MOVING, PICKING
from mansard.estimator.formulas.recurrent import recurrent_macs
from mansard.estimator.shapes.recurrent import GATES, recurrent_sizes
from mansard.estimator.tensors import Node, Tensor
from mansard.estimator.weights import LayerWeights, is_weight, slots

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum"})

# The gradient goes on as it is: no work, and no bytes where shapes are equal. What was
# subtracted gets it negated.
PASSING = frozenset({"Add", "Sub", "Sum", "Identity"})

# Normalisations give all their gradients in one go: two sums over dy and dy·x̂, the
# data gradient, and the normalised x̂ again; 11 operations an element.
_NORMALIZATIONS = frozenset(
    {"BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization"}
    | {"RMSNormalization"}
)
_NORMALIZATION_SIMPLE = 11


def differentiable_tensors(
    nodes: Iterable[Node], find: Callable[[Node], Formula | None]
) -> set[str]:
    """Names of the tensors that need a gradient: those computed from a learned weight."""
    names: set[str] = set()
    for node in nodes:
        if node.is_constant:
            continue
        if _operands(node, find(node), names):
            names.update(o.name for o in node.outputs if o.name and o.dtype.is_float)
    return names


class Step(msgspec.Struct, frozen=True):
    """What a training step adds to the forward pass of a node."""

    forward: Cost = NOTHING  # that only training's forward pass does
    backward: Cost = NOTHING
    update: Cost = NOTHING


NO_STEP = Step()


def training_step(
    node: Node,
    formula: Formula,
    weights: LayerWeights,
    differentiable: set[str],
    precision: Precision | None,
) -> Step:
    """Backward pass and update of ``node``, and what its forward pass does more in training."""
    if node.is_constant:
        return NO_STEP
    operands = _operands(node, formula, differentiable)
    backward = _backward(node, formula, operands)
    moved = _backward_traffic(node, formula, operands, precision)
    return Step(_forward_extra(node, precision), backward + moved, _update(weights, precision))


def _operands(node: Node, formula: Formula | None, differentiable: set[str]) -> tuple[Tensor, ...]:
    """The distinct inputs that need a gradient."""
    learned = {
        tensor.name
        for tensor, is_statistic in slots(node, formula)
        if not is_statistic and tensor.dtype.is_float and any(map(is_weight, tensor.weights))
    }
    if not any(output.dtype.is_float for output in node.outputs):
        return ()
    return tuple(
        tensor
        for tensor in node.distinct
        if tensor.name in learned or (tensor.name in differentiable and tensor.dtype.is_float)
    )


def _forward_extra(node: Node, precision: Precision | None) -> Cost:
    n = node.output.n_elements
    if node.op_type == "BatchNormalization" and not node.integer("training_mode", 0):
        # Mean and variance of the batch, four more operations an element than inference.
        return Cost(simple=4 * n, functions=node.input(1).n_elements)
    if node.op_type == "Dropout":
        size = node.output.n_bytes(precision)
        return Cost(simple=n, read_bytes=size, write_bytes=size)
    return NOTHING


def _backward(node: Node, formula: Formula, operands: tuple[Tensor, ...]) -> Cost:
    if not operands:
        return NOTHING
    forward = formula.function(node)
    names = {tensor.name for tensor in operands}
    if node.op_type in PRODUCTS:
        return _product_backward(node, forward, names)
    if node.op_type in GATES:
        return _recurrent_backward(node, forward, names)
    if forward.macs:
        # Attention: both of its products have two operands.
        return Cost(2 * forward.macs, forward.simple, forward.functions)
    if node.op_type in _NORMALIZATIONS:
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


def _is_subtracted(node: Node, tensor: Tensor) -> bool:
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
    node: Node, formula: Formula, forward: Cost, operands: tuple[Tensor, ...]
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
        negations = sum(t.n_elements for t in operands if _is_subtracted(node, t))
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


def _backward_traffic(
    node: Node, formula: Formula, operands: tuple[Tensor, ...], precision: Precision | None
) -> Cost:
    """Reads the output's gradient and what was saved, writes the operands' gradients."""
    if not operands or (formula.is_view and node.op_type != "Dropout"):
        return NOTHING
    gradient = node.output.n_bytes(precision)
    results = sum(operand.n_bytes(precision) for operand in operands)
    inputs = sum(tensor.n_bytes(precision) for tensor in node.distinct if tensor.dtype.is_float)
    if node.op_type in PASSING:
        made = [o for o in operands if o.shape != node.output.shape or _is_subtracted(node, o)]
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


def _update(weights: LayerWeights, precision: Precision | None) -> Cost:
    floats = [weight for weight in weights.learned if weight.dtype.is_float]
    size = sum(weight.dtype.size_bytes(weight.n_elements, precision) for weight in floats)
    n = sum(weight.n_elements for weight in floats)
    return Cost(simple=2 * n, read_bytes=2 * size, write_bytes=size)
