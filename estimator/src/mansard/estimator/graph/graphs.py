"""Graphs: from the message GraphProto to nodes, inputs, outputs and stored tensors.

onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); keys are
8 · field + kind. ``value_info``, the shapes that the exporter noted down, is skipped:
they hold for the dimensions of one export only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from mansard.core.errors import ModelError
from mansard.estimator.graph.attributes import GraphBytes
from mansard.estimator.graph.declarations import read_declared
from mansard.estimator.graph.limits import MAX_GRAPH_DEPTH, MAX_NODES, Budget, too_deep, too_many
from mansard.estimator.graph.nodes import NodeReader
from mansard.estimator.graph.order import reads, sort_nodes
from mansard.estimator.graph.protobuf import messages
from mansard.estimator.graph.stored import read_stored, read_stored_sparse
from mansard.estimator.model import ModelInput, ModelNode, StoredTensor, Subgraph

_NODE, _STORED, _INPUT, _OUTPUT, _SPARSE = 10, 42, 90, 98, 122
GRAPH_KEYS = frozenset({_NODE, _STORED, _INPUT, _OUTPUT, _SPARSE})

Fields = Iterable[tuple[int, bytes]]  # by their keys


class Parts(NamedTuple):
    """A graph as it stands in the file; its nodes in the file's order."""

    nodes: list[ModelNode]
    inputs: list[ModelInput]
    outputs: list[ModelInput]
    stored: dict[str, StoredTensor]


class GraphReader:
    """Reads the graphs of one model, and gives each node an index of its own.

    The nodes of a graph have consecutive indexes; those of graphs inside it follow.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._reader = NodeReader(budget)
        self._n_nodes = 0

    def graph(self, fields: Fields, opsets: Mapping[str, int], depth: int = 0) -> Parts:
        """The graph with these fields; raises ModelError where it is damaged."""
        nodes, others = self.nodes(fields, _NODE, opsets, depth)
        parts = Parts(nodes, [], [], {})
        n_stored = 0
        for key, content in others:
            if key in (_STORED, _SPARSE):
                n_stored += 1
                read = read_stored if key == _STORED else read_stored_sparse
                tensor = read(content, self._budget)
                parts.stored[tensor.name] = tensor
            else:
                self._budget.read(len(content))
                is_input = key == _INPUT
                declared = read_declared(content, is_input and depth == 0)
                (parts.inputs if is_input else parts.outputs).append(declared)
        if len(parts.stored) < n_stored:
            raise ModelError(
                "two stored tensors of the graph have the same name",
                fix="the file is broken; export the model again",
            )
        return parts

    def enter_functions(self) -> None:
        """From here on the nodes are those of functions."""
        self._reader.in_functions = True

    def nodes(
        self, fields: Fields, node_key: int, opsets: Mapping[str, int], depth: int = 0
    ) -> tuple[list[ModelNode], list[tuple[int, bytes]]]:
        """The nodes among the fields, which have ``node_key``; and the other fields."""
        nodes: list[ModelNode] = []
        others: list[tuple[int, bytes]] = []
        reader, first = self._reader, self._n_nodes
        for key, content in fields:
            if key == node_key:
                index = first + len(nodes)
                if index >= MAX_NODES:
                    raise too_many("nodes", MAX_NODES)
                nodes.append(reader.read(index, content, opsets))
            else:
                self._budget.stored(1)
                others.append((key, content))
        self._n_nodes += len(nodes)
        for node in reader.take_holders():
            attributes = cast("dict[str, object]", node.attributes)
            for name, value in attributes.items():
                attributes[name] = self.resolved(value, opsets, depth + 1)
        return nodes, others

    def resolved(self, value: object, opsets: Mapping[str, int], depth: int) -> object:
        """``value`` with its graphs read."""
        if isinstance(value, tuple) and value and isinstance(value[0], GraphBytes):
            return tuple(self.resolved(item, opsets, depth) for item in value)
        if not isinstance(value, GraphBytes):
            return value
        if depth > MAX_GRAPH_DEPTH:
            raise too_deep()
        return subgraph(self.graph(messages(value.data, GRAPH_KEYS), opsets, depth))


def subgraph(parts: Parts) -> Subgraph:
    """A graph inside a node; raises ModelError where its nodes cannot be put in order."""
    nodes, inputs, outputs, stored = parts
    inner = {*stored, *(given.name for given in inputs)}
    inner.update(name for node in nodes for name in node.outputs)
    needed = dict.fromkeys(name for node in nodes for name in reads(node))
    needed |= dict.fromkeys(output.name for output in outputs)
    captured = tuple(name for name in needed if name not in inner)
    known = dict.fromkeys((*stored, *(given.name for given in inputs), *captured))
    return Subgraph(sort_nodes(nodes, known), tuple(inputs), tuple(outputs), stored, captured)
