"""One pass through a network that gives every tensor its shape, and small ones their value.

All dimensions of the inputs are numbers by then (``dimensions``), so everything that
is computed from shapes, as exported transformers do in the graph, becomes a number too.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.branch_cost import branch_cost
from mansard.estimator.control_flow import OPERATORS as CONTROL_FLOW
from mansard.estimator.control_flow.course import MAX_PLACEMENTS, Budget, CostOf, Course
from mansard.estimator.control_flow.frames import stored_tensors
from mansard.estimator.dimensions import Binding
from mansard.estimator.given import NOTHING_GIVEN, Given
from mansard.estimator.inputs import with_value
from mansard.estimator.looks import Looks
from mansard.estimator.model import Model
from mansard.estimator.open_dimensions import check_used
from mansard.estimator.placement import RANDOM, place_node, place_nodes
from mansard.estimator.tensors import Node, Tensor

__all__ = ["Network", "Prepared", "prepare", "propagate"]


class Network(msgspec.Struct, frozen=True, eq=False):
    """A network with all its shapes, and what could not be worked out.

    ``notes`` are choices that were made where the file leaves one.
    """

    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    notes: tuple[str, ...] = ()


class Prepared(msgspec.Struct, frozen=True, eq=False):
    """What follows from the file alone: its stored tensors and what is computed from them."""

    nodes: Mapping[int, Node]
    tensors: Mapping[str, Tensor]
    looks: Looks


def prepare(model: Model) -> Prepared:
    """The nodes that are the same whatever the dimensions; never raises for a broken one."""
    tensors = stored_tensors(model.stored, "")
    looks = Looks()
    course = _course(model, NOTHING_GIVEN, branch_cost, MAX_PLACEMENTS, looks)
    nodes: dict[int, Node] = {}
    for written in model.nodes:
        if written.op_type in CONTROL_FLOW or written.op_type in RANDOM:
            continue
        if not all([not name or name in tensors for name in written.inputs]):  # noqa: C419
            continue
        try:
            node = place_node(written, tensors, course)
        except ModelError:
            continue  # what is wrong with it is said where the network is placed
        if any(output.unknown is not None for output in node.outputs):
            for name in written.outputs:
                tensors.pop(name, None)
        else:
            nodes[written.index] = node
    return Prepared(nodes, tensors, looks)


def propagate(
    model: Model,
    binding: Binding,
    prepared: Prepared | None = None,
    cost_of: CostOf = branch_cost,
    max_placements: int = MAX_PLACEMENTS,
) -> Network:
    """Shapes of all tensors; an input may have the reason why its shape is unknown.

    ``prepared`` saves the work that does not depend on dimensions. ``cost_of`` decides
    between the branches of an If whose condition depends on data; ``max_placements``
    bounds the nodes that are placed inside loops, iteration by iteration.
    Raises ModelError where the file contradicts itself or the given dimensions,
    UsageError where what is given contradicts the file.
    """
    given = binding.given
    if prepared is None or not given.values.keys().isdisjoint(prepared.tensors):
        prepared = Prepared({}, stored_tensors(model.stored, ""), Looks())
    tensors = {**prepared.tensors, **binding.tensors}
    for name in given.values.keys() & model.stored.keys():
        tensors[name] = with_value(tensors[name], given.values[name])
    course = _course(model, given, cost_of, max_placements, prepared.looks)
    ready = prepared.nodes
    nodes = tuple(
        [
            ready.get(written.index) or place_node(written, tensors, course)
            for written in model.nodes
        ]
    )
    check_used(tensors, course)
    return Network(nodes, tensors, tuple(course.notes))


def _course(
    model: Model, given: Given, cost_of: CostOf, max_placements: int, looks: Looks
) -> Course:
    declared = {output.name: output.dimensions or () for output in model.outputs}
    inputs = frozenset(source.name for source in model.inputs)
    return Course(
        place_nodes,
        cost_of,
        given,
        declared,
        Budget(max_placements),
        inputs,
        {},
        set(),
        looks,
    )
