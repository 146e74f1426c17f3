"""What a training step adds to an inference pass: gradients, saved activations, updates.

Everything is counted in the precision of the weights; copies in another precision, as
in mixed-precision training, are not counted.
"""

from __future__ import annotations

from types import MappingProxyType

import msgspec

from mansard.core.precision import Precision
from mansard.core.records import Optimizer
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.operators.indexing import PICKING
from mansard.estimator.operators.movement import MOVING
from mansard.estimator.operators.recurrent import GATES
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node, Tensor
from mansard.estimator.training.backward import (
    PASSING,
    PRODUCTS,
    backward_work,
    differentiable_tensors,
    is_subtracted,
    needing_gradient,
)
from mansard.estimator.training.saved import (
    checkpoint_bytes,
    extra_bytes,
    kept_tensors,
    recomputed_nodes,
    saved_bytes,
    segment_of,
    training_peak_bytes,
)
from mansard.estimator.weights import LayerWeights, weight_inputs

__all__ = [
    "NO_STEP",
    "OPTIMIZERS",
    "TrainingStep",
    "checkpoint_bytes",
    "differentiable_tensors",
    "recomputed_nodes",
    "saved_bytes",
    "segment_of",
    "state_bytes",
    "training_peak_bytes",
    "training_step",
]


class Update(msgspec.Struct, frozen=True):
    """Operations, accesses and kept elements for each learned element."""

    simple: int
    functions: int
    n_reads: int
    n_writes: int
    n_states: int


OPTIMIZERS: MappingProxyType[Optimizer, Update] = MappingProxyType(
    {
        "none": Update(0, 0, 0, 0, 0),
        # w := w - r·g
        "sgd": Update(2, 0, 2, 1, 0),
        # v := μ·v + g, w := w - r·v. Polyak, 1964, as PyTorch's SGD writes it:
        # https://pytorch.org/docs/stable/generated/torch.optim.SGD.html
        "momentum": Update(4, 0, 3, 2, 1),
        # m := a·m + (1 - a)·g (3), v := b·v + (1 - b)·g² (4), w := w - r·m / (√v + ε)
        # (4 and a root), with both bias corrections folded into r and ε once a step:
        # Kingma and Ba, 2015, section 2. https://arxiv.org/abs/1412.6980
        "adam": Update(11, 1, 4, 3, 2),
    }
)


def update_cost(weights: LayerWeights, optimizer: Optimizer, precision: Precision | None) -> Cost:
    """One update of all floating weights of a layer."""
    n, size = _floats(weights, precision)
    rule = OPTIMIZERS[optimizer]
    return Cost(
        simple=rule.simple * n,
        functions=rule.functions * n,
        read_bytes=rule.n_reads * size,
        write_bytes=rule.n_writes * size,
    )


def state_bytes(weights: LayerWeights, optimizer: Optimizer, precision: Precision | None) -> int:
    """Bytes of the state that ``optimizer`` keeps for a layer, beside its weights."""
    return OPTIMIZERS[optimizer].n_states * _floats(weights, precision)[1]


def _floats(weights: LayerWeights, precision: Precision | None) -> tuple[int, int]:
    floats = [weight for weight in weights.learned if weight.dtype.is_float]
    size = sum(weight.dtype.size_bytes(weight.n_elements, precision) for weight in floats)
    return sum(weight.n_elements for weight in floats), size


# The bytes of the backward pass.


def backward_traffic(
    node: Node, operator: Operator, operands: tuple[Tensor, ...], precision: Precision | None
) -> Cost:
    """Reads the outputs' gradients and what was saved, writes the operands' gradients."""
    if not operands or (operator.is_view and node.op_type != "Dropout"):
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
    saved = _saved_bytes(node, operator, operands, precision)
    return Cost(read_bytes=gradient + saved, write_bytes=results)


def _factors(node: Node) -> tuple[Tensor, ...]:
    if node.op_type == "Einsum":
        return node.present
    return node.input(0), node.input(1)


def _gradient_bytes(node: Node, precision: Precision | None) -> int:
    """Bytes of the output gradients: of all parts of a Split and all results of a recurrence."""
    if node.op_type == "Split" or node.op_type in GATES:
        return sum(output.n_bytes(precision) for output in node.outputs if output.name)
    return node.output.n_bytes(precision)


def _saved_bytes(
    node: Node, operator: Operator, operands: tuple[Tensor, ...], precision: Precision | None
) -> int:
    """Bytes that the forward pass saved for this node, and of its weights."""
    held = weight_inputs(node, operator)
    read = {id(tensor): tensor for tensor in kept_tensors(node, operands, operator.is_view)}
    read.update((id(tensor), tensor) for tensor in node.distinct if tensor.name in held)
    return extra_bytes(node, precision) + sum(t.n_bytes(precision) for t in read.values())


# One training step of a node.


class TrainingStep(msgspec.Struct, frozen=True):
    """What a training step adds to the forward pass of a node."""

    forward: Cost = NOTHING  # that only training's forward pass does
    backward: Cost = NOTHING
    update: Cost = NOTHING


NO_STEP = TrainingStep()


def training_step(
    node: Node,
    operator: Operator,
    weights: LayerWeights,
    differentiable: set[str],
    optimizer: Optimizer,
    precision: Precision | None,
) -> TrainingStep:
    """Backward pass and update of ``node``, and the extra work of its forward pass in training."""
    if node.is_constant:
        return NO_STEP
    operands = needing_gradient(node, operator, differentiable)
    backward = backward_work(node, operator, operands)
    moved = backward_traffic(node, operator, operands, precision)
    update = update_cost(weights, optimizer, precision)
    forward = _forward_extra(node, precision)
    if operands:
        forward += Cost(write_bytes=extra_bytes(node, precision))
    return TrainingStep(forward, backward + moved, update)


def _forward_extra(node: Node, precision: Precision | None) -> Cost:
    n = node.output.n_elements if node.outputs else 0
    if node.op_type == "BatchNormalization" and not node.integer("training_mode", 0):
        # Mean and variance of the batch, four more operations an element than inference.
        return Cost(simple=4 * n, functions=node.input(1).n_elements)
    if node.op_type == "Dropout":
        size = node.output.n_bytes(precision)
        return Cost(simple=n, read_bytes=size, write_bytes=size)
    return NOTHING
