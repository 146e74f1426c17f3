"""A copy of a model whose nodes have names of their own.

Names of nodes may be empty or doubled, and ONNX Runtime writes its own in front of those
of a branch that it moves out of an If. A label survives that: events are told apart by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, inliner

_LABEL = re.compile(r"@(\d+)@")


@dataclass(frozen=True)
class Labelled:
    """``model`` with labels for names; ``nodes[n]`` is the node labelled n."""

    model: ModelProto
    nodes: tuple[NodeProto, ...]


def label(model: ModelProto) -> Labelled:
    """A copy without model-local functions (they are inlined), labelled depth first."""
    copy = ModelProto()
    copy.CopyFrom(model)
    if copy.functions:
        copy = inliner.inline_local_functions(copy)
    nodes = tuple(all_nodes(copy.graph))
    for number, node in enumerate(nodes):
        node.name = f"@{number}@"
    return Labelled(copy, nodes)


def label_of(name: str) -> int | None:
    """The number in a name that holds a label, whatever was written around it."""
    found = _LABEL.findall(name)
    return int(found[-1]) if found else None


def all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """Every node of ``graph`` and of the graphs inside its nodes, a node before its bodies."""
    for node in graph.node:
        yield node
        for body in bodies(node):
            yield from all_nodes(body)


def bodies(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that ``node`` holds."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs
