"""Which tensors need a gradient: those that are learned, or computed from what is.

So the first layer has no data gradient, and a weight that is not there has none either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mansard.estimator.operators.registry import Operator
from mansard.estimator.tensors import Body, Node, Tensor
from mansard.estimator.weights import is_weight, slots

FindFormula = Callable[[Node], "Operator | None"]


def differentiable_tensors(nodes: Iterable[Node], find: FindFormula) -> set[str]:
    """Names of the computed tensors that need a gradient, those of inner graphs included."""
    names: set[str] = set()
    _collect(nodes, find, names)
    return names


def needing_gradient(
    node: Node, formula: Operator | None, differentiable: set[str]
) -> tuple[Tensor, ...]:
    """The distinct inputs of ``node`` that need a gradient."""
    if not any(output.dtype.is_float for output in node.outputs):
        return ()
    learned = {
        tensor.name
        for tensor, is_statistic in slots(node, formula)
        if not is_statistic and tensor.dtype.is_float and any(map(is_weight, tensor.weights))
    }
    return tuple(
        tensor
        for tensor in node.distinct
        if tensor.name in learned or (tensor.name in differentiable and tensor.dtype.is_float)
    )


def _collect(nodes: Iterable[Node], find: FindFormula, names: set[str]) -> None:
    for node in nodes:
        if node.is_constant:
            continue
        if node.bodies:
            _collect_inside(node, find, names)
        elif needing_gradient(node, find(node), names):
            names.update(o.name for o in node.outputs if o.name and o.dtype.is_float)


def _collect_inside(node: Node, find: FindFormula, names: set[str]) -> None:
    for body in node.bodies:
        given = [tensor.name if tensor is not None else "" for tensor in node.inputs]
        _hand_on(given, body.inputs, names)
        before = -1
        # What a pass makes differentiable is so in the next one: until nothing changes.
        while before != len(names):
            before = len(names)
            for each in body.passes:
                _collect(each.nodes, find, names)
            _hand_on(*_carried(node, body), names)
        _hand_on(body.outputs, [output.name for output in node.outputs], names)


def _carried(node: Node, body: Body) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What one iteration hands to the next: names of a body's outputs and inputs."""
    if node.op_type == "Loop":
        inputs = body.inputs[2:]  # behind the iteration's number and the condition
        return body.outputs[1 : 1 + len(inputs)], inputs
    if node.op_type == "Scan":
        n_states = len(body.inputs) - node.integer("num_scan_inputs", 0)
        return body.outputs[:n_states], body.inputs[:n_states]
    return (), ()


def _hand_on(sources: Iterable[str], targets: Iterable[str], names: set[str]) -> None:
    # A Loop's body has the condition before its outputs, the first Scan the lengths
    # before its inputs: both lists fit from their ends.
    pairs = zip(reversed(list(sources)), reversed(list(targets)), strict=False)
    names.update(target for source, target in pairs if source in names and target)
