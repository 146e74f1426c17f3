"""Model-local functions: read, measured, and written out before the graph is used.

Message FunctionProto of onnx.proto
(https://github.com/onnx/onnx/blob/main/onnx/onnx.proto); keys are 8 · field + kind.
A node that calls a function is replaced by the function's nodes (ONNX IR, section
Functions: https://onnx.ai/onnx/repo-docs/IR.html). Names in it are put behind the name
of the node that calls it, as in ``layer.3/dropout/mask``, so that they clash with no
other; attributes that refer to the function's own take the value the node gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from mansard.core.errors import ModelError
from mansard.core.formats.protobuf import messages
from mansard.estimator.model import ModelInput, ModelNode, StoredTensor, Subgraph, normal_domain
from mansard.estimator.reading.graphs import GraphReader, Parts, read_opsets, subgraph
from mansard.estimator.reading.limits import (
    MAX_FUNCTION_DEPTH,
    MAX_FUNCTIONS,
    MAX_GRAPH_DEPTH,
    MAX_NODES,
    ReadingBudget,
    too_deep,
    too_many,
)
from mansard.estimator.reading.nodes import AttributeReference, Call, read_attribute

_NAME, _DOMAIN, _OVERLOAD, _INPUT, _OUTPUT = 10, 82, 106, 34, 42
_NODE, _OPSET, _DEFAULT = 58, 74, 90
_KEYS = frozenset({_NAME, _DOMAIN, _OVERLOAD, _INPUT, _OUTPUT, _NODE, _DEFAULT})

Key = tuple[str, str, str]  # domain, name, overload


class Function(msgspec.Struct, frozen=True, eq=False):
    """The nodes that replace a call; ``inputs`` and ``outputs`` are names inside it."""

    key: Key
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: Mapping[str, object]  # of attributes that a node need not give
    nodes: tuple[ModelNode, ...]


def key_of(node: ModelNode) -> Key:
    """The key of the function that ``node`` calls, if there is one."""
    return node.domain, node.op_type, node.overload if isinstance(node, Call) else ""


def read_functions(
    contents: Iterable[bytes], opsets: Mapping[str, int], reader: GraphReader, budget: ReadingBudget
) -> dict[Key, Function]:
    """The functions of a model whose own ``opsets`` hold where a function names none."""
    functions: dict[Key, Function] = {}
    reader.enter_functions()
    for content in contents:
        if len(functions) == MAX_FUNCTIONS:
            raise too_many("functions", MAX_FUNCTIONS)
        function = _function(content, opsets, reader, budget)
        if function.key in functions:
            raise ModelError(
                f"two functions are called {function.key[1]!r}",
                fix="the file is broken; export the model again",
            )
        functions[function.key] = function
    return functions


def _function(
    data: bytes, opsets: Mapping[str, int], reader: GraphReader, budget: ReadingBudget
) -> Function:
    function_opsets = dict(read_opsets(content for _, content in messages(data, (_OPSET,))))
    nodes, others = reader.nodes(messages(data, _KEYS), _NODE, {**opsets, **function_opsets})
    texts: dict[int, list[str]] = {
        key: [""] if key in (_NAME, _DOMAIN, _OVERLOAD) else []
        for key in (_NAME, _DOMAIN, _OVERLOAD, _INPUT, _OUTPUT)
    }
    defaults: dict[str, object] = {}
    for key, content in others:
        budget.read(len(content))
        if key == _DEFAULT:
            name, value = read_attribute(content, budget, "of a function")
            defaults[name] = reader.resolved(value, function_opsets, 1)
        else:
            texts[key].append(content.decode())
    return Function(
        (normal_domain(texts[_DOMAIN][-1]), texts[_NAME][-1], texts[_OVERLOAD][-1]),
        tuple(texts[_INPUT]),
        tuple(texts[_OUTPUT]),
        defaults,
        tuple(nodes),
    )


def check_size(nodes: Iterable[ModelNode], functions: Mapping[Key, Function]) -> None:
    """Raise ModelError for functions that are recursive, nest too deep or expand too far."""
    measures = _Measures(functions)
    total = sum(measures.of_node(node, 0).n_nodes for node in nodes)
    if total > MAX_NODES:
        raise ModelError(
            f"its functions stand for {total} nodes",
            fix=f"a graph may have {MAX_NODES}; export it without nested functions",
        )


class _Measure(NamedTuple):
    n_nodes: int
    height: int  # how many functions are nested


class _Measures:
    """How many nodes each function expands to, including graphs inside it."""

    def __init__(self, functions: Mapping[Key, Function]) -> None:
        self._functions = functions
        self._known: dict[Key, _Measure] = {}

    def of_node(self, node: ModelNode, depth: int) -> _Measure:
        """``depth`` is how many functions the node is inside of."""
        key = key_of(node)
        measures = [self.of_node(inner, depth) for graph in node.subgraphs for inner in graph.nodes]
        measures.append(self._of_function(key, depth) if key in self._functions else _ONE_NODE)
        return _sum(measures)

    def _of_function(self, key: Key, depth: int) -> _Measure:
        measure = self._known.get(key)
        if measure is None and depth < MAX_FUNCTION_DEPTH:
            inner = _sum([self.of_node(node, depth + 1) for node in self._functions[key].nodes])
            measure = self._known[key] = _Measure(inner.n_nodes, inner.height + 1)
        if measure is None or measure.height + depth > MAX_FUNCTION_DEPTH:
            raise ModelError(
                f"function {key[1]!r} calls itself, or functions nest deeper "
                f"than {MAX_FUNCTION_DEPTH}",
                fix="ONNX allows no recursion; export the model again",
            )
        return measure


_ONE_NODE = _Measure(1, 0)


def _sum(measures: list[_Measure]) -> _Measure:
    return _Measure(
        sum(measure.n_nodes for measure in measures),
        max((measure.height for measure in measures), default=0),
    )


class _Scope(NamedTuple):
    """The scope of one call: new names of its tensors, and values of referenced attributes."""

    prefix: str
    names: dict[str, str]
    values: Mapping[str, object]


class _Bound(NamedTuple):
    """A graph that is passed to a function as an attribute; its names are the caller's."""

    graph: Subgraph
    scope: _Scope | None


