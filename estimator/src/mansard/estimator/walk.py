"""Every node of a network in the order it runs, those inside other nodes included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mansard.estimator.tensors import Node


class Placed(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A node where it stands. ``runs``: how often it runs in one pass of the network.

    ``is_taken`` is False in the branch of an If that is not counted.
    """

    node: Node
    scope: str
    runs: int
    is_taken: bool


def walk(
    nodes: Iterable[Node], scope: str = "", runs: int = 1, is_taken: bool = True
) -> Iterator[Placed]:
    """``nodes`` and, after each, those of its bodies; a body of several passes repeats."""
    for node in nodes:
        yield Placed(node, scope, runs, is_taken)
        for body in node.bodies:
            inner = f"{scope}/{node.name}:{body.name}" if scope else f"{node.name}:{body.name}"
            for each in body.passes:
                yield from walk(each.nodes, inner, runs * each.times, is_taken and body.is_taken)
