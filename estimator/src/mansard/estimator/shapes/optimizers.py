"""Steps of training that stand in the graph: ai.onnx.preview.training.

https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html, …_Adagrad, …_Momentum,
…_Gradient
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

DOMAIN = "ai.onnx.preview.training"

# operator -> tensors of each parameter: itself, its gradient, and its state
GROUPS = MappingProxyType({"Adagrad": 3, "Adam": 4, "Momentum": 3})


def n_parameters(node: Node) -> int:
    """How many tensors are trained; the first two inputs are learning rate and step count."""
    n, rest = divmod(len(node.inputs) - 2, GROUPS[node.op_type])
    if rest or n < 1:
        raise node.error(f"{len(node.inputs)} inputs are not 2 and a multiple of the tensors")
    return n


@rule(*GROUPS, domain=DOMAIN)
def _step(node: Node) -> Sequence[Spec]:
    """The parameters, then each state, as they are after the step."""
    n = n_parameters(node)
    parameters = [node.input(2 + i) for i in range(n)]
    for position in range(2, len(node.inputs)):
        tensor, parameter = node.input(position), parameters[(position - 2) % n]
        if tensor.shape != parameter.shape:
            raise node.error(f"{tensor.name!r} is not of the shape {list(parameter.shape)}")
    return [same(parameter) for parameter in parameters] * (GROUPS[node.op_type] - 1)


GRADIENT = (
    "it differentiates a part of the graph that it only names: take it out, and score the "
    "network's training step instead"
)


@rule("Gradient", domain=DOMAIN)
def _gradient(node: Node) -> str:
    return f"{node.label}: {GRADIENT}"
