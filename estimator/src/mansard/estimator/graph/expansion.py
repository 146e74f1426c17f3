"""How large a graph becomes once its functions are written out, told beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mansard.core.errors import ModelError
from mansard.estimator.graph.functions import Function, Key, key_of
from mansard.estimator.graph.limits import MAX_FUNCTION_DEPTH, MAX_NODES
from mansard.estimator.graph.order import subgraphs
from mansard.estimator.model import ModelNode


def check_size(nodes: Iterable[ModelNode], functions: Mapping[Key, Function]) -> None:
    """Raises ModelError for functions that call themselves, nest too deep or explode."""
    measures = _Measures(functions)
    total = sum(measures.of_node(node, 0).n_nodes for node in nodes)
    if total > MAX_NODES:
        raise ModelError(
            f"its functions stand for {total} nodes",
            fix=f"a graph may have {MAX_NODES}; export it without nested functions",
        )


class _Measure(NamedTuple):
    n_nodes: int
    height: int  # how many functions stand in each other


class _Measures:
    """What each function stands for, nodes of the graphs inside it counted too."""

    def __init__(self, functions: Mapping[Key, Function]) -> None:
        self._functions = functions
        self._known: dict[Key, _Measure] = {}

    def of_node(self, node: ModelNode, depth: int) -> _Measure:
        """``depth`` is how many functions the node stands in."""
        key = key_of(node)
        found = [self.of_node(inner, depth) for graph in subgraphs(node) for inner in graph.nodes]
        found.append(self._of_function(key, depth) if key in self._functions else _ONE_NODE)
        return _sum(found)

    def _of_function(self, key: Key, depth: int) -> _Measure:
        found = self._known.get(key)
        if found is None and depth < MAX_FUNCTION_DEPTH:
            inner = _sum([self.of_node(node, depth + 1) for node in self._functions[key].nodes])
            found = self._known[key] = _Measure(inner.n_nodes, inner.height + 1)
        if found is None or found.height + depth > MAX_FUNCTION_DEPTH:
            raise ModelError(
                f"function {key[1]!r} calls itself, or functions nest deeper "
                f"than {MAX_FUNCTION_DEPTH}",
                fix="ONNX allows no recursion; export the model again",
            )
        return found


_ONE_NODE = _Measure(1, 0)


def _sum(measures: list[_Measure]) -> _Measure:
    return _Measure(
        sum(measure.n_nodes for measure in measures),
        max((measure.height for measure in measures), default=0),
    )
