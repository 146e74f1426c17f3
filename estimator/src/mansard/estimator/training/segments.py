"""Recomputation: keep little, and run the forward pass again where it is needed.

The network is cut into ⌈√n⌉ segments of about equal length; only what crosses a cut is
kept, and the backward pass runs each segment's forward pass again, but for the last,
whose activations are still there. Chen et al., 2016, "Training deep nets with sublinear
memory cost". https://arxiv.org/abs/1604.06174
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.core.precision import Precision
from mansard.estimator.tensors import Origin
from mansard.estimator.walk import Placed


def segment_of(placed: Sequence[Placed]) -> dict[int, int]:
    """The segment of each node by its index; a node inside another is in its segment."""
    n_nodes = sum(1 for each in placed if each.scope == "" and not each.node.is_constant)
    length = max(math.isqrt(max(n_nodes - 1, 0)) + 1, 1)
    segments: dict[int, int] = {}
    position = -1
    for each in placed:
        if each.scope == "" and not each.node.is_constant:
            position += 1
        segments[each.node.index] = max(position, 0) // length
    return segments


def recomputed_nodes(placed: Sequence[Placed]) -> frozenset[int]:
    """Indexes of the nodes whose forward pass runs twice."""
    segments = segment_of(placed)
    last = max(segments.values(), default=0)
    return frozenset(index for index, segment in segments.items() if segment < last)


def checkpoint_bytes(placed: Sequence[Placed], precision: Precision | None) -> dict[int, int]:
    """Bytes of what crosses a cut, by the index of the node that makes it."""
    segments = segment_of(placed)
    maker: dict[str, tuple[int, int]] = {}  # tensor -> index and segment of its node
    crossing: dict[str, tuple[int, int]] = {}  # tensor -> index of its node, bytes
    for each in placed:
        if each.scope:
            continue
        node, segment = each.node, segments[each.node.index]
        for tensor in node.distinct:
            made = maker.get(tensor.name)
            if made is not None and made[1] < segment and tensor.origin is Origin.DATA:
                crossing[tensor.name] = (made[0], tensor.n_bytes(precision))
        maker.update((output.name, (node.index, segment)) for output in node.outputs)
    kept: dict[int, int] = {}
    for index, size in crossing.values():
        kept[index] = kept.get(index, 0) + size
    return kept
