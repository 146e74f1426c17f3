"""Nodes numbered as a score numbers its layers, and labelled by these numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, inliner

from mansard.core.errors import ModelError
from mansard.core.formats.onnx import label
from mansard.estimator.model import Model, normal_domain
from mansard.estimator.model import all_nodes as nodes_of_model


@dataclass(frozen=True)
class Labelled:
    """``model`` with labels for names; ``nodes[n]`` is the node labelled n."""

    model: ModelProto
    nodes: tuple[NodeProto, ...]


def label_copy(model: ModelProto) -> Labelled:
    """As ``label_nodes``, but changes a copy."""
    copy = ModelProto()
    copy.CopyFrom(model)
    return label_nodes(copy)


def label_nodes(model: ModelProto) -> Labelled:
    """The model with functions inlined and its nodes labelled in place.

    The label of a node is the index that the estimator gives it, ``LayerScore.index``. A model with
    functions is copied.
    """
    if model.functions:
        model = inliner.inline_local_functions(model, convert_version=True)
    nodes = tuple(numbered_nodes(model.graph))
    for index, node in enumerate(nodes):
        node.name = label(index)
    return Labelled(model, nodes)


def check_numbers(labelled: Labelled, model: Model) -> None:
    """Raise ModelError where the estimator, which read ``model``, numbers the nodes differently."""
    expected = {node.index: (node.domain, node.op_type) for node in nodes_of_model(model.nodes)}
    numbered = {
        i: (normal_domain(node.domain), node.op_type) for i, node in enumerate(labelled.nodes)
    }
    if expected != numbered:
        raise ModelError(
            "its functions cannot be written out",
            fix="export it with the functions inlined (onnx.inliner.inline_local_functions)",
        )


def numbered_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Every node in the order of the estimator's indexes.

    The nodes of a graph come first, then those of the graphs inside it.
    """
    yield from graph.node
    for node in graph.node:
        for body in bodies(node):
            yield from numbered_nodes(body)


def bodies(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs inside ``node``."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def reads(node: NodeProto) -> Iterator[str]:
    """The tensors of its graph that ``node`` reads, also inside its bodies."""
    yield from filter(None, node.input)
    for body in bodies(node):
        written = {value.name for value in (*body.input, *body.initializer)}
        written |= {name for inner in body.node for name in inner.output}
        inner_reads = [name for inner in body.node for name in reads(inner)]
        yield from (
            name for name in (*inner_reads, *(o.name for o in body.output)) if name not in written
        )
