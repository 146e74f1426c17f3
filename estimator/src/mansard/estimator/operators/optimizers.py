"""Steps of training that stand in the graph: ai.onnx.preview.training.

https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html, …_Adagrad, …_Momentum,
…_Gradient
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType

from mansard.estimator.cost import Cost
from mansard.estimator.operators.costs import refused, refused_shape
from mansard.estimator.operators.registry import Specs, operator
from mansard.estimator.operators.shapes import same
from mansard.estimator.tensors import Node

optimizer = partial(operator, domain="ai.onnx.preview.training")

# operator -> tensors of each parameter: itself, its gradient, and its state
_GROUPS = MappingProxyType({"Adagrad": 3, "Adam": 4, "Momentum": 3})


def _n_parameters(node: Node) -> int:
    """How many tensors are trained; the first two inputs are learning rate and step count."""
    n, rest = divmod(len(node.inputs) - 2, _GROUPS[node.op_type])
    if rest or n < 1:
        raise node.error(f"{len(node.inputs)} inputs are not 2 and a multiple of the tensors")
    return n


def _step_shape(node: Node) -> Specs:
    """The parameters, then each state, as they are after the step."""
    n = _n_parameters(node)
    parameters = [node.input(2 + i) for i in range(n)]
    for position in range(2, len(node.inputs)):
        tensor, parameter = node.input(position), parameters[(position - 2) % n]
        if tensor.shape != parameter.shape:
            raise node.error(f"{tensor.name!r} is not of the shape {list(parameter.shape)}")
    return [same(parameter) for parameter in parameters] * (_GROUPS[node.op_type] - 1)


def _elements(node: Node) -> int:
    return sum(node.input(2 + i).n_elements for i in range(_n_parameters(node)))


def _decay(node: Node) -> int:
    """A product and a sum for each element where the weights decay."""
    return 2 if node.number("norm_coefficient", 0.0) else 0


@optimizer("Adagrad", shape=_step_shape, not_weights=(0, 1))
def adagrad(node: Node) -> Cost:
    """6 operations and a root for each element; weight decay 2; the rate 3 once."""
    n = _elements(node)
    return Cost(simple=(6 + _decay(node)) * n + 3, functions=n)


@optimizer("Momentum", shape=_step_shape, not_weights=(0, 1))
def momentum(node: Node) -> Cost:
    """5 operations for each element, 7 with Nesterov; weight decay 2."""
    each = 7 if node.text("mode", "standard") == "nesterov" else 5
    return Cost(simple=(each + _decay(node)) * _elements(node))


@optimizer("Adam", shape=_step_shape, not_weights=(0, 1))
def adam(node: Node) -> Cost:
    """11 operations and a root for each element; weight decay 2, decay after it 1.

    The rate: 5 operations, a root and 2 powers once.
    """
    n = _elements(node)
    after = 1 if node.number("norm_coefficient_post", 0.0) else 0
    return Cost(simple=(11 + _decay(node) + after) * n + 5, functions=n + 3)


_GRADIENT = (
    "it differentiates a part of the graph that it only names: take it out, and score the "
    "network's training step instead"
)
optimizer("Gradient", shape=refused_shape(_GRADIENT))(refused(_GRADIENT))
