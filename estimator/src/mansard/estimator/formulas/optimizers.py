"""Steps of training that stand in the graph: ai.onnx.preview.training.

https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html, …_Adagrad, …_Momentum
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.optimizers import DOMAIN, GRADIENT, n_parameters
from mansard.estimator.tensors import Node

_SCALARS = (0, 1)


def _elements(node: Node) -> int:
    return sum(node.input(2 + i).n_elements for i in range(n_parameters(node)))


def _decay(node: Node, name: str = "norm_coefficient") -> int:
    """A product and a sum for each element where the weights decay."""
    return 2 if node.number(name, 0.0) else 0


@register("Adagrad", domain=DOMAIN, not_weights=_SCALARS)
def adagrad(node: Node) -> Cost:
    """H + g² (2), root and epsilon (1), x - r·g / … (3): 6 operations and a root an element.

    Weight decay adds 2; the rate of the step takes 3 once.
    """
    n = _elements(node)
    return Cost(simple=(6 + _decay(node)) * n + 3, functions=n)


@register("Momentum", domain=DOMAIN, not_weights=_SCALARS)
def momentum(node: Node) -> Cost:
    """V = a·V + b·g (3), x - r·V (2): 5 operations an element, 7 by Nesterov (g + a·V).

    Weight decay adds 2.
    """
    each = 7 if node.text("mode", "standard") == "nesterov" else 5
    return Cost(simple=(each + _decay(node)) * _elements(node))


@register("Adam", domain=DOMAIN, not_weights=_SCALARS)
def adam(node: Node) -> Cost:
    """V (3), H with g² (4), root and epsilon (1), x - r·V / … (3): 11 operations and a root.

    For each element; weight decay adds 2, decay after the step 1. The step's rate takes
    a root, two powers, and 5 operations once.
    """
    n = _elements(node)
    after = 1 if node.number("norm_coefficient_post", 0.0) else 0
    return Cost(simple=(11 + _decay(node) + after) * n + 5, functions=n + 3)


@register("Gradient", domain=DOMAIN)
def gradient(node: Node) -> Cost:
    """Refused: it differentiates a part of the graph that it only names."""
    raise node.error(GRADIENT)
