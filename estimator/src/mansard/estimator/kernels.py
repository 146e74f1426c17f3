"""Fused and cache-aware traffic of every node, or why there is none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from mansard.estimator.context import Formulas, Options
from mansard.estimator.counts import Moved
from mansard.estimator.fusion import fuse
from mansard.estimator.tensors import Node
from mansard.estimator.traffic import cached_traffic, effective_cache_bytes, fused_traffic

_FORWARD_ONLY = "fusion is modelled for inference only"
_NO_CACHE = "no cache was given"
_LOST = "its kernel touches a tensor of unknown size or an unknown operator"


class Kernels(msgspec.Struct, frozen=True):
    """Traffic by node, and the reasons where a node is not in it."""

    moved: Mapping[int, Moved]
    cached: Mapping[int, int]
    fused_reason: str = _LOST
    cached_reason: str = _LOST


def find_kernels(
    nodes: Sequence[Node], outputs: Collection[str], formulas: Formulas, options: Options
) -> Kernels:
    """The traffic of the kernels that ``nodes`` fuse into; ``outputs``: the graph's names."""
    if options.phase == "training":
        return Kernels({}, {}, _FORWARD_ONLY, _FORWARD_ONLY)
    fusion = fuse(nodes, outputs, formulas, options.precision)
    moved = fused_traffic(fusion)
    if options.cache_bytes is None:
        return Kernels(moved, {}, cached_reason=_NO_CACHE)
    return Kernels(moved, cached_traffic(fusion, effective_cache_bytes(options.cache_bytes)))
