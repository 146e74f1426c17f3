"""Sizes of a decoder's caches from its attention: the width of a head, and how full a buffer is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from mansard.core.errors import MansardError
from mansard.estimator.caches import ATTENTION, Caches, DecoderCache, is_buffer, same_numbers
from mansard.estimator.model import Given, Model, ModelNode, Value
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.dimensions import find_dimensions
from mansard.estimator.shape_inference.inference import InferredNetwork, infer_shapes
from mansard.estimator.tensors import Node, Tensor, walk


def with_head_widths(model: Model, caches: Caches, given: Given) -> Given:
    """``given`` with the head widths of caches that other operands of the attention determine.

    ONNX Runtime GenAI leaves it open, as ``kv_cache_dim``.
    """
    if not caches.caches:
        return given
    dimensions = find_dimensions(model, given).by_input
    nodes = {node.index: (at, node) for at, node in enumerate(model.nodes)}
    widths: dict[str, int] = {}
    for cache in caches.caches:
        dims = dimensions.get(cache.past, ())
        if cache.growth != "attention" or not dims or cache.index not in nodes:
            continue
        last = dims[-1]
        is_given = {last.symbol, last.indexed_name} & (given.dims.keys() | widths.keys())
        if last.fixed is None and last.axis != cache.axis and not is_given:
            width = _head_width(model, *nodes[cache.index], cache, given)
            if width is not None:
                widths[last.symbol] = width
    return msgspec.structs.replace(given, dims=widths | dict(given.dims)) if widths else given


def _head_width(
    model: Model, at: int, node: ModelNode, cache: DecoderCache, given: Given
) -> int | None:
    """The width of a cache's rows, inferred from the nodes before the attention."""
    head = msgspec.structs.replace(model, nodes=model.nodes[:at])
    dimensions = find_dimensions(head, given)
    # What is still open does not affect the width of a head.
    free = {dim.symbol: 1 for dim in dimensions if dim.fixed is None}
    probe = msgspec.structs.replace(given, batch=None, dims=free | dict(given.dims), values={})
    try:
        tensors = infer_shapes(head, bind(head, probe)).tensors
        return _width_of(node, tensors, cache)
    except (MansardError, LookupError, TypeError, ValueError, ZeroDivisionError):
        return None  # it is asked for


def _width_of(node: ModelNode, tensors: Mapping[str, Tensor], cache: DecoderCache) -> int | None:
    operands = [tensors[name] if name else None for name in (*node.inputs[:3], "", "")[:3]]
    query, key, value = operands
    heads = node.attributes.get("num_heads", node.attributes.get("q_num_heads", 0))
    kv_heads = node.attributes.get("kv_num_heads", heads)
    if query is None or query.unknown or not isinstance(heads, int):
        return None
    is_values = cache.past == node.inputs[ATTENTION[node.domain, node.op_type].pairs[-1][0]]
    if node.op_type == "GroupQueryAttention" and isinstance(kv_heads, int):
        n_parts = heads if key is not None else heads + 2 * kv_heads
        width = query.shape[-1] // n_parts
        return -(-width // 2) if node.attributes.get("kv_cache_bit_width") == 4 else width
    if query.rank == 4:
        return value.shape[-1] if is_values and value is not None else query.shape[-1]
    if is_values and value is not None and value.rank == 3 and isinstance(kv_heads, int):
        return value.shape[-1] // kv_heads
    return query.shape[-1] // heads if query.rank == 3 and key is not None else None


class FullCaches(msgspec.Struct, frozen=True):
    """What to assume for cache buffers of unknown fill: ``values`` make them count as full.

    ``notes`` say what was assumed; for a cache that grows it is no upper bound.
    """

    values: Mapping[str, Value]
    bounds: Mapping[str, int]
    notes: tuple[str, ...]


def find_full_caches(model: Model, caches: Caches, network: InferredNetwork) -> FullCaches:
    """What to assume for attention nodes whose number of keys depends on data."""
    values: dict[str, Value] = {}
    bounds: dict[str, int] = {}
    notes: dict[str, None] = {}
    attentions = tuple(_attentions(network))
    shown = same_numbers(model) if attentions else {}
    for node in attentions:
        places = ATTENTION[node.domain, node.op_type]
        lengths = [
            (what, tensor)
            for what, position in places.lengths.items()
            if (tensor := node.optional(position)) is not None
        ]
        if not lengths or any(tensor.value is not None for _, tensor in lengths):
            continue
        what, tensor = lengths[-1]  # a total before the lengths of samples
        room, n_new = _room(node, places.pairs[0][0], places.axis)
        if room is None or tensor.unknown:
            continue
        name = shown.get(tensor.name, tensor.name)
        hint = f"give --value '{name}=N'"
        past = node.optional(places.pairs[0][0])
        cache = None if past is None else caches.of(past.name)
        if node.op_type == "GroupQueryAttention" and not (cache and is_buffer(model, cache)):
            notes[f"{name!r} is not known: all {room} cached keys count; {hint}"] = None
            continue
        full = {"past": room - n_new, "last of each": room - 1}.get(what, room)
        # A single number would give an open list one element.
        values[name] = (max(full, 0),) * tensor.n_elements if tensor.rank else max(full, 0)
        bounds[name] = max(full, 0)
        notes[
            f"{name!r} is not known: a cache of {room} keys counts as full, which is an "
            f"upper bound; {hint}"
        ] = None
    return FullCaches(values, bounds, tuple(notes))


def _attentions(network: InferredNetwork) -> Iterator[Node]:
    for instance in walk(network.nodes):
        node = instance.node
        is_known = node.unknown_input is None and instance.is_taken
        if is_known and (node.domain, node.op_type) in ATTENTION:
            yield node


def _room(node: Node, past_at: int, axis: int) -> tuple[int | None, int]:
    """How many keys the buffer of an attention holds, and how many are new; None without one."""
    past, key = node.optional(past_at), node.optional(1)
    if (node.domain, node.op_type) == ("", "Attention"):  # keys are the buffer themselves
        return (None if key is None or past is not None else key.shape[-2]), 0
    if past is None or past.rank <= axis:
        return None, 0
    is_whole = node.op_type in ("GroupQueryAttention", "SparseAttention", "MultiHeadAttention")
    if not is_whole and not node.integer("past_present_share_buffer", 0):
        return None, 0
    query = node.input(0)
    n_new = (
        query.shape[1] if key is None or key.rank != 3 or "Group" in node.op_type else key.shape[1]
    )
    return past.shape[axis], n_new
