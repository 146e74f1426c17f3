"""The first step of a recurrence that is written out: its constant state must not be folded.

In a loop every iteration computes with its state, the first one too. Written out, the product of
the initial state (zeros, most often) with the recurrent weights is a constant, which would be free.
It counts where a later step multiplies the same weights by a tensor that follows from that product.
Weights that are used of a constant and of data side by side (relative positions, as in DeBERTa) are
no recurrence: neither follows from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mansard.estimator.tensors import Node, Origin

_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
_MOST_BEFORE = 100  # nodes in front of a product that belong to its step, such as a normalisation

Place = tuple[int, int]  # index of a node, position of its input


def first_steps(nodes: Sequence[Node]) -> frozenset[Place]:
    """Where the initial states of recurrences enter their first steps."""
    products = [node for node in nodes if node.op_type in _PRODUCTS]
    constant = [node for node in products if node.is_constant]
    if not constant:
        return frozenset()
    later: dict[object, Node] = {}
    for node in products:
        for position in (0, 1):
            key = _weights(node, position)
            if key is not None and not node.is_constant:
                later.setdefault(key, node)
    pairs = [
        (node, later[key], 1 - position)
        for node in constant
        for position in (0, 1)
        if (key := _weights(node, position)) in later
    ]
    if not pairs:
        return frozenset()
    followed = _followed(nodes, [first for first, _, _ in pairs])
    writers = {name: node for node in nodes for name in node.output_names}
    return frozenset(
        _entry(*pair, writers) for i, pair in enumerate(pairs) if followed[pair[1].index] >> i & 1
    )


def _weights(node: Node, position: int) -> tuple[object, ...] | None:
    """What two products of the same weights have in common; None where there are no weights."""
    tensor, other = node.optional(position), node.optional(1 - position)
    if tensor is None or other is None or not tensor.weights or tensor.origin is Origin.DATA:
        return None
    return (node.op_type, position, *(weight.name for weight in tensor.weights))


def _followed(nodes: Iterable[Node], firsts: Sequence[Node]) -> dict[int, int]:
    """For each node which of ``firsts`` it follows from, or is: bit i for ``firsts[i]``."""
    bits: dict[int, int] = {}
    for i, node in enumerate(firsts):
        bits[node.index] = bits.get(node.index, 0) | 1 << i
    of_tensors: dict[str, int] = {}
    for node in nodes:  # in an order in which they can be computed
        followed = bits.get(node.index, 0)
        for tensor in node.present:
            followed |= of_tensors.get(tensor.name, 0)
        bits[node.index] = followed
        of_tensors.update(dict.fromkeys(node.output_names, followed))
    return bits


def _entry(first: Node, later: Node, position: int, writers: Mapping[str, Node]) -> Place:
    """Where the state enters the first step, at the product or before it.

    What comes before a product in both steps alike (a normalisation) belongs to the step.
    """
    for _ in range(_MOST_BEFORE):
        here, there = first.optional(position), later.optional(position)
        one = writers.get(here.name) if here is not None else None
        other = writers.get(there.name) if there is not None else None
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
