"""If: the branch that is executed, or the more expensive one where that depends on data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.model import Subgraph
from mansard.estimator.operators import REGISTRY
from mansard.estimator.shape_inference.context import InferenceContext, Outputs, UndecidedError
from mansard.estimator.shape_inference.control_flow.subgraphs import (
    GraphRun,
    InnerGraph,
    node_outputs,
    open_graph,
)
from mansard.estimator.shape_inference.sequences import same_spec
from mansard.estimator.tensors import Node, Origin, Pass, Tensor

THEN, ELSE = "then_branch", "else_branch"


def infer_if(node: Node, outer: Mapping[str, Tensor], context: InferenceContext) -> Outputs:
    """Outputs and branches. Where the condition is known, the other branch need not fit.

    Where it depends on data, the branch that costs more is taken, with a note.
    """
    condition = node.input(0)
    graphs = {name: open_graph(node, name, outer, context) for name in (THEN, ELSE)}
    for name, inner in graphs.items():
        n_results = len(inner.output_names)
        if n_results < len(node.output_names):
            raise node.error(f"writes {len(node.output_names)} outputs, {name} only {n_results}")
    # A branch that is chosen by an upper bound may be another one in truth.
    if condition.value is not None and condition.name not in context.bounded:
        if condition.value.n_elements != 1:
            raise node.error(f"its condition has {condition.value.n_elements} elements, not 1")
        taken = THEN if condition.value.first else ELSE
        ran = graphs[taken].run(())
        other = ELSE if taken == THEN else THEN
        attempt = None if context.is_proof else _attempt(graphs[other], quiet=True)
        return _result(node, graphs, {taken: ran, other: attempt}, taken, condition.origin)
    if context.is_proof and condition.value is None and condition.origin is not Origin.DATA:
        raise UndecidedError("a condition changes between iterations", where=node.label)
    return _dearer(node, graphs, condition, context)


def _dearer(
    node: Node, graphs: dict[str, InnerGraph], condition: Tensor, context: InferenceContext
) -> Outputs:
    ran = {name: _attempt(inner) for name, inner in graphs.items()}
    fitting = {name: found for name, found in ran.items() if isinstance(found, GraphRun)}
    if not fitting:
        raise next(found for found in ran.values() if isinstance(found, ModelError))
    taken = max(fitting, key=lambda name: _price(fitting[name]))
    why = "depends on data" if condition.origin is Origin.DATA else "cannot be worked out"
    if condition.value is not None:
        why = "follows from an upper bound"
    note = f"{node.label}: its condition {condition.name!r} {why}"
    if len(fitting) == 1:
        note += f"; {taken} is counted, the other does not fit these shapes"
    else:
        note += f"; the dearer branch, {taken}, is counted"
        pairs = zip(fitting[THEN].outputs, fitting[ELSE].outputs, strict=False)
        if not all(_look_alike(*pair) for pair in pairs):
            note += ", whose outputs differ in shape from the other's"
    if _can_be_given(condition, context):
        name = condition.name
        note += f"; pass --value '{name}=true' for {THEN}, or '{name}=false' for {ELSE}"
    context.notes[note] = None
    return _result(node, graphs, ran, taken, Origin.DATA)


def _can_be_given(condition: Tensor, context: InferenceContext) -> bool:
    """Whether ``--value`` can state the condition: what a loop hands to its graph has no value."""
    graphs = () if context.loop is None else context.loop.attributes.values()
    inner = {own.name for graph in graphs if isinstance(graph, Subgraph) for own in graph.inputs}
    return condition.unknown is None and condition.name not in inner


def _price(ran: GraphRun) -> tuple[bool, int, int]:
    # What is unknown may be anything: it has to be told before branches can be compared.
    has_unknown = any(tensor.unknown for node in ran.nodes for tensor in node.outputs)
    return has_unknown, *(_branch_cost(ran.nodes) if not has_unknown else (0, 0))


def _branch_cost(nodes: Sequence[Node]) -> tuple[int, int]:
    """Work (FLOP) and bytes of ``nodes`` and of what runs inside them.

    Operators without a formula count their bytes only. Bytes are those of all tensors
    that a node reads and writes: enough to compare, and the same for every operator.
    """
    work_flop = n_bytes = 0
    for node in nodes:
        for body in node.bodies:
            for each in body.passes if body.is_taken else ():
                inner = _branch_cost(each.nodes)
                work_flop += each.times * inner[0]
                n_bytes += each.times * inner[1]
        if node.is_constant:
            continue
        operator = REGISTRY.find(node.domain, node.op_type)
        if operator is not None:
            work_flop += operator.cost(node).work_flop
        if operator is None or not operator.is_view:
            n_bytes += sum(tensor.n_bytes(None) for tensor in (*node.distinct, *node.outputs))
    return work_flop, n_bytes


def _look_alike(one: Tensor, other: Tensor) -> bool:
    return same_spec(
        msgspec.structs.replace(one, origin=Origin.DATA),
        msgspec.structs.replace(other, origin=Origin.DATA),
    )


def _attempt(inner: InnerGraph, quiet: bool = False) -> GraphRun | ModelError:
    """The branch, or why it does not fit. ``quiet``: what it notes is of no interest."""
    try:
        return (inner.aside(is_proof=False) if quiet else inner).run(())
    except ModelError as error:
        return error


def _result(
    node: Node,
    graphs: dict[str, InnerGraph],
    shown: Mapping[str, GraphRun | ModelError | None],
    taken: str,
    origin: Origin,
) -> Outputs:
    bodies = tuple(
        graphs[name].body((Pass(ran.nodes, 1),), name == taken)
        for name in (THEN, ELSE)
        if isinstance(ran := shown[name], GraphRun)
    )
    chosen = shown[taken]
    assert isinstance(chosen, GraphRun)  # noqa: S101
    return node_outputs(node, chosen.outputs, origin), bodies