def inline(parts: Parts, functions: Mapping[Key, Function], budget: ReadingBudget) -> Parts:
    """The graph with all calls inlined; raises ModelError as ``check_size``."""
    check_size(parts.nodes, functions)
    return _Inliner(parts, functions, budget).graph(parts, None)


class _Inliner:
    def __init__(
        self, parts: Parts, functions: Mapping[Key, Function], budget: ReadingBudget
    ) -> None:
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
            self._node(first + i, node, around, depth) for i, (node, around) in enumerate(written)
        ]
        if scope is None:
            return parts._replace(nodes=nodes)
        stored = [
            StoredTensor(self._name(held.name, scope), held.dtype, held.shape, held.value)
            for held in parts.stored.values()
        ]
        return Parts(
            nodes,
            [self._declared(declared, scope) for declared in parts.inputs],
            [self._declared(declared, scope) for declared in parts.outputs],
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
            for name, argument in zip(function.outputs, node.outputs, strict=False):
                if name in function.inputs and argument:  # it passes an input on
                    ends = (inner.names[name],), (self._name(argument, scope),)
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
        for name, argument in zip(function.inputs, call.inputs, strict=False):
            names[name] = self._name(argument, scope)
        for name, argument in zip(function.outputs, call.outputs, strict=False):
            if name not in names and argument:
                names[name] = self._name(argument, scope)
        values = {**function.defaults, **self._attributes(call, scope)}
        return _Scope(f"{self._label(call, scope)}/", names, values)

    def _label(self, node: ModelNode, scope: _Scope | None) -> str:
        return node.name if scope is None else scope.prefix + node.name

    def _name(self, name: str, scope: _Scope | None) -> str:
        """The new name of a tensor in ``scope``; always the same for the same name."""
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
        """The node's attributes with references replaced; unset references are dropped."""
        values = scope.values if scope else {}
        attributes: dict[str, object] = {}
        for name, value in node.attributes.items():
            if isinstance(value, AttributeReference):
                if value.name in values:
                    attributes[name] = values[value.name]
            else:
                attributes[name] = _Bound(value, scope) if isinstance(value, Subgraph) else value
        return attributes

    def _with_graphs(self, value: object, scope: _Scope | None, depth: int) -> object:
        if isinstance(value, _Bound):
            graph = value.graph
            nodes = sorted(graph.nodes, key=lambda node: node.index)
            parts = Parts(nodes, [*graph.inputs], [*graph.outputs], {**graph.stored})
            return subgraph(self.graph(parts, value.scope, depth))
        if isinstance(value, tuple) and value and isinstance(value[0], Subgraph):
            return tuple(self._with_graphs(_Bound(item, scope), scope, depth) for item in value)
        return value

    def _declared(self, declared: ModelInput, scope: _Scope) -> ModelInput:
        return ModelInput(
            self._name(declared.name, scope), declared.dtype, declared.dimensions, declared.kind
        )


def _names(parts: Parts) -> Iterator[str]:
    """Every tensor's name in a graph and the graphs inside it."""
    yield from parts.stored
    yield from (declared.name for declared in parts.inputs)
    for node in parts.nodes:
        yield from node.outputs
        yield from node.inputs
        for graph in node.subgraphs:
            yield from _names(Parts([*graph.nodes], [*graph.inputs], [], {**graph.stored}))
