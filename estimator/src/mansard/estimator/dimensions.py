"""Giving every dimension of the inputs a number, and saying which ones are missing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.given import NOTHING_GIVEN, Given
from mansard.estimator.inputs import MAX_SIZE, input_tensor, length_name, present_name
from mansard.estimator.model import Model
from mansard.estimator.names import check_names
from mansard.estimator.places import Places, find_places
from mansard.estimator.tensors import Tensor


class Binding(msgspec.Struct, frozen=True):
    """The inputs, each with its shape, or the reason why it has none.

    ``named`` holds the dimensions that have a name in the file, and those given by place.
    ``is_batch_guessed``: the batch was taken to be the first dimension, for want of a name.
    """

    tensors: Mapping[str, Tensor]
    named: Mapping[str, int]
    batch: int | None
    is_batch_guessed: bool
    is_batch_changed: bool
    given: Given


def bind(model: Model, given: Given = NOTHING_GIVEN) -> Binding:
    """Numbers for all dimensions that are needed.

    Raises UsageError for a name or size that cannot be, ModelError listing every
    dimension that is missing with the first node that needs it.
    """
    places = find_places(model, given)
    check_names(model, places, given)
    sizes = _sizes(places, given)
    _check_known(model, places, sizes, given)
    tensors = {
        source.name: input_tensor(source, places.by_input.get(source.name), sizes, given)
        for source in model.inputs
    }
    named: dict[str, int] = {}
    for place in places:
        size = place.size(sizes)
        if place.fixed is None and size is not None:
            is_other = sizes[place.symbol] != size
            named[place.position if is_other else place.symbol] = size
    own = {sizes[symbol] for symbol in places.batch_symbols if symbol in sizes}
    fixed = {place.fixed for place in places if place.symbol in places.batch_symbols}
    return Binding(
        tensors,
        named,
        own.pop() if len(own) == 1 else None,
        places.is_batch_guessed,
        given.batch is not None and fixed != {given.batch},
        given,
    )


def _sizes(places: Places, given: Given) -> dict[str, int]:
    """Sizes by symbol; what is given by name wins over the batch, both over the file."""
    sizes = {place.symbol: place.fixed for place in places if place.fixed is not None}
    if given.batch is not None:
        check_size("batch", given.batch, 1)
        sizes.update(dict.fromkeys(places.batch_symbols, given.batch))
    sizes.update(_given_sizes(places, given))
    for place in places:
        is_given = place.symbol in given.dims or place.tensor in given.shapes
        if place.fixed == 0 and place.size(sizes) == 0 and not is_given:
            raise ModelError(
                f"dimension {place.axis} is 0: there is nothing to compute",
                where=f"input {place.tensor!r}",
                fix=f"give it a size with --dim '{place.symbol}=1', or 0 if that is meant",
            )
    for symbol, tree in places.expressions().items():
        if symbol not in sizes and tree.names <= sizes.keys():
            size = tree.evaluate(sizes)
            if size is None:
                known = ", ".join(f"{name} = {sizes[name]}" for name in sorted(tree.names))
                raise ModelError(f"dimension {symbol!r} is no size where {known}")
            sizes[symbol] = size
    return sizes


def _given_sizes(places: Places, given: Given) -> dict[str, int]:
    """Sizes by symbol and by place. A place may differ from others of its name."""
    positions = {place.position: place for place in places}
    exact = dict(given.dims)
    for name, shape in given.shapes.items():
        for place, size in zip(places.by_input.get(name, ()), shape, strict=False):
            if exact.setdefault(place.position, size) != size:
                raise UsageError(
                    f"{place.position!r} is given as {exact[place.position]} and as {size}"
                )
    sizes: dict[str, int] = {}
    for name, size in exact.items():
        check_size(name, size, 0)
        sizes[name] = size
    for name, size in exact.items():
        if name in positions:
            sizes.setdefault(positions[name].symbol, size)
    for name, value in given.values.items():
        # A value tells the length of a list; the dimension may be given all the same.
        own = places.by_input.get(name, ())
        if len(own) == 1 and own[0].fixed is None:
            sizes.setdefault(own[0].symbol, len(value) if isinstance(value, tuple) else 1)
    return sizes


def check_size(name: str, size: int, least: int) -> None:
    """Raise UsageError unless ``size`` can be a dimension."""
    if not least <= size <= MAX_SIZE:
        raise UsageError(f"{name} = {size} is not a size", fix=f"give {least} or more, below 2^40")


def _check_known(model: Model, places: Places, sizes: Mapping[str, int], given: Given) -> None:
    missing = [place for place in places if place.size(sizes) is None]
    lengths = [
        source.name
        for source in model.inputs
        if "sequence" in source.kind and length_name(source.name) not in given.dims
    ]
    if not missing and not lengths:
        return
    users = _first_users(model, given)
    expressions, symbols = places.expressions(), {place.symbol for place in places}
    needed: dict[str, str] = {}
    for place in missing:
        user = users.get(place.tensor)
        if user is None:
            continue
        tree = expressions.get(place.symbol)
        # A sum of named dimensions follows from these.
        is_sum = tree is not None and tree.names <= symbols
        for symbol in sorted(tree.names - sizes.keys()) if tree and is_sum else [place.symbol]:
            what = f"dimension {place.axis} of input {place.tensor!r}, first needed by {user}"
            needed.setdefault(symbol, f"{symbol!r} ({what})")
    for name in lengths:
        if name in users:
            what = f"elements of input {name!r}, first needed by {users[name]}"
            needed[length_name(name)] = f"{length_name(name)!r} ({what})"
    if needed:
        flags = [
            "--batch 1" if symbol in places.batch_symbols else f"--dim '{symbol}=N'"
            for symbol in needed
        ]
        raise ModelError(
            f"{len(needed)} dimension(s) must be given: {', '.join(needed.values())}",
            fix=f"pass {' '.join(dict.fromkeys(flags))}",
        )


def _first_users(model: Model, given: Given) -> dict[str, str]:
    users: dict[str, str] = {}
    for node in model.nodes:
        for name in node.reads:
            users.setdefault(name, node.label)
    # What is said to be absent needs no dimensions.
    return {name: user for name, user in users.items() if given.dims.get(present_name(name)) != 0}
