"""How much memory the keys and values take that a decoder keeps for its next token."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.caches import ATTENTION, CACHE_NAME, CROSS_NAME, Caches, may_be_cache
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
    """Keys and values for the network's next token; all sizes are known.

    They are the caches that the graph extends (``caches``), what attention operators make of
    theirs, and outputs called ``present…`` or ``…cache`` where inputs are called ``past…`` or
    ``…cache``. Beside such, inputs called so that nothing extends are kept as they are.
    """
    given = {tensor.name: tensor.n_bytes(precision) for tensor in inputs}
    past_named = {
        tensor.name
        for tensor in inputs
        if CACHE_NAME.search(tensor.name) and may_be_cache(tensor.dtype, tensor.rank)
    }
    has_past = any(CACHE_NAME.search(name) for name in given)
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
        if grown[name] in buffers and n_bytes <= given[grown[name]]
    }
    unmoved = past_named - extended if made or named else set()
    n_unmoved = sum(given[name] for name in unmoved)
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
    """Whether any of them is no cache of cross attention, which stays as it is."""
    return not all(map(CROSS_NAME.search, names))


def _written(nodes: Iterable[Node]) -> Iterator[tuple[Tensor, bool]]:
    """Tensors of the main graph, and whether they are an attention's keys and values."""
    for node in nodes:
        places = ATTENTION.get((node.domain, node.op_type))
        kept = {out for _, out in places.pairs} if places is not None else ()
        for position, output in enumerate(node.outputs):
            if output.name:
                yield output, position in kept
