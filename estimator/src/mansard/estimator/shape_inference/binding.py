"""The inputs of a network with a number for every dimension, or the list of what is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.model import NOTHING_GIVEN, Given, Model, ModelInput, Value, all_nodes
from mansard.estimator.numbers import (
    ELEMENT_TYPES,
    FLOAT32,
    ElementType,
    Numbers,
    has_numbers,
    hold_array,
    may_keep,
)
from mansard.estimator.shape_inference.dimensions import (
    InputDimension,
    InputDimensions,
    find_dimensions,
)
from mansard.estimator.shape_inference.sequences import MAX_LENGTH, absent
from mansard.estimator.tensors import MAX_RANK, Origin, Shape, Tensor

MAX_SIZE = 2**40  # a larger dimension is a damaged file or a typing error
_INDEXED_NAME = re.compile(r"(.*)\[\d+\]", re.DOTALL)
_SHOWN = 10  # names in a message


class MissingDimensionsError(ModelError):
    """Dimensions of inputs have no size, or none that is of use.

    ``flags``: the option that gives each. ``sizes``: what it says, where that is a number.
    """

    flags: Mapping[str, str] = {}
    sizes: Mapping[str, int] = {}


class Binding(msgspec.Struct, frozen=True):
    """The inputs, each with its shape, or the reason why it has none.

    ``named`` holds the dimensions that have a name in the file, and those given by axis.
    ``is_batch_guessed``: no dimension has the name of a batch, and the first of ``batch_inputs``
    may be it; ``batch_name`` is what a person called that. ``is_batch_sure``: a name says so that
    stands for nothing else.
    """

    tensors: Mapping[str, Tensor]
    named: Mapping[str, int]
    batch: int | None
    is_batch_guessed: bool
    is_batch_changed: bool
    given: Given
    patterns: tuple[str, ...] = ()
    batch_inputs: frozenset[str] = frozenset()
    batch_name: str | None = None
    is_batch_sure: bool = False


def bind(model: Model, given: Given = NOTHING_GIVEN) -> Binding:
    """Numbers for all dimensions that are needed.

    Raises UsageError for an unknown name or an impossible size, ModelError listing every
    dimension that is missing with the first node that needs it.
    """
    dimensions = find_dimensions(model, given)
    patterns = check_names(model, dimensions, given)
    sizes = _sizes(dimensions, given)
    _check_known(model, dimensions, sizes, given)
    tensors = {
        source.name: input_tensor(source, dimensions.by_input.get(source.name), sizes, given)
        for source in model.inputs
    }
    named: dict[str, int] = {}
    for dim in dimensions:
        size = dim.size(sizes)
        if dim.fixed is None and size is not None:
            is_other = sizes[dim.symbol] != size
            named[dim.indexed_name if is_other else dim.symbol] = size
    own = {sizes[symbol] for symbol in dimensions.batch_symbols if symbol in sizes}
    batch = [dim for dim in dimensions if dim.symbol in dimensions.batch_symbols]
    return Binding(
        tensors,
        named,
        own.pop() if len(own) == 1 else None,
        dimensions.is_batch_guessed,
        given.batch is not None and {dim.fixed for dim in batch} != {given.batch},
        given,
        patterns,
        dimensions.batch_inputs,
        next((dim.symbol for dim in batch if dim.has_meaning), None),
        dimensions.is_batch_sure,
    )


def _sizes(dimensions: InputDimensions, given: Given) -> dict[str, int]:
    """Sizes by symbol; what is given by name wins over the batch, both over the file."""
    sizes = {dim.symbol: dim.fixed for dim in dimensions if dim.fixed is not None}
    if given.batch is not None:
        check_size("batch", given.batch, 1)
        sizes.update(dict.fromkeys(dimensions.batch_symbols, given.batch))
    sizes.update(_given_sizes(dimensions, given))
    sizes = {**_listed_sizes(dimensions, given), **sizes}  # they may be given by name as well
    _check_zeros(dimensions, sizes, given)
    for symbol, tree in dimensions.expressions().items():
        if symbol not in sizes and tree.names <= sizes.keys():
            size = tree.evaluate(sizes)
            if size is None:
                known = ", ".join(f"{name} = {sizes[name]}" for name in sorted(tree.names))
                raise ModelError(f"dimension {symbol!r} is not a size where {known}")
            sizes[symbol] = size
    return sizes


def _check_zeros(dimensions: InputDimensions, sizes: Mapping[str, int], given: Given) -> None:
    """Raise MissingDimensionsError where the file has a size of 0 that nobody meant."""
    zeros = [
        dim
        for dim in dimensions
        if dim.fixed == 0 and dim.size(sizes) == 0
        if dim.symbol not in given.dims and dim.tensor not in given.shapes
    ]
    if not zeros:
        return
    places = ", ".join(f"dimension {dim.axis} of input {dim.tensor!r}" for dim in zeros)
    verb = "is" if len(zeros) == 1 else "are"
    flags = {dim.symbol: f"--dim '{dim.symbol}=N'" for dim in zeros}
    error = MissingDimensionsError(
        f"{places} {verb} 0: there is nothing to compute",
        fix=f"pass {' '.join(flags.values())}, with N = 0 if that is meant",
    )
    error.flags = flags
    raise error


def _given_sizes(dimensions: InputDimensions, given: Given) -> dict[str, int]:
    """Sizes by symbol and by ``tensor[axis]``. One may differ from others of its name."""
    positions = {dim.indexed_name: dim for dim in dimensions}
    exact = dict(given.dims)
    for name, shape in given.shapes.items():
        for dim, size in zip(dimensions.by_input.get(name, ()), shape, strict=False):
            if exact.setdefault(dim.indexed_name, size) != size:
                raise UsageError(
                    f"{dim.indexed_name!r} is given as {exact[dim.indexed_name]} and as {size}"
                )
    sizes: dict[str, int] = {}
    for name, size in exact.items():
        check_size(name, size, 0)
        sizes[name] = size
    for name, size in exact.items():
        if name in positions:
            sizes.setdefault(positions[name].symbol, size)
    return sizes


def _listed_sizes(dimensions: InputDimensions, given: Given) -> dict[str, int]:
    """Lengths of the lists that values are given for: one number is a list of one."""
    sizes: dict[str, int] = {}
    for name, value in given.values.items():
        own = dimensions.by_input.get(name, ())
        if len(own) == 1 and own[0].fixed is None:
            sizes.setdefault(own[0].symbol, len(value) if isinstance(value, tuple) else 1)
    return sizes


def check_size(name: str, size: int, least: int) -> None:
    """Raise UsageError unless ``size`` can be a dimension."""
    if not least <= size <= MAX_SIZE:
        raise UsageError(f"{name} = {size} is not a size", fix=f"give {least} or more, below 2^40")


def _check_known(
    model: Model, dimensions: InputDimensions, sizes: Mapping[str, int], given: Given
) -> None:
    missing = [dim for dim in dimensions if dim.size(sizes) is None]
    lengths = [
        source.name
        for source in model.inputs
        if "sequence" in source.kind and length_name(source.name) not in given.dims
    ]
    if not missing and not lengths:
        return
    users = _first_users(model, given)
    expressions, symbols = dimensions.expressions(), {dim.symbol for dim in dimensions}
    needed: dict[str, str] = {}
    for dim in missing:
        user = users.get(dim.tensor)
        if user is None:
            continue
        tree = expressions.get(dim.symbol)
        # A sum of named dimensions follows from these.
        is_sum = tree is not None and tree.names <= symbols
        for symbol in sorted(tree.names - sizes.keys()) if tree and is_sum else [dim.symbol]:
            what = f"dimension {dim.axis} of input {dim.tensor!r}, first needed by {user}"
            needed.setdefault(symbol, f"{symbol!r} ({what})")
    for name in lengths:
        if name in users:
            what = f"elements of input {name!r}, first needed by {users[name]}"
            needed[length_name(name)] = f"{length_name(name)!r} ({what})"
    shapeless = {length_name(name): name for name in lengths if name not in dimensions.by_input}
    if needed:
        # Without the name of a batch nothing says yet that a dimension is one.
        batch = frozenset() if dimensions.is_batch_guessed else dimensions.batch_symbols
        flags = [
            ("--batch 1" if symbol in batch else f"--dim '{symbol}=N'")
            + (f" --shape '{shapeless[symbol]}=AxBxC'" if symbol in shapeless else "")
            for symbol in needed
        ]
        error = MissingDimensionsError(
            f"{len(needed)} dimension(s) must be given: {', '.join(needed.values())}",
            fix=f"pass {' '.join(dict.fromkeys(flags))}",
        )
        error.flags = dict(zip(needed, flags, strict=True))
        error.sizes = {symbol: 1 for symbol in needed if symbol in batch}
        raise error


def _first_users(model: Model, given: Given) -> dict[str, str]:
    users: dict[str, str] = {}
    for node in model.nodes:
        for name in node.reads:
            users.setdefault(name, node.label)
    # An optional input that is absent needs no dimensions.
    return {name: user for name, user in users.items() if given.dims.get(present_name(name)) != 0}


def length_name(name: str) -> str:
    """The name of the number of elements of an input that is a sequence."""
    return f"{name}.length"


def present_name(name: str) -> str:
    """The name that states whether an optional input is present: 1, or 0."""
    return f"{name}.present"


def check_names(model: Model, dimensions: InputDimensions, given: Given) -> tuple[str, ...]:
    """Check the names in ``given``, and return those of dimensions that are patterns.

    Raises UsageError for a name in ``given`` that the network does not have.
    """
    patterns = _check_dims(model, dimensions, given)
    inputs = {source.name: source for source in model.inputs}
    others = [name for name in given.shapes if name not in inputs]
    # A stored tensor may be an input with a default value.
    others += [name for name in given.values if name not in inputs.keys() | model.stored.keys()]
    if others:
        written = _written(model)
        for name in others:
            if name not in written:
                raise UsageError(
                    f"the model has no tensor named {name!r}", fix=f"its inputs are {_list(inputs)}"
                )
    for name, trips in given.trips.items():
        if trips < 0:
            raise UsageError(f"{name} = {trips} is not a number of trips", fix="give 0 or more")
        loops = {loop.name: loop for loop in all_nodes(model.nodes) if loop.op_type == "Loop"}
        if not any(name in (loop.name, *loop.outputs) for loop in loops.values()):
            raise UsageError(
                f"the model has no loop named {name!r}",
                fix=f"it has {_list(loops)}" if loops else "it has no Loop at all",
            )
    for name, text in given.types.items():
        if text not in ELEMENT_TYPES:
            raise UsageError(
                f"{text!r}, given for {name!r}, is not an element type",
                fix="write one such as float32, float16, int64 or bool",
            )
        own = inputs[name].dtype if name in inputs else None
        if own is not None and own.name != text:
            raise UsageError(f"{name!r} is {own.name} in the file, not {text}")
    return patterns


def input_tensor(
    source: ModelInput,
    dimensions: tuple[InputDimension, ...] | None,
    sizes: Mapping[str, int],
    given: Given,
) -> Tensor:
    """One input; without a shape where none is known, for a reason.

    A sequence has elements of one shape. An optional one is present unless it is given
    as absent. Raises ModelError or UsageError for impossible sizes.
    """
    name = source.name
    if "optional" in source.kind and given.dims.get(present_name(name)) == 0:
        return absent(name)
    element = _element(source, dimensions, sizes)
    value = given.values.get(name)
    if "sequence" not in source.kind:
        return element if value is None else with_value(element, value)
    length = sizes.get(length_name(name))
    if element.unknown or length is None:
        reason = element.unknown or f"input {name!r} is a sequence of unknown length"
        return Tensor(name, element.dtype, (), unknown=reason)
    if length > MAX_LENGTH:
        raise UsageError(
            f"{length_name(name)} = {length} is too long", fix=f"at most {MAX_LENGTH} elements"
        )
    return Tensor(name, element.dtype, (), items=(element,) * length)


def _element(
    source: ModelInput, dimensions: tuple[InputDimension, ...] | None, sizes: Mapping[str, int]
) -> Tensor:
    name, dtype = source.name, source.dtype or FLOAT32
    if source.kind == "map" or source.dtype is None:
        return Tensor(name, dtype, (), unknown=f"input {name!r} is not a tensor")
    if dimensions is None:
        reason = f"input {name!r} has no shape in the file: pass --shape '{name}=AxBxC'"
        return Tensor(name, dtype, (), unknown=reason)
    found = [dim.size(sizes) for dim in dimensions]
    shape = tuple(size for size in found if size is not None)
    if len(shape) < len(found):
        return Tensor(name, dtype, (), unknown=f"input {name!r} has dimensions that are not given")
    if any(size > MAX_SIZE for size in shape):
        raise ModelError(
            f"shape {list(shape)} is absurd",
            where=f"input {name!r}",
            fix="the file is damaged, or a given dimension is",
        )
    return Tensor(name, dtype, shape)


def with_value(tensor: Tensor, value: Value) -> Tensor:
    """``tensor`` as a constant that holds ``value``; one number fills any shape.

    Raises UsageError where the value does not fit the tensor's type or shape.
    """
    if tensor.unknown is not None or tensor.items is not None:
        raise UsageError(f"{tensor.name!r} has no shape, so no value can be given for it")
    numbers = _numbers(tensor.name, value, tensor.dtype, tensor.shape)
    return Tensor(tensor.name, tensor.dtype, tensor.shape, Origin.SHAPES, numbers)


def _numbers(name: str, value: Value, dtype: ElementType, shape: Shape) -> Numbers:
    if not has_numbers(dtype) or not may_keep(dtype, math.prod(shape)):
        raise UsageError(
            f"{name!r} is {dtype.name}{list(shape)}: no value can be given for it",
            fix="give values of small numeric tensors only",
        )
    import numpy as np

    try:
        flat = np.asarray(value)
        array = np.full(shape, flat) if flat.ndim == 0 else flat.reshape(shape)
        cast = array.astype(dtype.name)
    except (OverflowError, TypeError, ValueError) as error:
        raise UsageError(
            f"the value given for {name!r} does not fit {dtype.name}{list(shape)}"
        ) from error
    if not dtype.is_float and not np.array_equal(cast, array):
        raise UsageError(
            f"the value given for {name!r} is not of type {dtype.name}", fix="give whole numbers"
        )
    return hold_array(dtype, cast)


def _check_dims(model: Model, dimensions: InputDimensions, given: Given) -> tuple[str, ...]:
    known = {dim.symbol for dim in dimensions} | {dim.indexed_name for dim in dimensions}
    others = [name for name in given.dims if name not in known]
    if not others:
        return ()
    for tree in dimensions.expressions().values():
        known |= tree.names
    for source in model.inputs:
        known |= {length_name(source.name)} if "sequence" in source.kind else set()
        known |= {present_name(source.name)} if "optional" in source.kind else set()
    for output in model.outputs:
        known |= {size for size in output.dimensions or () if isinstance(size, str)}
    for _, sizes in model.stated.values():
        known |= {size for size in sizes or () if isinstance(size, str)}
    others = [name for name in others if name not in known]
    written = _written(model) if others else set()
    for name in others:
        if "*" in name:
            nodes = all_nodes(model.nodes)
            writers = ((node.op_type, output) for node in nodes for output in node.outputs)
            if not matches_any(name, writers):
                raise UsageError(
                    f"--dim {name!r} matches no dimension of the model",
                    fix="a pattern matches names such as NonZero:tensor[1]; "
                    "* stands for any characters",
                )
            continue
        position = _INDEXED_NAME.fullmatch(name)
        if position is None or position[1] not in written:
            symbols = dimensions.symbols
            raise UsageError(
                f"the model has no dimension named {name!r}",
                fix=f"it has {_list(symbols)}" if symbols else "all its dimensions are fixed",
            )
    return tuple(name for name in others if "*" in name)


def matches(pattern: str, full_name: str) -> bool:
    """Whether a pattern with ``*`` for any characters names a dimension that depends on data.

    ``full_name`` is ``OPERATOR:tensor[axis]``; the pattern may leave the operator out.
    """
    wildcard = re.sub(r"[\[?]", r"[\g<0>]", pattern)  # no other character is special
    own_name = full_name.partition(":")[2]
    return fnmatchcase(full_name, wildcard) or fnmatchcase(own_name, wildcard)


def matches_any(pattern: str, writers: Iterable[tuple[str, str]]) -> bool:
    """Whether ``pattern`` may name a dimension of a tensor: pairs of an operator and its output."""
    return any(
        matches(pattern, f"{op_type}:{name}[{axis}]")
        for op_type, name in writers
        for axis in range(MAX_RANK)
    )


def _written(model: Model) -> set[str]:
    return {name for node in all_nodes(model.nodes) for name in node.outputs}


def _list(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def keep_known_names(model: Model, given: Given) -> Given:
    """``given`` without the names that ``model`` does not have."""
    dimensions = find_dimensions(model, NOTHING_GIVEN)

    def keep(field: str) -> dict[str, object]:
        return {
            name: value
            for name, value in getattr(given, field).items()
            if _is_known(
                model, dimensions, msgspec.structs.replace(NOTHING_GIVEN, **{field: {name: value}})
            )
        }

    kept = {field: keep(field) for field in ("dims", "trips", "values", "shapes")}
    kept["types"] = {name: dtype for name, dtype in given.types.items() if name in kept["shapes"]}
    return msgspec.structs.replace(given, **kept)


def _is_known(model: Model, dimensions: InputDimensions, given: Given) -> bool:
    try:
        check_names(model, dimensions, given)
    except UsageError:
        return False
    return True
