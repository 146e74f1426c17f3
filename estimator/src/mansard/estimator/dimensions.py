"""Giving every dimension of the inputs a number, and saying which ones are missing."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.graph.order import reads
from mansard.estimator.model import Model, ModelInput, ModelNode
from mansard.estimator.tensors import Shape

# Names that exporters and people give the batch, the clearer ones first. A product or
# sum such as "2*batch" is another dimension.
_BATCH_NAMES = (
    re.compile(r"(\w+_)?batch(_?(size|dim|axis|num|n))?(_?\d+)?", re.IGNORECASE),
    re.compile(r"n|b|bs|bsz", re.IGNORECASE),
)
_MAX_SIZE = 2**40  # a dimension beyond this is a damaged file or a slip of the keyboard


class Place(msgspec.Struct, frozen=True):
    """One dimension of one input. ``symbol`` is its name; places that share one are equal."""

    tensor: str
    axis: int
    symbol: str
    fixed: int | None


class Binding(msgspec.Struct, frozen=True):
    """The inputs' shapes. ``named`` holds the dimensions that have a name in the file.

    ``is_batch_guessed``: the batch was taken to be the first dimension, for want of a name.
    """

    shapes: Mapping[str, Shape | str]
    named: Mapping[str, int]
    batch: int | None
    is_batch_guessed: bool
    is_batch_changed: bool


def bind(model: Model, batch: int | None, dims: Mapping[str, int]) -> Binding:
    """Numbers for all dimensions that are needed.

    Raises UsageError for a name or size that cannot be, ModelError listing every
    dimension that is missing with the first node that needs it.
    """
    places = {
        (given.name, axis): _place(given, axis, size)
        for given in model.inputs
        for axis, size in enumerate(given.dimensions or ())
    }
    batch_symbols, is_guessed = _batch_symbols(model, places)
    sizes = _sizes(places, batch_symbols, batch, dims)
    _check_known(model, places, sizes, batch_symbols)
    shapes: dict[str, Shape | str] = {}
    for given in model.inputs:
        shapes[given.name] = _shape(given, places, sizes)
    named = {
        place.symbol: sizes[place.symbol]
        for place in places.values()
        if place.fixed is None and place.symbol in sizes
    }
    own = _own_batch(batch_symbols, sizes)
    fixed = {place.fixed for place in places.values() if place.symbol in batch_symbols}
    is_changed = batch is not None and fixed != {batch}
    return Binding(shapes, named, own, is_guessed, is_changed)


def _place(given: ModelInput, axis: int, size: int | str | None) -> Place:
    # A dimension without a name gets one that a command line can say.
    symbol = size if isinstance(size, str) else f"{given.name}[{axis}]"
    fixed = size if isinstance(size, int) else None
    if fixed == 0:
        raise ModelError(
            f"dimension {axis} is 0: there is nothing to compute",
            where=f"input {given.name!r}",
            fix=f"give it a size with --dim '{symbol}=1'",
        )
    return Place(given.name, axis, symbol, fixed)


def _batch_symbols(
    model: Model, places: Mapping[tuple[str, int], Place]
) -> tuple[frozenset[str], bool]:
    """The symbols that stand for the batch, and whether that is a guess from position."""
    symbols = {place.symbol for place in places.values() if place.fixed is None}
    for pattern in _BATCH_NAMES:
        named = frozenset(symbol for symbol in symbols if pattern.fullmatch(symbol))
        if named:
            return named, False
    firsts = [places[given.name, 0] for given in model.inputs if given.dimensions]
    # Inputs that do not start as the first one does are something else: states, scales.
    alike = {
        place.symbol
        for place in firsts
        if (place.fixed, place.symbol if _has_name(place) else None)
        == (firsts[0].fixed, firsts[0].symbol if _has_name(firsts[0]) else None)
    }
    return frozenset(alike), True


def _has_name(place: Place) -> bool:
    return place.fixed is None and place.symbol != f"{place.tensor}[{place.axis}]"


def _sizes(
    places: Mapping[tuple[str, int], Place],
    batch_symbols: frozenset[str],
    batch: int | None,
    dims: Mapping[str, int],
) -> dict[str, int]:
    sizes = {place.symbol: place.fixed for place in places.values() if place.fixed is not None}
    if batch is not None:
        _check_size("batch", batch, 1)
        sizes.update(dict.fromkeys(batch_symbols, batch))
    by_position = {f"{place.tensor}[{place.axis}]": place.symbol for place in places.values()}
    known = {place.symbol for place in places.values()}
    for name, size in dims.items():
        symbol = name if name in known else by_position.get(name)
        if symbol is None:
            names = ", ".join(sorted({p.symbol for p in places.values() if p.fixed is None}))
            raise UsageError(
                f"the model has no dimension named {name!r}",
                fix=f"it has {names}" if names else "all its dimensions are fixed",
            )
        _check_size(name, size, 0)
        sizes[symbol] = size
    return sizes


def _check_size(name: str, size: int, least: int) -> None:
    if not least <= size <= _MAX_SIZE:
        raise UsageError(f"{name} = {size} is not a size", fix=f"give {least} or more, below 2^40")


def _check_known(
    model: Model,
    places: Mapping[tuple[str, int], Place],
    sizes: Mapping[str, int],
    batch_symbols: frozenset[str],
) -> None:
    users = _first_users(model)
    missing: dict[str, str] = {}
    for place in places.values():
        user = users.get(place.tensor)
        if user is not None and place.symbol not in sizes and place.symbol not in missing:
            missing[place.symbol] = (
                f"{place.symbol!r} (dimension {place.axis} of input {place.tensor!r}, "
                f"first needed by {user.label})"
            )
    if not missing:
        return
    flags = [
        "--batch 1" if symbol in batch_symbols else f"--dim '{symbol}=N'" for symbol in missing
    ]
    raise ModelError(
        f"{len(missing)} dimension(s) must be given: {', '.join(missing.values())}",
        fix=f"pass {' '.join(dict.fromkeys(flags))}",
    )


def _first_users(model: Model) -> dict[str, ModelNode]:
    users: dict[str, ModelNode] = {}
    for node in model.nodes:
        for name in reads(node):
            users.setdefault(name, node)
    return users


def _shape(
    given: ModelInput, places: Mapping[tuple[str, int], Place], sizes: Mapping[str, int]
) -> Shape | str:
    if given.dtype is None:
        return f"input {given.name!r} is no tensor"
    if given.dimensions is None:
        return f"input {given.name!r} has no shape in the file"
    symbols = [places[given.name, axis].symbol for axis in range(len(given.dimensions))]
    if not all(symbol in sizes for symbol in symbols):
        return f"input {given.name!r} has dimensions that are not given"
    shape = tuple(sizes[symbol] for symbol in symbols)
    if any(size > _MAX_SIZE for size in shape):
        raise ModelError(
            f"shape {list(shape)} is absurd",
            where=f"input {given.name!r}",
            fix="the file is damaged; export it again",
        )
    return shape


def _own_batch(batch_symbols: frozenset[str], sizes: Mapping[str, int]) -> int | None:
    found = {sizes[symbol] for symbol in batch_symbols if symbol in sizes}
    return found.pop() if len(found) == 1 else None
