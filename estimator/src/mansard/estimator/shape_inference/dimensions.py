"""The dimensions of a network's inputs: their names, and which of them is the batch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from mansard.core.errors import UsageError
from mansard.estimator.model import Dimension, Given, Model, ModelInput
from mansard.estimator.shape_inference.expressions import Expression, parse_expression

# Names that are usual for the batch, the clearer ones first. A product or
# sum such as "2*batch" is another dimension.
_BATCH_NAMES = (
    re.compile(r"(\w+_)?batch([-_. ]?(size|dim|axis|num|n))?(_?\d+)?", re.IGNORECASE),
    re.compile(r"n|b|bs|bsz", re.IGNORECASE),
)

# tf2onnx numbers each dimension that it does not know; the first of every input is the batch.
_TF2ONNX = re.compile(r"unk__\d+")
# Names that exporters make up: they do not say what a dimension is.
_MADE_UP = re.compile(
    r"(unk__|s|u|d|dim_?|sym_?|.*(dynamic_?(axes|axis|dim\w*)|_dim)[_.]*)\d+|dynamic|unknown",
    re.IGNORECASE,
)


# Short ones are other things, too: the points of a cloud.
_SHORT = re.compile(r"n|b", re.IGNORECASE)


def is_batch_name(symbol: Dimension) -> bool:
    """Whether a dimension is called as the batch is, by a name that stands for nothing else."""
    return isinstance(symbol, str) and _BATCH_NAMES[0].fullmatch(symbol) is not None


class InputDimension(msgspec.Struct, frozen=True):
    """One dimension of one input. ``symbol`` is its name; those that share one are equal.

    One without a name in the file is called ``tensor[axis]``.
    """

    tensor: str
    axis: int
    symbol: str
    fixed: int | None

    @property
    def indexed_name(self) -> str:
        """What a command line may call it whether it has a name or not: ``tensor[axis]``."""
        return f"{self.tensor}[{self.axis}]"

    @property
    def has_name(self) -> bool:
        return self.fixed is None and self.symbol != self.indexed_name

    @property
    def has_meaning(self) -> bool:
        """Whether a person gave it its name."""
        return self.has_name and not _MADE_UP.fullmatch(self.symbol)

    def size(self, sizes: Mapping[str, int]) -> int | None:
        """The size of this dimension itself, else that of its name."""
        return sizes.get(self.indexed_name, sizes.get(self.symbol))


class InputDimensions(msgspec.Struct, frozen=True):
    """All dimensions of all inputs, in order; ``by_input`` has none for inputs without shape.

    ``batch_symbols`` are those of the batch. ``is_batch_guessed``: no name says so, they only come
    first; what the nodes do with them decides (``batch_axis``).
    """

    @property
    def is_batch_sure(self) -> bool:
        """Whether the name of the batch stands for nothing else."""
        return not self.is_batch_guessed and not all(map(_SHORT.fullmatch, self.batch_symbols))

    by_input: Mapping[str, tuple[InputDimension, ...]]
    batch_symbols: frozenset[str]
    is_batch_guessed: bool

    def __iter__(self) -> Iterator[InputDimension]:
        return (dim for dims in self.by_input.values() for dim in dims)

    @property
    def batch_inputs(self) -> frozenset[str]:
        """The inputs whose first dimension is taken for the batch."""
        return frozenset(
            name
            for name, dims in self.by_input.items()
            if dims and dims[0].symbol in self.batch_symbols
        )

    @property
    def symbols(self) -> list[str]:
        """Names of the dimensions that are not fixed, sorted."""
        return sorted({dim.symbol for dim in self if dim.fixed is None})

    def expressions(self) -> dict[str, Expression]:
        """Names that can be computed from others, such as ``past_length + 1``."""
        found = {dim.symbol: parse_expression(dim.symbol) for dim in self if dim.has_name}
        return {symbol: expression for symbol, expression in found.items() if expression}


def find_dimensions(model: Model, given: Given) -> InputDimensions:
    """The inputs' dimensions; raises UsageError for a given shape of another rank."""
    by_input: dict[str, tuple[InputDimension, ...]] = {}
    for source in model.inputs:
        sizes = _sizes(source, given)
        if sizes is not None:
            by_input[source.name] = tuple(
                InputDimension(
                    source.name,
                    axis,
                    _symbol(size) or f"{source.name}[{axis}]",
                    size if isinstance(size, int) else None,
                )
                for axis, size in enumerate(sizes)
            )
    firsts = [dims[0] for name, dims in by_input.items() if dims and name not in given.values]
    every = [dim for dims in by_input.values() for dim in dims]
    if known := given.batch_names & {dim.symbol for dim in every if dim.fixed is None}:
        symbols, is_guessed = _batch_symbols(every, firsts)
        return InputDimensions(by_input, known if is_guessed else known | symbols, False)
    return InputDimensions(by_input, *_batch_symbols(every, firsts))


