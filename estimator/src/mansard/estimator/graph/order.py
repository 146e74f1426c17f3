"""Putting nodes in an order in which each can be computed; finding cycles and loose ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mansard.core.errors import ModelError
from mansard.estimator.model import ModelNode, Subgraph


def sort_nodes(nodes: list[ModelNode], known: Mapping[str, object]) -> tuple[ModelNode, ...]:
    """``nodes`` so that each stands after those it reads from, else as in the file.

    ONNX asks for sorted files; runtimes also take unsorted ones, so does this.
    Raises ModelError for a tensor written twice, one that nobody writes, or a cycle.
    """
    writers = _writers(nodes, known)
    if _is_sorted(nodes, known):
        return tuple(nodes)
    _check_defined(nodes, known, writers)
    return _sorted(nodes, writers)


def reads(node: ModelNode) -> Iterable[str]:
    """The tensors a node needs, also inside its subgraphs."""
    yield from (name for name in node.inputs if name)
    for value in node.attributes.values():
        if isinstance(value, Subgraph):
            yield from value.captured


def _writers(nodes: list[ModelNode], known: Mapping[str, object]) -> dict[str, ModelNode]:
    writers: dict[str, ModelNode] = {}
    for node in nodes:
        for name in node.outputs:
            if name and (name in writers or name in known):
                raise ModelError(
                    f"tensor {name!r} is written twice",
                    where=node.label,
                    fix="every tensor of an ONNX graph has one source; export the model again",
                )
            writers[name] = node
    return writers


def _is_sorted(nodes: list[ModelNode], known: Mapping[str, object]) -> bool:
    seen = set(known)
    for node in nodes:
        if not all(name in seen for name in reads(node)):
            return False
        seen.update(node.outputs)
    return True


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
    waiting = [0] * len(nodes)
    readers: dict[int, list[int]] = {}
    for position, node in enumerate(nodes):
        sources = {writers[name].index for name in reads(node) if name in writers}
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
        stuck = next(node for node in nodes if waiting[node.index])
        raise ModelError(
            "the graph is cyclic: this node waits for its own output",
            where=stuck.label,
            fix="ONNX graphs have no cycles; export the model again",
        )
    return tuple(order)
