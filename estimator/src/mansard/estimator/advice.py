"""Which options to pass where sizes are missing; advice is tried before it is given.

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

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.model import Given, Model, all_nodes
from mansard.estimator.numbers import may_keep
from mansard.estimator.shape_inference.batch import check_batch, settle_batch
from mansard.estimator.shape_inference.binding import MissingDimensionsError, bind
from mansard.estimator.shape_inference.dimensions import find_dimensions
from mansard.estimator.shape_inference.inference import InferredNetwork, Prepared, infer_shapes

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
        ways.append(f"--upper{most}")
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
