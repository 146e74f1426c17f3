"""Putting nodes in an order in which each can be computed; finding cycles and loose ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from mansard.core.errors import ModelError
from mansard.estimator.model import ModelNode, Subgraph


def sort_nodes(nodes: list[ModelNode], known: Mapping[str, object]) -> tuple[ModelNode, ...]:
    """``nodes`` so that each stands after those it reads from, else as in the file.

    ONNX asks for sorted files; runtimes also take unsorted ones, so does this.
    Raises ModelError for a tensor written twice, one that nobody writes, or a cycle.
    """
    is_sorted, is_unique = _look(nodes, known)
    if is_sorted and is_unique:
        return tuple(nodes)
    writers = _writers(nodes, known)
    if is_sorted:
        return tuple(nodes)
    _check_defined(nodes, known, writers)
    return _sorted(nodes, writers)


def reads(node: ModelNode) -> Iterable[str]:
    """The tensors a node needs, also inside its subgraphs."""
    yield from filter(None, node.inputs)
    for graph in subgraphs(node):
        yield from graph.captured


def subgraphs(node: ModelNode) -> Iterable[Subgraph]:
    """The graphs inside a node, not those inside them."""
    for value in node.attributes.values():
        if isinstance(value, Subgraph):
            yield value
        elif _holds_graphs(value):
            yield from cast("tuple[Subgraph, ...]", value)


def _holds_graphs(value: object) -> bool:
    return isinstance(value, Subgraph) or (
        isinstance(value, tuple) and len(value) > 0 and isinstance(value[0], Subgraph)
    )


def _look(nodes: list[ModelNode], known: Mapping[str, object]) -> tuple[bool, bool]:
    """Whether the nodes stand in order, and whether surely no tensor is written twice."""
    seen = {"", *known}
    n_seen = len(seen)
    for node in nodes:
        if not seen.issuperset(node.inputs):
            return False, False
        for value in node.attributes.values():
            if _holds_graphs(value) and not seen.issuperset(reads(node)):
                return False, False
        n_seen += len(node.outputs)
        seen.update(node.outputs)
    return True, len(seen) == n_seen


def _writers(nodes: list[ModelNode], known: Mapping[str, object]) -> dict[str, ModelNode]:
    writers: dict[str, ModelNode] = {}
    for node in nodes:
        for name in filter(None, node.outputs):
            if name in writers or name in known:
                raise ModelError(
                    f"tensor {name!r} is written twice",
                    where=node.label,
                    fix="every tensor of an ONNX graph has one source; export the model again",
                )
            writers[name] = node
    return writers


def _check_defined(
    nodes: list[ModelNode], known: Mapping[str, object], writers: Mapping[str, ModelNode]
) -> None:
    for node in nodes:
        for name in reads(node):
            if name not in known and name not in writers:
                raise ModelError(
                    f"reads tensor {name!r}, which is no input and no node writes",
                    where=node.label,
                    fix="the graph is broken; export the model again",
                )


def _sorted(nodes: list[ModelNode], writers: Mapping[str, ModelNode]) -> tuple[ModelNode, ...]:
    """Kahn's algorithm; nodes that are ready keep the file's order."""
    waiting = [0] * len(nodes)
    readers: dict[int, list[int]] = {}
    positions = {node.index: position for position, node in enumerate(nodes)}
    for position, node in enumerate(nodes):
        sources = {positions[writers[name].index] for name in reads(node) if name in writers}
        waiting[position] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(position)
    ready = [position for position, count in enumerate(waiting) if count == 0]
    order: list[ModelNode] = []
    for position in ready:
        order.append(nodes[position])
        for reader in readers.get(position, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(order) < len(nodes):
        stuck = next(node for node, count in zip(nodes, waiting, strict=True) if count)
        raise ModelError(
            "the graph is cyclic: this node waits for its own output",
            where=stuck.label,
            fix="ONNX graphs have no cycles; export the model again",
        )
    return tuple(order)
