"""Arrays that the user gives for inputs: checked against the network, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from mansard.core.errors import UsageError
from mansard.estimator.model import Given, Model, ModelInput, Value
from mansard.estimator.shape_inference.dimensions import InputDimension, find_dimensions
from mansard.estimator.tensors import Tensor
from mansard.inference.inputs import numpy_name
from mansard.inference.npz import Array, read_arrays, stored_arrays
from mansard.inference.plan import InputSpec
from mansard.inference.preparing.guessing import Readers, uses_of

_SHOWN = 8  # names in a message


def given_by_arrays(
    model: Model, readers: Readers, given: Given, path: Path
) -> tuple[dict[str, Array], Given]:
    """The arrays of ``path`` by input, and ``given`` with the dimensions that follow from them.

    Raises UsageError for names, types and sizes that do not fit the network or ``given``, and as
    ``read_arrays``.
    """
    sources = {source.name: source for source in model.inputs}
    with stored_arrays(path) as stored:  # nothing is read of those that are no inputs
        strangers = [name for name in stored if name not in sources]
        n_arrays = len(stored)
    if strangers or not n_arrays:
        what = f"the model has no input {strangers[0]!r}" if strangers else "it holds no array"
        raise UsageError(what, where=str(path), fix=f"its inputs are {_list(sources)}")
    arrays = read_arrays(path, sources)
    for name, array in arrays.items():
        _check_type(sources[name], array, path)
    shapes = {
        name: array.shape for name, array in arrays.items() if sources[name].dimensions is None
    }
    values = {
        name: _value(array)
        for name, array in arrays.items()
        if array.dtype.kind in "iub" and uses_of(name, readers, {}).shaping is not None
    }
    given = msgspec.structs.replace(given, values=values, shapes=shapes)
    dims = dict(given.dims)
    dimensions = find_dimensions(model, given)
    for name, array in arrays.items():
        own = dimensions.by_input.get(name, ())
        if len(own) != array.ndim:
            raise UsageError(
                f"the array for {name!r} has {array.ndim} dimensions, the input {len(own)}",
                where=str(path),
            )
        for dim, size in zip(own, array.shape, strict=True):
            if dim.fixed is None:
                is_batch = dim.symbol in dimensions.batch_symbols
                stated = given.batch if is_batch and dim.symbol not in dims else None
                _note(dim, size, dims, stated, path)
    return arrays, msgspec.structs.replace(given, dims=dims)


def _note(
    dim: InputDimension, size: int, dims: dict[str, int], batch: int | None, path: Path
) -> None:
    known = dims.setdefault(dim.symbol, size if batch is None else batch)
    if dims.get(dim.indexed_name, known) != size:
        raise UsageError(
            f"dimension {dim.axis} of the array for {dim.tensor!r} is {size}, "
            f"but {dim.symbol!r} is {known}",
            where=str(path),
            fix="give arrays of one size, or leave the dimension out"
            if batch is None
            else f"say --batch {size}",
        )


def _value(array: Array) -> Value:
    flat = array.reshape(-1).tolist()
    return tuple(flat) if array.ndim else flat[0]


def _check_type(source: ModelInput, array: Array, path: Path) -> None:
    if source.dtype is None or source.kind != "tensor":
        raise UsageError(f"input {source.name!r} is no tensor", where=str(path))
    wanted = numpy_name(source.dtype.name)
    if array.dtype.name != wanted:
        bits = " (the bits of bfloat16)" if wanted != source.dtype.name else ""
        raise UsageError(
            f"the array for {source.name!r} is {array.dtype.name}, the input {source.dtype.name}",
            where=str(path),
            fix=f"save it as {wanted}{bits}",
        )


def spec_of_array(
    tensor: Tensor, array: Array, readers: Readers, tensors: Mapping[str, Tensor], path: Path
) -> InputSpec:
    """The spec of an input that is read from the file; raises UsageError where it does not fit."""
    name = tensor.name
    if tensor.unknown is not None or array.shape != tensor.shape:
        raise UsageError(
            f"the array for {name!r} is {list(array.shape)}, the input {list(tensor.shape)}",
            where=str(path),
            fix="give an array of this shape, or another --batch or --dim",
        )
    if array.dtype.kind in "iu" and array.size:
        limit = uses_of(name, readers, tensors).limit
        low, high = int(array.min()), int(array.max())
        if limit is not None and not (-limit <= low and high < limit):
            raise UsageError(
                f"the array for {name!r} holds {high if high >= limit else low}, "
                f"and indexes a table of {limit} rows",
                where=str(path),
            )
    return InputSpec(name=name, type_name=tensor.dtype.name, shape=array.shape, fill="file")


def notes_on(arrays: Mapping[str, Array]) -> tuple[str, ...]:
    """What the user should know of arrays that are fed as they are."""
    found = []
    for name, array in arrays.items():
        n_odd = int(np.size(array) - np.isfinite(array).sum()) if array.dtype.kind == "f" else 0
        if n_odd:
            found.append(f"{n_odd} of {array.size} numbers for input {name!r} are not finite")
    return tuple(found)


def _list(names: Mapping[str, object]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