def with_open_batch(model: Model, given: Given, *, is_guessed_too: bool = True) -> Given:
    """``given``; with a batch of 1 where the model leaves it open and nothing gives it.

    ``is_guessed_too``: also where the first dimensions have no name, or one that says nothing.
    """
    if given.batch is not None:
        return given
    found = find_dimensions(model, given)
    batch = [dim for dim in found if dim.fixed is None and dim.symbol in found.batch_symbols]
    is_open = any(not {dim.symbol, dim.indexed_name} & given.dims.keys() for dim in batch)
    if not is_open:
        return given
    if found.is_batch_guessed and not (is_guessed_too and not any(d.has_meaning for d in batch)):
        return given
    return msgspec.structs.replace(given, batch=1)


def with_usual(model: Model, given: Given, usual: Mapping[str, int]) -> Given:
    """``given`` with the sizes ``usual`` of those dimensions that nothing given determines.

    A shape, a position or a list of values determines a dimension as its name does.
    """
    known = set(given.dims)
    for dim in find_dimensions(model, given) if usual else ():
        is_list = dim.tensor in given.values and dim.axis == 0
        if dim.indexed_name in given.dims or dim.tensor in given.shapes or is_list:
            known.add(dim.symbol)
    added = {name: size for name, size in usual.items() if name not in known}
    return msgspec.structs.replace(given, dims={**added, **given.dims}) if added else given


def check_batch_given(model: Model, given: Given) -> None:
    """Raise UsageError where the batch is given twice, as two numbers."""
    if given.batch is None:
        return
    found = find_dimensions(model, given)
    for dim in found if not found.is_batch_guessed else ():
        if dim.symbol not in found.batch_symbols or dim.fixed is not None:
            continue
        sizes = [given.dims.get(dim.symbol), given.dims.get(dim.indexed_name)]
        shape = given.shapes.get(dim.tensor)
        sizes.append(None if shape is None else shape[dim.axis])
        size = next((size for size in sizes if size is not None), given.batch)
        if size != given.batch:
            raise UsageError(
                f"{dim.symbol!r} is the batch: it is given as {size}, and --batch as {given.batch}",
                fix="give one of them",
            )


def _sizes(source: ModelInput, given: Given) -> tuple[Dimension, ...] | None:
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


def _symbol(size: Dimension) -> str | None:
    # Exporters write "?" and "None" for several dimensions that have nothing in common.
    has_name = isinstance(size, str) and re.search(r"\w", size) and size.lower() != "none"
    return str(size) if has_name else None


def _batch_symbols(
    dimensions: list[InputDimension], firsts: list[InputDimension]
) -> tuple[frozenset[str], bool]:
    """The symbols of the batch, and whether that is a guess from position."""
    ranks = Counter(dim.tensor for dim in dimensions)
    symbols = {dim.symbol for dim in dimensions if dim.fixed is None}
    for pattern in _BATCH_NAMES:
        named = frozenset(symbol for symbol in symbols if pattern.fullmatch(symbol))
        if named:
            return named, False
    if firsts and all(_TF2ONNX.fullmatch(dim.symbol) for dim in firsts):
        return frozenset(dim.symbol for dim in firsts), False
    # Inputs that do not start as the first one does are something else: states. So is a list, such
    # as the size of an image, in front of the data.
    firsts.sort(key=lambda dim: ranks[dim.tensor] == 1)
    starts = [(dim.fixed, dim.symbol if dim.has_name else None) for dim in firsts]
    same = {dim.symbol for dim, start in zip(firsts, starts, strict=True) if start == starts[0]}
    return frozenset(same), True
