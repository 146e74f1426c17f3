"""The tensors a network is given: shapes that are known by now, and values that were stated."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.element_types import FLOAT32, ElementType
from mansard.estimator.given import Given, Value
from mansard.estimator.model import ModelInput
from mansard.estimator.numbers import Numbers, has_numbers, hold_array
from mansard.estimator.places import Place
from mansard.estimator.sequences import MAX_LENGTH, absent
from mansard.estimator.tensors import Origin, Shape, Tensor
from mansard.estimator.values import may_keep

MAX_SIZE = 2**40  # a dimension beyond this is a damaged file or a slip of the keyboard


def length_name(name: str) -> str:
    """How the number of elements of an input that is a sequence is called."""
    return f"{name}.length"


def present_name(name: str) -> str:
    """How one says whether an optional input is there: 1, or 0."""
    return f"{name}.present"


def input_tensor(
    source: ModelInput, places: tuple[Place, ...] | None, sizes: Mapping[str, int], given: Given
) -> Tensor:
    """One input; without a shape where none is known, for a reason.

    A sequence has elements of one shape. An optional one is taken as present unless
    the opposite is said. Raises ModelError and UsageError for what cannot be.
    """
    name = source.name
    if "optional" in source.kind and given.dims.get(present_name(name)) == 0:
        return absent(name)
    element = _element(source, places, sizes)
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
    source: ModelInput, places: tuple[Place, ...] | None, sizes: Mapping[str, int]
) -> Tensor:
    name, dtype = source.name, source.dtype or FLOAT32
    if source.kind == "map" or source.dtype is None:
        return Tensor(name, dtype, (), unknown=f"input {name!r} is no tensor")
    if places is None:
        reason = f"input {name!r} has no shape in the file: pass --shape '{name}=AxBxC'"
        return Tensor(name, dtype, (), unknown=reason)
    found = [place.size(sizes) for place in places]
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
            f"the value given for {name!r} is no {dtype.name}", fix="give whole numbers"
        )
    return hold_array(dtype, cast)
