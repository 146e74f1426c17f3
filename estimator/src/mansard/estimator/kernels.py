"""What follows from fusing nodes into kernels: traffic by node, and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mansard.estimator.context import Formulas, Options
from mansard.estimator.cost import Moved
from mansard.estimator.fusion import fuse
from mansard.estimator.memory import Memory, memory_of
from mansard.estimator.tensors import Node, Tensor
from mansard.estimator.traffic import cached_traffic, effective_cache_bytes, fused_traffic

_FORWARD_ONLY = "fusion is modelled for inference only"
_NO_CACHE = "no cache was given"
_LOST = "its kernel touches a tensor of unknown size or an unknown operator"


class Ends(msgspec.Struct, frozen=True):
    """What a network is given, and the names of what it returns."""

    inputs: tuple[Tensor, ...]
    outputs: frozenset[str]


class Kernels(msgspec.Struct, frozen=True):
    """Traffic by node, and the reasons where a node is not in it."""

    moved: Mapping[int, Moved]
    cached: Mapping[int, int]
    memory: Memory
    fused_reason: str = _LOST
    cached_reason: str = _LOST


def find_kernels(
    nodes: Sequence[Node], ends: Ends, formulas: Formulas, options: Options
) -> Kernels:
    """The traffic and the memory of the kernels that ``nodes`` fuse into."""
    if options.phase == "training":
        memory = Memory(None, None, None, None, _FORWARD_ONLY)
        return Kernels({}, {}, memory, _FORWARD_ONLY, _FORWARD_ONLY)
    fusion = fuse(nodes, ends.outputs, formulas, options.precision)
    moved = fused_traffic(fusion)
    memory = memory_of(nodes, ends.inputs, ends.outputs, fusion, options.precision)
    if options.cache_bytes is None:
        return Kernels(moved, {}, memory, cached_reason=_NO_CACHE)
    cached = cached_traffic(fusion, effective_cache_bytes(options.cache_bytes))
    return Kernels(moved, cached, memory)
