"""Arrays that the user gives for inputs: checked against the network, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path

import msgspec
import numpy as np

from mansard.core.errors import UsageError
from mansard.estimator.model import Given, Model, ModelInput, Value
from mansard.estimator.shape_inference.dimensions import InputDimension, find_dimensions
from mansard.estimator.tensors import Tensor
from mansard.inference.inputs import numpy_name
from mansard.inference.npz import Array, StoredArray, check_size, stored_arrays
from mansard.inference.plan import InputSpec
from mansard.inference.preparing.guessing import Readers, uses_of

_SHOWN = 8  # names in a message
_MOST_VALUES = 1 << 16  # of an input that sets shapes: the estimator keeps each as an integer


def given_by_arrays(
    model: Model, readers: Readers, given: Given, path: Path
) -> tuple[dict[str, Array], Given]:
    """The arrays of ``path`` by input, and ``given`` with the dimensions that follow from them.

    The headers are compared before any number is read: a file of 1 MB can hold 1 GiB of zeros.
    Raises UsageError for names, types and sizes that do not fit the network or ``given``, and as
    ``read_arrays``.
    """
    sources = {source.name: source for source in model.inputs}
    with stored_arrays(path) as stored:
        strangers = [name for name in stored if name not in sources]
        if strangers or not stored:
            what = f"the model has no input {strangers[0]!r}" if strangers else "it holds no array"
            raise UsageError(what, where=str(path), fix=f"its inputs are {_list(sources)}")
        for name, array in stored.items():
            _check_type(sources[name], array, path)
        shaping = [
            name
            for name, array in stored.items()
            if array.dtype.kind in "iub" and uses_of(name, readers, {}).shaping is not None
        ]
        arrays = {name: _few(stored[name], name, path) for name in shaping}
        given = msgspec.structs.replace(
            given,
            values={name: _value(array) for name, array in arrays.items()},
            shapes={
                name: array.shape
                for name, array in stored.items()
                if sources[name].dimensions is None
            },
        )
        given = msgspec.structs.replace(given, dims=_dims(model, given, stored, path))
        check_size(sum(array.n_bytes for array in stored.values()), path)
        arrays |= {name: stored[name].whole() for name in stored if name not in arrays}
    return arrays, given


def _few(array: StoredArray, name: str, path: Path) -> Array:
    """The whole of an array whose values set shapes; raises UsageError where it is no list."""
    if prod(array.shape) > _MOST_VALUES:
        raise UsageError(
            f"the array for {name!r} is {list(array.shape)}, and its values set shapes: "
            f"at most {_MOST_VALUES:,} of them are read",
            where=str(path),
        )
    return array.whole()


def _dims(
    model: Model, given: Given, stored: Mapping[str, StoredArray], path: Path
) -> dict[str, int]:
    """The sizes of ``given``, and those that follow from the arrays."""
    dims = dict(given.dims)
    dimensions = find_dimensions(model, given)
    for name, array in stored.items():
        input_dims = dimensions.by_input.get(name, ())
        if len(input_dims) != len(array.shape):
            raise UsageError(
                f"the array for {name!r} has {len(array.shape)} dimensions, "
                f"the input {len(input_dims)}",
                where=str(path),
            )
        pairs = tuple(zip(input_dims, array.shape, strict=True))
        if any(dim.fixed not in {None, size} for dim, size in pairs):
            sizes = (dim.symbol if dim.fixed is None else str(dim.fixed) for dim in input_dims)
            raise _other_shape(name, array.shape, f"[{', '.join(sizes)}]", path)
        for dim, size in pairs:
            if dim.fixed is None:
                is_batch = dim.symbol in dimensions.batch_symbols
                stated = given.batch if is_batch and dim.symbol not in dims else None
                _note(dim, size, dims, stated, path)
    return dims


def _other_shape(name: str, shape: tuple[int, ...], wanted: str, path: Path) -> UsageError:
    return UsageError(
        f"the array for {name!r} is {list(shape)}, the input {wanted}",
        where=str(path),
        fix="give an array of this shape, or another --batch or --dim",
    )


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


def _check_type(source: ModelInput, array: StoredArray, path: Path) -> None:
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
        raise _other_shape(name, array.shape, str(list(tensor.shape)), path)
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
