"""Memory: the most that activations take at once, and a decoder's keys and values.

Nodes run one at a time. A tensor exists from the node that makes it to its last
reader; what the network is given and what it returns, for the whole inference. A view
is its source's memory, and so are a Split, a Slice without steps and a dequantised
tensor. Constants and weights come on top.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from typing import Literal

import msgspec

from mansard.core.precision import Precision
from mansard.core.records import KvCacheUpdate
from mansard.estimator.caches import NO_CACHES, Caches
from mansard.estimator.fusion import BodyGroups, Fusion
from mansard.estimator.fusion.accounting import PassGroups, root_storage
from mansard.estimator.fusion.roles import Role
from mansard.estimator.fusion.storage import Storage
from mansard.estimator.kv_cache import find_kv_cache
from mansard.estimator.tensors import Node, Tensor


class Memory(msgspec.Struct, frozen=True):
    """Bytes, or None with the reason in ``unknown``.

    ``peak_activation_bytes``: every operator writes an output of its own.
    ``in_place_peak_bytes``: one that works element by element takes over an input of
    the same size that nothing reads after it. ``fused_peak_bytes``: only what fused
    groups of operators read and write exists. None of these holds the keys and values
    for the next token, which are ``kv_cache_bytes``; 0 for a network without such.
    """

    peak_activation_bytes: int | None
    in_place_peak_bytes: int | None
    fused_peak_bytes: int | None
    kv_cache_bytes: int | None
    unknown: str | None = None
    kv_cache_update: KvCacheUpdate | Literal["none"] = "none"


def memory_of(
    nodes: Sequence[Node],
    inputs: Iterable[Tensor],
    outputs: Collection[str],
    fusion: Fusion,
    precision: Precision | None,
    caches: Caches = NO_CACHES,
) -> Memory:
    """The memory of one inference; ``fusion`` is that of ``nodes`` and ``outputs``."""
    given = tuple(inputs)
    reason = _unknown(nodes, given) if _may_be_unknown(fusion, given) else None
    in_place = bool(fusion.wiring.constants.standing)
    if reason is not None:
        known: KvCacheUpdate = "in-place" if in_place else "copied"
        counted = known if caches.caches else "none"
        return Memory(None, None, None, None, reason, kv_cache_update=counted)
    cache = find_kv_cache(nodes, given, outputs, caches, precision)
    taken_over = cache.kept | cache.copied if in_place else cache.kept
    held = sum(tensor.n_bytes(precision) for tensor in given if tensor.name not in taken_over)
    parts = (fusion.wiring.known(name) for name in cache.written)
    apart = {root_storage(part.storage) for part in parts if part is not None}
    peak, shared = _peaks(fusion, apart)
    is_copied = not cache.is_traced or (cache.copied and not in_place)
    update: KvCacheUpdate = "copied" if is_copied else "in-place"
    return Memory(
        held + peak,
        held + shared,
        held + _fused_peak(fusion, apart),
        cache.n_bytes,
        kv_cache_update=update if cache.n_bytes else "none",
    )


def _may_be_unknown(fusion: Fusion, given: Iterable[Tensor]) -> bool:
    return any(tensor.unknown for tensor in given) or _is_partly_unknown(fusion)


def _is_partly_unknown(fusion: Fusion) -> bool:
    if fusion.wiring.unknown:
        return True
    passes = (each for group in fusion.groups for body in group.bodies for each in body.passes)
    return any(_is_partly_unknown(each.fusion) for each in passes)


def _unknown(nodes: Iterable[Node], given: Iterable[Tensor]) -> str | None:
    for tensor in given:
        if tensor.unknown:
            return tensor.unknown
    for node in nodes:
        for tensor in node.outputs:
            if tensor.unknown:
                return tensor.unknown
        for body in node.bodies:
            for each in body.passes:
                reason = _unknown(each.nodes, ())
                if reason is not None:
                    return reason
    return None


def _peaks(fusion: Fusion, apart: Set[Storage]) -> tuple[int, int]:
    """The most that one graph's own tensors take, without and with reuse in place.

    ``apart``: memory that is counted by itself, and what is part of it.
    """
    wiring = fusion.wiring
    n_nodes = len(wiring.nodes)
    inside = {group.indexes[0]: group.bodies for group in fusion.groups if group.bodies}
    dying: list[list[Storage]] = [[] for _ in range(n_nodes + 1)]
    live = shared = peak = shared_peak = 0
    taken: set[Storage] = set()
    for i, node in enumerate(wiring.nodes):
        inner = inner_shared = 0
        if inside:
            inner, inner_shared = _inner_peaks(inside.get(node.index, ()), apart)
            if node.op_type == "If":
                # A branch's results become the node's.
                peak = max(peak, live + inner)
                shared_peak = max(shared_peak, shared + inner_shared)
                inner = inner_shared = 0
        gone = dying[i]
        if gone and wiring.roles[i] is Role.POINTWISE:
            reused = _overwritten(gone, [part.storage for part in wiring.writes[i]])
            if reused is not None:
                taken.add(reused)
                shared -= reused.n_bytes or 0
        for part in wiring.writes[i]:
            storage = part.storage
            if apart and root_storage(storage) in apart:
                continue
            live += storage.n_bytes or 0
            shared += storage.n_bytes or 0
            last = storage.readers[-1] if storage.readers else i
            dying[n_nodes if storage.is_output else last].append(storage)
        peak = max(peak, live + inner)
        shared_peak = max(shared_peak, shared + inner_shared)
        for storage in gone:
            live -= storage.n_bytes or 0
            if storage not in taken:
                shared -= storage.n_bytes or 0
    return peak, shared_peak


def _overwritten(dying: list[Storage], made: list[Storage]) -> Storage | None:
    """The input that the node's one output can overwrite."""
    if len(made) != 1:
        return None
    return next((storage for storage in dying if storage.n_bytes == made[0].n_bytes), None)


def _inner_peaks(bodies: Iterable[BodyGroups], apart: Set[Storage]) -> tuple[int, int]:
    found = [
        _peaks(each.fusion, _apart_inside(each, apart))
        for body in bodies
        if body.is_taken
        for each in body.passes
    ]
    return max((one for one, _ in found), default=0), max((two for _, two in found), default=0)


def _apart_inside(each: PassGroups, apart: Set[Storage]) -> Set[Storage]:
    """What is counted by itself, as the graph inside a node calls it."""
    return {inner for inner, outer in each.leave if outer in apart} if apart else apart


def _fused_peak(fusion: Fusion, apart: Set[Storage]) -> int:
    """As ``_peaks``, of what groups write."""
    born: dict[Storage, int] = {}
    last: dict[Storage, int] = {}
    for step, group in enumerate(fusion.groups):
        for storage, _ in group.writes:
            if storage in apart:
                continue
            born.setdefault(storage, step)
            last[storage] = step
        for storage, _ in group.reads:
            last[storage] = step
    ends: list[int] = [0] * (len(fusion.groups) + 1)
    begins: list[int] = [0] * len(fusion.groups)
    for storage, step in born.items():
        size = storage.n_bytes or 0
        begins[step] += size
        if not storage.is_output:
            ends[last[storage] + 1] += size
    live = peak = 0
    for step, group in enumerate(fusion.groups):
        live += begins[step] - ends[step]
        passes = [each for body in group.bodies if body.is_taken for each in body.passes]
        inner = max(
            (_fused_peak(each.fusion, _apart_inside(each, apart)) for each in passes), default=0
        )
        peak = max(peak, live + inner)
    return peak
