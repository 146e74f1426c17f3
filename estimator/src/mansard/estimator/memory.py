"""Memory: the peak of activations, and a decoder's keys and values.

Nodes run one at a time. A tensor exists from the node that makes it to its last
reader; what the network is given and what it returns, for the whole inference. A view
is its source's memory, and so are a Split, a Slice without steps and a dequantised
tensor. Constants and weights come on top.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from typing import Literal

import msgspec

from mansard.core.precision import Precision
from mansard.core.records import KvCacheUpdate
from mansard.estimator.caches import (
    ATTENTION,
    CACHE_NAME,
    CROSS_NAME,
    NO_CACHES,
    Caches,
    may_be_cache,
)
from mansard.estimator.fusion import BodyGroups, Fusion
from mansard.estimator.fusion.accounting import PassGroups, root_storage
from mansard.estimator.fusion.roles import Role
from mansard.estimator.fusion.storage import Storage
from mansard.estimator.tensors import Node, Tensor

_PRESENT = re.compile(r"(^|[._/])(present|(updated|new)_?(kv_?)?cache|(kv_?)?cache)", re.IGNORECASE)


class KvCache(msgspec.Struct, frozen=True):
    """The tensors that hold keys and values for the next token, and their bytes.

    ``written``: those that the network returns. ``kept``: inputs that are such memory and stay
    where they are: of cross attention, and buffers that the file shares between input and
    output. ``copied``: inputs that grow into another tensor, unless that is done in place.
    """

    n_bytes: int = 0
    written: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    copied: frozenset[str] = frozenset()
    is_traced: bool = True  # whether the graph shows how every cache is extended


def find_kv_cache(
    nodes: Iterable[Node],
    inputs: Iterable[Tensor],
    outputs: Collection[str],
    caches: Caches,
    precision: Precision | None,
) -> KvCache:
    """The keys and values for the network's next token; all sizes must be known.

    They are the caches that the graph extends (``caches``), what attention operators make of
    theirs, and outputs called ``present…`` or ``…cache`` where inputs are called ``past…`` or
    ``…cache``. Beside such, inputs called so that nothing extends are kept as they are.
    """
    input_bytes = {tensor.name: tensor.n_bytes(precision) for tensor in inputs}
    past_named = {
        tensor.name
        for tensor in inputs
        if CACHE_NAME.search(tensor.name) and may_be_cache(tensor.dtype, tensor.rank)
    }
    has_past = any(CACHE_NAME.search(name) for name in input_bytes)
    grown = {cache.present: cache.past for cache in caches.caches}
    rows = {cache.rows for cache in caches.caches}  # they are part of what has grown
    made: dict[str, int] = {}  # what the graph extends
    named: dict[str, int] = {}  # what only its name or its operator tells
    for tensor, is_attention_s in _written(nodes):
        is_named = has_past and tensor.name in outputs and _PRESENT.search(tensor.name)
        if tensor.name in grown:
            made[tensor.name] = tensor.n_bytes(precision)
        elif tensor.name not in rows and (is_named or is_attention_s):
            named[tensor.name] = tensor.n_bytes(precision)
    extended = {past for present, past in grown.items() if present in made}
    buffers = {cache.past for cache in caches.caches if cache.growth in ("attention", "scatter")}
    shared = {
        grown[name]
        for name, n_bytes in made.items()
        if grown[name] in buffers and n_bytes <= input_bytes[grown[name]]
    }
    unmoved = past_named - extended if made or named else set()
    n_unmoved = sum(input_bytes[name] for name in unmoved)
    is_traced = not (_of_decoder(named) and _of_decoder(unmoved))
    if n_unmoved <= sum(named.values()):  # the outputs hold what these inputs held
        n_unmoved, unmoved = 0, set()
    return KvCache(
        sum(made.values()) + sum(named.values()) + n_unmoved,
        frozenset((*made, *named)),
        frozenset(shared | unmoved),
        frozenset(extended - shared),
        is_traced,
    )


def _of_decoder(names: Iterable[str]) -> bool:
    """Whether any cache belongs to self attention: those of cross attention never grow."""
    return not all(map(CROSS_NAME.search, names))


def _written(nodes: Iterable[Node]) -> Iterator[tuple[Tensor, bool]]:
    """The tensors of the main graph, each with whether it is an attention's new cache."""
    for node in nodes:
        places = ATTENTION.get((node.domain, node.op_type))
        in_place = {out for _, out in places.pairs} if places is not None else ()
        for position, output in enumerate(node.outputs):
            if output.name:
                yield output, position in in_place


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
    tensors = tuple(inputs)
    may_be_unknown = any(tensor.unknown for tensor in tensors) or _is_partly_unknown(fusion)
    reason = _unknown(nodes, tensors) if may_be_unknown else None
    is_in_place = bool(fusion.wiring.constants.in_place)
    if reason is not None:
        known: KvCacheUpdate = "in-place" if is_in_place else "copied"
        counted = known if caches.caches else "none"
        return Memory(None, None, None, None, reason, kv_cache_update=counted)
    cache = find_kv_cache(nodes, tensors, outputs, caches, precision)
    taken_over = cache.kept | cache.copied if is_in_place else cache.kept
    held = sum(tensor.n_bytes(precision) for tensor in tensors if tensor.name not in taken_over)
    parts = (fusion.wiring.known(name) for name in cache.written)
    apart = {root_storage(part.storage) for part in parts if part is not None}
    peak, shared = _peaks(fusion, apart)
    is_copied = not cache.is_traced or (cache.copied and not is_in_place)
    update: KvCacheUpdate = "copied" if is_copied else "in-place"
    return Memory(
        held + peak,
        held + shared,
        held + _fused_peak(fusion, apart),
        cache.n_bytes,
        kv_cache_update=update if cache.n_bytes else "none",
    )


def _is_partly_unknown(fusion: Fusion) -> bool:
    if fusion.wiring.unknown:
        return True
    passes = (pass_ for group in fusion.groups for body in group.bodies for pass_ in body.passes)
    return any(_is_partly_unknown(pass_.fusion) for pass_ in passes)


def _unknown(nodes: Iterable[Node], inputs: Iterable[Tensor]) -> str | None:
    for tensor in inputs:
        if tensor.unknown:
            return tensor.unknown
    for node in nodes:
        for tensor in node.outputs:
            if tensor.unknown:
                return tensor.unknown
        for body in node.bodies:
            for pass_ in body.passes:
                reason = _unknown(pass_.nodes, ())
                if reason is not None:
                    return reason
    return None


def _peaks(fusion: Fusion, apart: Set[Storage]) -> tuple[int, int]:
    """The peak memory of one graph's tensors, without and with operators in place.

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
    peaks = [
        _peaks(pass_.fusion, _apart_inside(pass_, apart))
        for body in bodies
        if body.is_taken
        for pass_ in body.passes
    ]
    plain, in_place = zip(*peaks, strict=True) if peaks else ((0,), (0,))
    return max(plain), max(in_place)


def _apart_inside(pass_: PassGroups, apart: Set[Storage]) -> Set[Storage]:
    """``apart`` by the storages of the graph inside a node."""
    return {inner for inner, outer in pass_.leave if outer in apart} if apart else apart


def _fused_peak(fusion: Fusion, apart: Set[Storage]) -> int:
    """As ``_peaks``, but for what fused groups write."""
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
        passes = [pass_ for body in group.bodies if body.is_taken for pass_ in body.passes]
        inner = max(
            (_fused_peak(pass_.fusion, _apart_inside(pass_, apart)) for pass_ in passes), default=0
        )
        peak = max(peak, live + inner)
    return peak
