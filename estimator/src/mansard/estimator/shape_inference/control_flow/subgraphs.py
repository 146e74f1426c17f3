"""Running a graph inside a node: what it sees, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mansard.estimator.model import StoredTensor, Subgraph
from mansard.estimator.shape_inference.context import InferenceContext
from mansard.estimator.tensors import Node, Origin, Tensor, Weight


class Frame(msgspec.Struct, frozen=True, eq=False):
    """A graph inside a node, ready to run: what it stores and captures is there."""

    node: Node
    graph: Subgraph
    base: Mapping[str, Tensor]
    context: InferenceContext


class Ran(msgspec.Struct, frozen=True, eq=False):
    """One run of such a graph."""

    nodes: tuple[Node, ...]
    outputs: tuple[Tensor, ...]


def stored_tensors(stored: Mapping[str, StoredTensor], scope: str) -> dict[str, Tensor]:
    """The tensors a graph stores; equal names in other graphs are other weights."""
    return {
        name: from_file(held, Weight(scope + name, held.dtype, held.shape))
        for name, held in stored.items()
    }


def from_file(held: StoredTensor, weight: Weight) -> Tensor:
    """The tensor of what a file stores."""
    return Tensor(held.name, held.dtype, held.shape, Origin.FILE, held.value, (weight,))


def open_graph(
    node: Node, name: str, outer: Mapping[str, Tensor], context: InferenceContext
) -> Frame:
    """The graph in attribute ``name``; raises ModelError where there is none."""
    graph = node.attributes.get(name)
    if not isinstance(graph, Subgraph):
        raise node.error(f"attribute {name!r} must hold a graph")
    scope = f"{context.scope}{node.index}.{name}/"
    base = {captured: outer[captured] for captured in graph.captured}
    base.update(stored_tensors(graph.stored, scope))
    loop = context.loop if node.op_type == "If" else node
    return Frame(node, graph, base, msgspec.structs.replace(context, scope=scope, loop=loop))


def run_graph(frame: Frame, inputs: Sequence[Tensor]) -> Ran:
    """Infer the shapes of the graph's nodes with these inputs; raises ModelError as they do."""
    tensors = enter(frame, inputs, len(frame.graph.nodes))
    nodes = frame.context.infer_nodes(frame.graph.nodes, tensors, frame.context)
    missing = [output.name for output in frame.graph.outputs if output.name not in tensors]
    if missing:
        raise frame.node.error(f"nothing in its graph writes {missing[0]!r}")
    return Ran(nodes, tuple(tensors[output.name] for output in frame.graph.outputs))


def enter(frame: Frame, inputs: Sequence[Tensor], n_nodes: int) -> dict[str, Tensor]:
    """All that is known when the graph starts; ``n_nodes`` of it will be placed."""
    names = [source.name for source in frame.graph.inputs]
    if len(names) != len(inputs):
        raise frame.node.error(f"its graph takes {len(names)} inputs, not {len(inputs)}")
    frame.context.budget.enter(n_nodes, frame.context.loop or frame.node)
    tensors = dict(frame.base)
    for name, tensor in zip(names, inputs, strict=True):
        tensors[name] = renamed(tensor, name)
    return tensors


def renamed(tensor: Tensor, name: str) -> Tensor:
    """The same tensor under another name."""
    if tensor.name == name:
        return tensor
    return msgspec.structs.replace(tensor, name=name)


def given_out(node: Node, results: Sequence[Tensor], least: Origin) -> tuple[Tensor, ...]:
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


def names_in(frame: Frame) -> tuple[str, ...]:
    """The names of the graph's own inputs."""
    return tuple(source.name for source in frame.graph.inputs)


def names_out(frame: Frame) -> tuple[str, ...]:
    """The names of the graph's outputs."""
    return tuple(output.name for output in frame.graph.outputs)
