"""Whether iterations look alike: the same shapes, types and origins in every node."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.sequences import same_spec, same_value, without_value
from mansard.estimator.tensors import Body, Node, Tensor


def widened(one: Tensor, other: Tensor) -> Tensor:
    """Two tensors of one look as one; its value is known only if they agree in it."""
    return one if same_value(one, other) else without_value(one)


def same_nodes(one: Sequence[Node], other: Sequence[Node]) -> bool:
    """Whether two runs of a graph did the same work; values may differ."""
    return one is other or (len(one) == len(other) and all(map(_same_node, one, other)))


def _same_node(one: Node, other: Node) -> bool:
    return (
        len(one.outputs) == len(other.outputs)
        and all(map(same_spec, one.outputs, other.outputs))
        and all(map(same_spec, one.present, other.present))
        and _same_bodies(one, other)
    )


def _same_bodies(one: Node, other: Node) -> bool:
    if not one.bodies and not other.bodies:
        return True
    # What is not executed is shown once, whatever it would be in another iteration.
    ours = [body for body in one.bodies if body.is_taken]
    theirs = [body for body in other.bodies if body.is_taken]
    return len(ours) == len(theirs) and all(map(_same_body, ours, theirs))


def _same_body(one: Body, other: Body) -> bool:
    if one.name != other.name:
        return False
    return len(one.passes) == len(other.passes) and all(
        each.times == its.times and same_nodes(each.nodes, its.nodes)
        for each, its in zip(one.passes, other.passes, strict=True)
    )
