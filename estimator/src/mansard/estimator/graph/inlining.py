"""Model-local functions are written out before anything else looks at the graph.

A node that calls a function is replaced by the function's nodes (ONNX IR, section
Functions: https://onnx.ai/onnx/repo-docs/IR.html). Names in it are put behind the name
of the node that calls it, as in ``layer.3/dropout/mask``, so that they clash with no
other; attributes that refer to the function's own take the value the node gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mansard.core.errors import ModelError
from mansard.estimator.graph.attributes import Reference
from mansard.estimator.graph.expansion import check_size
from mansard.estimator.graph.functions import Function, Key, key_of
from mansard.estimator.graph.graphs import Parts, subgraph
from mansard.estimator.graph.limits import MAX_GRAPH_DEPTH, Budget, too_deep
from mansard.estimator.graph.order import subgraphs
from mansard.estimator.model import ModelInput, ModelNode, StoredTensor, Subgraph


class _Scope(NamedTuple):
    """Where nodes stand: what their names become, and what attributes refer to."""

    prefix: str
    names: dict[str, str]
    values: Mapping[str, object]


class _Bound(NamedTuple):
    """A graph that is handed to a function as an attribute; its names are the caller's."""

    graph: Subgraph
    scope: _Scope | None


def inline(parts: Parts, functions: Mapping[Key, Function], budget: Budget) -> Parts:
    """The graph without calls; raises ModelError if functions call themselves or explode."""
    check_size(parts.nodes, functions)
    return _Inliner(parts, functions, budget).graph(parts, None)


class _Inliner:
    def __init__(self, parts: Parts, functions: Mapping[Key, Function], budget: Budget) -> None:
        self._functions, self._budget = functions, budget
        self._used = set(_names(parts))
        self._n_nodes = self._n_clashes = 0

    def graph(self, parts: Parts, scope: _Scope | None, depth: int = 0) -> Parts:
        if depth > MAX_GRAPH_DEPTH:
            raise too_deep()
        written = list(self._written_out(parts.nodes, scope))
        first = self._n_nodes
        self._n_nodes += len(written)
        nodes = [
            self._node(first + place, node, around, depth)
            for place, (node, around) in enumerate(written)
        ]
        if scope is None:
            return parts._replace(nodes=nodes)
        stored = [
            StoredTensor(self._name(held.name, scope), held.dtype, held.shape, held.value)
            for held in parts.stored.values()
        ]
        return Parts(
            nodes,
            [self._declared(given, scope) for given in parts.inputs],
            [self._declared(given, scope) for given in parts.outputs],
            {held.name: held for held in stored},
        )

    def _written_out(
        self, nodes: list[ModelNode] | tuple[ModelNode, ...], scope: _Scope | None
    ) -> Iterator[tuple[ModelNode, _Scope | None]]:
        for node in nodes:
            function = self._functions.get(key_of(node))
            if function is None:
                yield node, scope
                continue
            inner = self._scope(node, scope, function)
            yield from self._written_out(function.nodes, inner)
            for name, given in zip(function.outputs, node.outputs, strict=False):
                if name in function.inputs and given:  # it hands an input on
                    ends = (inner.names[name],), (self._name(given, scope),)
                    yield ModelNode(0, ends[1][0], "Identity", "", *ends, {}), None

    def _scope(self, call: ModelNode, scope: _Scope | None, function: Function) -> _Scope:
        for ends, formal, what in (
            (call.inputs, function.inputs, "inputs"),
            (call.outputs, function.outputs, "outputs"),
        ):
            if len(ends) > len(formal):
                raise ModelError(
                    f"has {len(ends)} {what}, its function {len(formal)}",
                    where=call.label,
                    fix="the file is broken; export the model again",
                )
        names = dict.fromkeys(function.inputs, "")
        for name, given in zip(function.inputs, call.inputs, strict=False):
            names[name] = self._name(given, scope)
        for name, given in zip(function.outputs, call.outputs, strict=False):
            if name not in names and given:
                names[name] = self._name(given, scope)
        values = {**function.defaults, **self._attributes(call, scope)}
        return _Scope(f"{self._label(call, scope)}/", names, values)

    def _label(self, node: ModelNode, scope: _Scope | None) -> str:
        return node.name if scope is None else scope.prefix + node.name

    def _name(self, name: str, scope: _Scope | None) -> str:
        """What a tensor's name in ``scope`` becomes; the same name always the same."""
        if scope is None or not name:
            return name
        if name not in scope.names:
            made = scope.prefix + name
            while made in self._used:
                self._n_clashes += 1
                made = f"{scope.prefix}{name}__{self._n_clashes}"
            self._budget.characters(len(made))
            self._used.add(made)
            scope.names[name] = made
        return scope.names[name]

    def _node(self, index: int, node: ModelNode, scope: _Scope | None, depth: int) -> ModelNode:
        attributes = {
            name: self._with_graphs(value, scope, depth + 1)
            for name, value in self._attributes(node, scope).items()
        }
        label = self._label(node, scope)
        self._budget.characters(len(label))
        return ModelNode(
            index,
            label,
            node.op_type,
            node.domain,
            tuple(self._name(name, scope) for name in node.inputs),
            tuple(self._name(name, scope) for name in node.outputs),
            attributes,
            node.opset,
        )

    def _attributes(self, node: ModelNode, scope: _Scope | None) -> dict[str, object]:
        """The node's attributes, references replaced; what nobody gives is left out."""
        values = scope.values if scope else {}
        found: dict[str, object] = {}
        for name, value in node.attributes.items():
            if isinstance(value, Reference):
                if value.name in values:
                    found[name] = values[value.name]
            else:
                found[name] = _Bound(value, scope) if isinstance(value, Subgraph) else value
        return found

    def _with_graphs(self, value: object, scope: _Scope | None, depth: int) -> object:
        if isinstance(value, _Bound):
            graph = value.graph
            nodes = sorted(graph.nodes, key=lambda node: node.index)
            parts = Parts(nodes, [*graph.inputs], [*graph.outputs], {**graph.stored})
            return subgraph(self.graph(parts, value.scope, depth))
        if isinstance(value, tuple) and value and isinstance(value[0], Subgraph):
            return tuple(self._with_graphs(_Bound(item, scope), scope, depth) for item in value)
        return value

    def _declared(self, given: ModelInput, scope: _Scope) -> ModelInput:
        return ModelInput(self._name(given.name, scope), given.dtype, given.dimensions, given.kind)


def _names(parts: Parts) -> Iterator[str]:
    """Every tensor's name in a graph and the graphs inside it."""
    yield from parts.stored
    yield from (given.name for given in parts.inputs)
    for node in parts.nodes:
        yield from node.outputs
        yield from node.inputs
        for graph in subgraphs(node):
            yield from _names(Parts([*graph.nodes], [*graph.inputs], [], {**graph.stored}))
