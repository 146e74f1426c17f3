"""The first step of a recurrence that is written out: its constant state is no constant.

In a loop every iteration computes with its state, the first one too. Written out, the product of
the initial state (zeros, most often) with the recurrent weights is a constant, which would be free.
It counts where a later step shows it to be one: the same product of the same weights, of a tensor
that follows from it. Weights that are used of a constant and of data side by side (relative
positions, as in DeBERTa) are no recurrence: neither follows from the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.tensors import Node, Origin

_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})

Place = tuple[int, int]  # index of a node, position of its input


def first_steps(nodes: Sequence[Node]) -> frozenset[Place]:
    """Where the initial states of recurrences enter their first steps."""
    products = [node for node in nodes if node.op_type in _PRODUCTS]
    constant = [node for node in products if node.is_constant]
    if not constant:
        return frozenset()
    later: dict[tuple[object, ...], Node] = {}
    for node in products:
        for position in (0, 1):
            key = _weights(node, position)
            if key is not None and not node.is_constant:
                later.setdefault(key, node)
    found: set[Place] = set()
    graph: _Graph | None = None
    for node in constant:
        for position in (0, 1):
            key = _weights(node, position)
            partner = later.get(key) if key is not None else None
            if partner is None:
                continue
            graph = graph or _Graph(nodes)
            if graph.follows(node, partner):
                found.add(graph.entry(node, partner, 1 - position))
    return frozenset(found)


def _weights(node: Node, position: int) -> tuple[object, ...] | None:
    """What two products of the same weights have in common; None where there are no weights."""
    tensor, other = node.optional(position), node.optional(1 - position)
    if tensor is None or other is None or not tensor.weights or tensor.origin is Origin.DATA:
        return None
    return (node.op_type, position, *(weight.name for weight in tensor.weights))


class _Graph:
    def __init__(self, nodes: Sequence[Node]) -> None:
        self._readers: dict[str, list[Node]] = {}
        self._writers: dict[str, Node] = {}
        for node in nodes:
            for tensor in node.present:
                self._readers.setdefault(tensor.name, []).append(node)
            self._writers.update({name: node for name in node.output_names if name})

    def follows(self, first: Node, later: Node) -> bool:
        """Whether what ``later`` computes follows from ``first``."""
        waiting, seen = [first], {first.index}
        while waiting:
            for name in waiting.pop().output_names:
                for reader in self._readers.get(name, ()):
                    if reader.index == later.index:
                        return True
                    if reader.index not in seen:
                        seen.add(reader.index)
                        waiting.append(reader)
        return False

    def entry(self, first: Node, later: Node, position: int) -> Place:
        """Where the state enters the first step, at the product or before it.

        What comes before a product in both steps alike (a normalisation) belongs to the step.
        """
        while True:
            here, there = first.optional(position), later.optional(position)
            one = self._writers.get(here.name) if here is not None else None
            other = self._writers.get(there.name) if there is not None else None
            if one is None or other is None or one.index == other.index:
                break
            if (one.op_type, one.attributes) != (other.op_type, other.attributes):
                break
            pairs = zip(one.inputs, other.inputs, strict=False)
            differing = [i for i, (a, b) in enumerate(pairs) if a and b and a.name != b.name]
            if len(differing) != 1 or not one.is_constant or other.is_constant:
                break
            first, later, position = one, other, differing[0]
        return first.index, position
