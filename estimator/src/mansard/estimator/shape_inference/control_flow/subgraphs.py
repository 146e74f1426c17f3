"""Running a graph inside a node: what it reads from outside, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mansard.estimator.model import StoredTensor, Subgraph
from mansard.estimator.shape_inference.context import InferenceContext
from mansard.estimator.tensors import Body, Node, Origin, Pass, Tensor, Weight


class GraphRun(msgspec.Struct, frozen=True, eq=False):
    """One run of a graph inside a node."""

    nodes: tuple[Node, ...]
    outputs: tuple[Tensor, ...]


class InnerGraph(msgspec.Struct, frozen=True, eq=False):
    """The graph in attribute ``name`` of ``node``, ready to run.

    ``base`` holds the tensors that it stores and those that it captures from outside.
    """

    node: Node
    name: str
    graph: Subgraph
    base: Mapping[str, Tensor]
    context: InferenceContext

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.graph.outputs)

    def aside(self, is_proof: bool) -> InnerGraph:
        """The same graph, run for an answer alone: its notes are dropped."""
        is_proof = is_proof or self.context.is_proof
        context = msgspec.structs.replace(
            self.context, is_proof=is_proof, notes={}, used=set(), bounds={}
        )
        return msgspec.structs.replace(self, context=context)

    def enter(self, inputs: Sequence[Tensor], n_nodes: int) -> dict[str, Tensor]:
        """All tensors that are known when the graph starts and ``n_nodes`` of it will run."""
        names = [source.name for source in self.graph.inputs]
        if len(names) != len(inputs):
            raise self.node.error(f"its graph takes {len(names)} inputs, not {len(inputs)}")
        self.context.budget.enter(n_nodes, self.context.loop or self.node)
        return {
            **self.base,
            **{name: renamed(t, name) for name, t in zip(names, inputs, strict=True)},
        }

    def run(self, inputs: Sequence[Tensor]) -> GraphRun:
        """Infer the shapes of the graph's nodes; raises ModelError as they do."""
        tensors = self.enter(inputs, len(self.graph.nodes))
        nodes = self.context.infer_nodes(self.graph.nodes, tensors, self.context)
        missing = [name for name in self.output_names if name not in tensors]
        if missing:
            raise self.node.error(f"nothing in its graph writes {missing[0]!r}")
        return GraphRun(nodes, tuple([tensors[name] for name in self.output_names]))

    def body(self, passes: Sequence[Pass], is_taken: bool = True) -> Body:
        """The graph with the passes that ran."""
        inputs = tuple(source.name for source in self.graph.inputs)
        return Body(self.name, inputs, self.output_names, tuple(passes), is_taken)


def open_graph(
    node: Node, name: str, outer: Mapping[str, Tensor], context: InferenceContext
) -> InnerGraph:
    """The graph in attribute ``name``; raises ModelError where there is none."""
    graph = node.attributes.get(name)
    if not isinstance(graph, Subgraph):
        raise node.error(f"attribute {name!r} must hold a graph")
    scope = f"{context.scope}{node.index}.{name}/"
    base = {captured: outer[captured] for captured in graph.captured}
    base.update(stored_tensors(graph.stored, scope))
    loop = context.loop if node.op_type == "If" else node
    inner = msgspec.structs.replace(context, scope=scope, loop=loop)
    return InnerGraph(node, name, graph, base, inner)


def stored_tensors(stored: Mapping[str, StoredTensor], scope: str) -> dict[str, Tensor]:
    """The tensors that a graph stores; equal names in other graphs are other weights."""
    return {
        name: Tensor(
            held.name,
            held.dtype,
            held.shape,
            Origin.FILE,
            held.value,
            (Weight(scope + name, held.dtype, held.shape),),
        )
        for name, held in stored.items()
    }


def renamed(tensor: Tensor, name: str) -> Tensor:
    """The same tensor under another name."""
    return tensor if tensor.name == name else msgspec.structs.replace(tensor, name=name)


def node_outputs(node: Node, results: Sequence[Tensor], least: Origin) -> tuple[Tensor, ...]:
    """The graph's results as the node's outputs, which depend on ``least`` as well."""
    if len(node.output_names) > len(results):
        raise node.error(f"writes {len(node.output_names)} outputs, not {len(results)}")
    pairs = zip(node.output_names, results, strict=False)
    return tuple(renamed(at_least(tensor, least), name) for name, tensor in pairs)


def at_least(tensor: Tensor, origin: Origin) -> Tensor:
    """The tensor, dependent on ``origin`` too; what depends on data has no value."""
    if tensor.origin >= origin:
        return tensor
    items = tensor.items
    if items is not None:
        items = tuple(at_least(item, origin) for item in items)
    if origin is Origin.DATA:
        return Tensor(
            tensor.name, tensor.dtype, tensor.shape, origin, unknown=tensor.unknown, items=items
        )
    return msgspec.structs.replace(tensor, origin=origin, items=items)
