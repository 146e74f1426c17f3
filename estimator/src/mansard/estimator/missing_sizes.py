"""Sizes that were not given: of caches, which follow from attention, and advice for all others.

Unknown sizes appear one after another, some contradict each other, and a length may be the value of
an integer input. So shapes are inferred with the options that would be advised, with one number for
everything that is open, until nothing is missing; the options that succeed are the advice. Where
none succeed, the original message stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from mansard.core.errors import MansardError, ModelError, UsageError
from mansard.estimator.caches import ATTENTION, Caches, DecoderCache, is_buffer, same_numbers
from mansard.estimator.model import Given, Model, ModelNode, Value, all_nodes
from mansard.estimator.numbers import may_keep
from mansard.estimator.shape_inference.batch import check_batch, settle_batch
from mansard.estimator.shape_inference.binding import MissingDimensionsError, bind
from mansard.estimator.shape_inference.dimensions import find_dimensions
from mansard.estimator.shape_inference.inference import InferredNetwork, Prepared, infer_shapes
from mansard.estimator.tensors import Node, Tensor, walk


def with_head_widths(model: Model, caches: Caches, given: Given) -> Given:
    """``given`` with the head widths of caches that other operands of the attention determine.

    ONNX Runtime GenAI leaves the width open, as ``kv_cache_dim``.
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
            notes[f"{name!r} is unknown: all {room} cached keys count; {hint}"] = None
            continue
        full = {"past": room - n_new, "last of each": room - 1}.get(what, room)
        # A single number would give an open list one element.
        values[name] = (max(full, 0),) * tensor.n_elements if tensor.rank else max(full, 0)
        bounds[name] = max(full, 0)
        notes[
            f"{name!r} is unknown: a cache of {room} keys counts as full, which is an "
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


# One of these fits most networks: tokens, pixels, coordinates of boxes, channels.
_SIZES = (64, 8, 224, 1, 2, 512, 4, 3)
_LENGTHS = (1, 2, 4, 5)  # of lists of axes, of sizes of an image or a volume
_LEAST = 4  # of them have to fit where there is another way
_VALUES = (1, 2, 3)  # that an integer input may hold
_MOST_ROUNDS = 12  # sizes that follow from one another
_MOST_NAMES = 4  # dimensions of one operator that are named; more have a pattern
_TRIP = re.compile(r"--trip '([^']*)=N'")
_ALLOW = "score with --allow-unknown to leave the layers behind them out visibly"


class _Attempt(msgspec.Struct):
    """What was added to ``given``: dimensions of inputs, and sizes that depend on data."""

    given: Given
    size: int  # for all that is open
    sizes: dict[str, int]  # of lists of integers, which are shorter than other dimensions
    inputs: dict[str, int] = msgspec.field(default_factory=dict)
    flags: dict[str, str] = msgspec.field(default_factory=dict)  # of the inputs' dimensions
    open_dims: dict[str, tuple[str, int | None]] = msgspec.field(default_factory=dict)
    trips: dict[str, int] = msgspec.field(default_factory=dict)
    values: dict[str, int] = msgspec.field(default_factory=dict)
    is_stuck: bool = False  # something stays unknown whatever is given
    varying: set[str] = msgspec.field(default_factory=set)  # operators with any number of them


def advise_sizes(
    error: MissingDimensionsError, model: Model, given: Given, prepared: Prepared
) -> ModelError:
    """The error for missing dimensions of inputs, with every option that is then needed."""
    # A size that is too large for a list of axes leaves nothing open.
    attempts = list(_attempts(model, given, prepared))
    attempts = [candidate for candidate in attempts if not candidate.is_stuck] or attempts[:1]
    attempt = max(attempts, key=lambda candidate: len(_flags(candidate)), default=None)
    if attempt is not None:
        # How many dimensions something has may follow from the length of a list.
        kinds = [candidate.open_dims.keys() for candidate in attempts if candidate.open_dims]
        common = set.intersection(*map(set, kinds)) if kinds else set()
        attempt.varying.update(
            op_type
            for candidate in attempts
            for name, (op_type, _) in candidate.open_dims.items()
            if name not in common
        )
    if attempt is None:
        return error
    flags_of_inputs = _with_batch(attempt, model, prepared)
    if flags_of_inputs == error.flags and not _flags(attempt):
        return error
    later = ", ".join(f"{name!r} ({op_type})" for name, (op_type, _) in attempt.open_dims.items())
    also = f"; then sizes that depend on data: {later}" if later else ""
    flags = " ".join(dict.fromkeys([*flags_of_inputs.values(), *_flags(attempt)]))
    return ModelError(f"{error.what}{also}", where=error.where, fix=f"pass {flags}")


def _with_batch(attempt: _Attempt, model: Model, prepared: Prepared) -> dict[str, str]:
    """The options for dimensions of inputs: --batch 1 for the batch, where the network takes it."""
    symbols = attempt.flags.keys() & find_dimensions(model, attempt.given).batch_symbols
    if attempt.size == 1 and attempt.flags.keys() > symbols:
        return attempt.flags  # a batch of 1 with other sizes was not tried
    stated = _stated(attempt)
    dims = {name: size for name, size in stated.dims.items() if name not in symbols}
    batch_of_1 = msgspec.structs.replace(stated, batch=1, dims=dims)
    try:
        binding = bind(model, batch_of_1)
        network = infer_shapes(model, binding, prepared)
        check_batch(model, binding, network)
        is_batch = settle_batch(model, batch_of_1, prepared) == batch_of_1 and not _reasons(network)
    except (ModelError, UsageError):
        is_batch = False
    plain = {name: "--batch 1" if is_batch else f"--dim '{name}=N'" for name in symbols}
    return {name: plain.get(name, flag) for name, flag in attempt.flags.items()}


def advise_shapes(
    error: ModelError, model: Model, given: Given, prepared: Prepared, network: InferredNetwork
) -> ModelError:
    """The error for shapes that depend on data, with every set of options that gives a score."""
    ways = [f"--value '{name}={value}'" for name, value in _values(model, given, prepared, network)]
    attempts = [
        candidate for candidate in _attempts(model, given, prepared) if not candidate.is_stuck
    ]
    flags = Counter(tuple(_flags(attempt)) for attempt in attempts)
    # Sizes that fit by chance alone do not fit another number.
    ways += [" ".join(way) for way, count in flags.most_common(1) if count >= _LEAST or not ways]
    bounds = [most for _, most in network.missing.values()]
    if _is_complete(model, msgspec.structs.replace(given, upper=True), prepared):
        is_known = bounds and None not in bounds and len(bounds) <= _MOST_NAMES
        most = f" to count at most {', '.join(map(str, bounds))}" if is_known else ""
        ways.append(f"--upper-bounds{most}")
    values = [way for way in ways if way.startswith("--value")]
    is_said = all(flag in error.what for way in flags for flag in way)
    if not ways or (is_said and not values and len(set(_reasons(network))) == 1):
        return error  # its one reason says what to pass
    what = re.sub(r": pass (?:(?!; node |; and \d+ more).)*", "", error.what)
    return ModelError(what, where=error.where, fix=f"pass {', or '.join([*ways, _ALLOW])}")


def _attempts(model: Model, given: Given, prepared: Prepared) -> Iterator[_Attempt]:
    """Completions of ``given``, with a few different sizes for everything that is open."""
    dimensions = find_dimensions(model, given)
    lists = {
        dims[0].symbol
        for source in model.inputs
        if source.dtype is not None and not source.dtype.is_float
        if len(dims := dimensions.by_input.get(source.name, ())) == 1 and dims[0].fixed is None
    }
    for size in _SIZES:
        for length in (size, *_LENGTHS) if lists else (size,):
            attempt = _Attempt(given, size, dict.fromkeys(lists, length))
            if _complete(attempt, model, prepared) or attempt.is_stuck:
                yield attempt


def _complete(attempt: _Attempt, model: Model, prepared: Prepared) -> bool:
    """Add what is missing, round by round; returns whether nothing is missing in the end."""
    for _ in range(_MOST_ROUNDS):
        try:
            network = _inferred(model, _stated(attempt), prepared)
        except MissingDimensionsError as error:
            sizes = {**attempt.sizes, **error.sizes}
            new = {name: sizes.get(name, attempt.size) for name in error.flags}
            if new.keys() <= attempt.inputs.keys():
                return False
            attempt.inputs.update(new)
            attempt.flags.update(error.flags)
            continue
        except (ModelError, UsageError):
            return False
        unknown = _reasons(network)
        if not unknown:
            return True
        trips = {name: attempt.size for reason in unknown for name in _TRIP.findall(reason)}
        if network.missing.keys() <= attempt.open_dims.keys() and not trips.keys() - attempt.trips:
            values = dict(_values(model, _stated(attempt), prepared, network))
            attempt.values.update(values)
            attempt.is_stuck = not values
            return not attempt.is_stuck
        attempt.open_dims.update(network.missing)
        attempt.trips.update(trips)
    return False


def _stated(attempt: _Attempt) -> Given:
    given = attempt.given
    return msgspec.structs.replace(
        given,
        dims={**given.dims, **attempt.inputs, **dict.fromkeys(_open_names(attempt), attempt.size)},
        trips={**given.trips, **attempt.trips},
    )


def _open_names(attempt: _Attempt) -> list[str]:
    """The open dimensions by position, or as a pattern where an operator has many."""
    counts = Counter(op_type for op_type, _ in attempt.open_dims.values())
    names = (
        f"{op_type}:*" if counts[op_type] > _MOST_NAMES or op_type in attempt.varying else name
        for name, (op_type, _) in attempt.open_dims.items()
    )
    return list(dict.fromkeys(names))


def _flags(attempt: _Attempt) -> list[str]:
    return [
        *(f"--dim '{name}=N'" for name in _open_names(attempt)),
        *(f"--trip '{name}=N'" for name in attempt.trips),
        *(f"--value '{name}={value}'" for name, value in list(attempt.values.items())[:1]),
        *(["--allow-unknown"] if attempt.is_stuck else []),
    ]


def _values(
    model: Model, given: Given, prepared: Prepared, network: InferredNetwork
) -> Iterator[tuple[str, int]]:
    """Integer inputs that all open sizes follow from, each with a number that it may have."""
    makers = {name: node for node in all_nodes(model.nodes) for name in node.outputs}
    waiting = [
        tensor.name
        for node in network.nodes
        if node.unknown_input is None
        for tensor in node.outputs
        if tensor.unknown
    ]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in makers and name not in seen:
            waiting += makers[name].reads
        seen.add(name)
    for source in model.inputs:
        name, tensor = source.name, network.tensors[source.name]
        is_whole = (
            source.kind == "tensor" and source.dtype is not None and not tensor.dtype.is_float
        )
        if name not in seen or name in given.values or not is_whole or tensor.unknown is not None:
            continue
        if not may_keep(tensor.dtype, tensor.n_elements):
            continue
        for value in _VALUES:
            values: Mapping[str, int] = {**given.values, source.name: value}  # type: ignore[dict-item]
            if _is_complete(model, msgspec.structs.replace(given, values=values), prepared):
                yield source.name, value
                break


def _is_complete(model: Model, given: Given, prepared: Prepared) -> bool:
    try:
        return not _reasons(_inferred(model, given, prepared))
    except (ModelError, UsageError):
        return False


def _inferred(model: Model, given: Given, prepared: Prepared) -> InferredNetwork:
    return infer_shapes(model, bind(model, given), prepared)


def _reasons(network: InferredNetwork) -> list[str]:
    tensors = (tensor for node in network.nodes for tensor in (*node.present, *node.outputs))
    return [tensor.unknown for tensor in tensors if tensor.unknown]
