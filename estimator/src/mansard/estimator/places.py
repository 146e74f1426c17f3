"""The dimensions of a network's inputs: their names, and which of them is the batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from mansard.core.errors import UsageError
from mansard.estimator.expressions import Expression, parse_expression
from mansard.estimator.given import Given
from mansard.estimator.model import Dimension, Model, ModelInput, ModelNode, Subgraph

# Names that exporters and people give the batch, the clearer ones first. A product or
# sum such as "2*batch" is another dimension.
_BATCH_NAMES = (
    re.compile(r"(\w+_)?batch([-_. ]?(size|dim|axis|num|n))?(_?\d+)?", re.IGNORECASE),
    re.compile(r"n|b|bs|bsz", re.IGNORECASE),
)


class Place(msgspec.Struct, frozen=True):
    """One dimension of one input. ``symbol`` is its name; places that share one are equal."""

    tensor: str
    axis: int
    symbol: str
    fixed: int | None

    @property
    def position(self) -> str:
        return f"{self.tensor}[{self.axis}]"

    @property
    def has_name(self) -> bool:
        return self.fixed is None and self.symbol != self.position

    def size(self, sizes: Mapping[str, int]) -> int | None:
        """What was found for this place, else for its name."""
        return sizes.get(self.position, sizes.get(self.symbol))


class Places(msgspec.Struct, frozen=True):
    """All dimensions of all inputs, in order; ``by_input`` has none for inputs without shape."""

    by_input: Mapping[str, tuple[Place, ...]]
    batch_symbols: frozenset[str]
    is_batch_guessed: bool

    def __iter__(self) -> Iterator[Place]:
        return (place for places in self.by_input.values() for place in places)

    @property
    def symbols(self) -> list[str]:
        """Names of the dimensions that are not fixed, sorted."""
        return sorted({place.symbol for place in self if place.fixed is None})

    def expressions(self) -> dict[str, Expression]:
        """Names that can be computed from others, such as ``past_length + 1``."""
        found = {place.symbol: parse_expression(place.symbol) for place in self if place.has_name}
        return {symbol: tree for symbol, tree in found.items() if tree is not None}


def find_places(model: Model, given: Given) -> Places:
    """The inputs' dimensions; raises UsageError for a given shape of another rank."""
    by_input: dict[str, tuple[Place, ...]] = {}
    for source in model.inputs:
        dimensions = _dimensions(source, given)
        if dimensions is not None:
            by_input[source.name] = tuple(
                _place(source, axis, size) for axis, size in enumerate(dimensions)
            )
    firsts = [places[0] for name, places in by_input.items() if places and name not in given.values]
    return Places(by_input, *_batch_symbols([*_all(by_input)], firsts))


def every_node(nodes: Iterable[ModelNode]) -> Iterator[ModelNode]:
    """The nodes and, after each, those of the graphs inside it."""
    for node in nodes:
        yield node
        for value in node.attributes.values():
            if isinstance(value, Subgraph):
                yield from every_node(value.nodes)


def _all(by_input: Mapping[str, tuple[Place, ...]]) -> Iterator[Place]:
    return (place for places in by_input.values() for place in places)


def _dimensions(source: ModelInput, given: Given) -> tuple[Dimension, ...] | None:
    shape = given.shapes.get(source.name)
    if source.dimensions is None:
        if shape is not None:
            return (None,) * len(shape)
        value = given.values.get(source.name)
        if value is None:
            return None
        return (None,) if isinstance(value, tuple) else ()
    if shape is not None and len(shape) != len(source.dimensions):
        raise UsageError(
            f"the shape given for {source.name!r} has {len(shape)} dimensions",
            fix=f"in the file it has {len(source.dimensions)}",
        )
    return source.dimensions


def _place(source: ModelInput, axis: int, size: Dimension) -> Place:
    # A dimension without a name gets one that a command line can say; exporters write
    # "?" for several that have nothing in common.
    has_name = isinstance(size, str) and re.search(r"\w", size) and size.lower() != "none"
    symbol = str(size) if has_name else f"{source.name}[{axis}]"
    return Place(source.name, axis, symbol, size if isinstance(size, int) else None)


def _batch_symbols(places: list[Place], firsts: list[Place]) -> tuple[frozenset[str], bool]:
    """The symbols that stand for the batch, and whether that is a guess from position."""
    symbols = {place.symbol for place in places if place.fixed is None}
    for pattern in _BATCH_NAMES:
        named = frozenset(symbol for symbol in symbols if pattern.fullmatch(symbol))
        if named:
            return named, False
    # Inputs that do not start as the first one does are something else: states, scales.
    alike = {place.symbol for place in firsts if _start(place) == _start(firsts[0])}
    return frozenset(alike), True


def _start(place: Place) -> tuple[int | None, str | None]:
    return place.fixed, place.symbol if place.has_name else None
