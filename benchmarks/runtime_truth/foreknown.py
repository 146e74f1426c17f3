"""Which nodes can be computed before any data is there.

The convention of docs/understand/scoring.md, worked out from the file alone: what follows from the
file and from dimensions is free. Shape and Size ask for nothing but dimensions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from onnx import GraphProto, NodeProto

from mansard.core.formats.onnx import label_of
from mansard.inference.preparing.labelling import Labelled, bodies

_OF_DIMENSIONS = frozenset({"EyeLike", "Shape", "Size"})
_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"}
    | {"RandomUniformLike"}
)
_ROUNDS = ("Loop", "Scan", "SequenceMap")


def foreknown(labelled: Labelled, stated: Collection[str] = ()) -> frozenset[int | None]:
    """Labels of the nodes that need no data. ``stated``: inputs whose values were told."""
    found: set[int | None] = set()
    _mark(labelled.model.graph, set(stated), found)
    return frozenset(found)


def _mark(graph: GraphProto, known: set[str], found: set[int | None]) -> set[str]:
    """Add the labels of ``graph``; ``known`` are names from outside. Returns all known names."""
    known = known | {stored.name for stored in graph.initializer}
    known |= {stored.values.name for stored in graph.sparse_initializer}
    for node in graph.node:
        if _is_known(node, known, found):
            found.add(label_of(node.name))
            known.update(filter(None, node.output))
    return known


def _is_known(node: NodeProto, known: set[str], found: set[int | None]) -> bool:
    inside: list[bool] = []
    for body in bodies(node):
        # What a loop hands its body changes from round to round.
        hidden = {value.name for value in body.input}
        inner = _mark(body, known - hidden, found)
        inside.append(all(value.name in inner for value in body.output))
    if node.op_type in _RANDOM:
        return False
    if node.op_type in _OF_DIMENSIONS:
        return True
    # Of what CastLike reads second only the type is of interest.
    read = node.input[:1] if node.op_type == "CastLike" else node.input
    return node.op_type not in _ROUNDS and all(inside) and _all_known(read, known)


def _all_known(names: Iterable[str], known: set[str]) -> bool:
    return all(name in known for name in names if name)
