"""One training step of a node."""

from __future__ import annotations

import msgspec

from mansard.core.precision import Precision
from mansard.core.records import Optimizer
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Node
from mansard.estimator.training.backward import backward_work
from mansard.estimator.training.backward_traffic import backward_traffic
from mansard.estimator.training.gradients import needing_gradient
from mansard.estimator.training.optimizers import update_cost
from mansard.estimator.training.saved import extra_bytes
from mansard.estimator.weights import LayerWeights


class Step(msgspec.Struct, frozen=True):
    """What a training step adds to the forward pass of a node."""

    forward: Cost = NOTHING  # that only training's forward pass does
    backward: Cost = NOTHING
    update: Cost = NOTHING


NO_STEP = Step()


def training_step(
    node: Node,
    formula: Operator,
    weights: LayerWeights,
    differentiable: set[str],
    optimizer: Optimizer,
    precision: Precision | None,
) -> Step:
    """Backward pass and update of ``node``, and what its forward pass does more in training."""
    if node.is_constant:
        return NO_STEP
    operands = needing_gradient(node, formula, differentiable)
    backward = backward_work(node, formula, operands)
    moved = backward_traffic(node, formula, operands, precision)
    update = update_cost(weights, optimizer, precision)
    forward = _forward_extra(node, precision)
    if operands:
        forward += Cost(write_bytes=extra_bytes(node, precision))
    return Step(forward, backward + moved, update)


def _forward_extra(node: Node, precision: Precision | None) -> Cost:
    n = node.output.n_elements if node.outputs else 0
    if node.op_type == "BatchNormalization" and not node.integer("training_mode", 0):
        # Mean and variance of the batch, four more operations an element than inference.
        return Cost(simple=4 * n, functions=node.input(1).n_elements)
    if node.op_type == "Dropout":
        size = node.output.n_bytes(precision)
        return Cost(simple=n, read_bytes=size, write_bytes=size)
    return NOTHING
