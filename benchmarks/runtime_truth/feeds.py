"""Inputs for a run: dimensions for what a file leaves open, and arrays of that size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TypeProto, ValueInfoProto, helper

Value = int | float | tuple[int, ...]
_SEED = 20260730


def open_inputs(model: ModelProto) -> tuple[ValueInfoProto, ...]:
    """The inputs that a user must feed: those without a stored default."""
    stored = {one.name for one in model.graph.initializer}
    return tuple(one for one in model.graph.input if one.name not in stored)


def place(value: ValueInfoProto, axis: int) -> str:
    """How ``mansard score --dim`` names a dimension by its place."""
    return f"{value.name}[{axis}]"


def open_places(model: ModelProto) -> list[tuple[str, str, int, int]]:
    """(place, name or empty, axis, rank) of every dimension that is not a positive number."""
    found = []
    for value in open_inputs(model):
        dims = value.type.tensor_type.shape.dim
        for axis, dim in enumerate(dims):
            if dim.dim_value <= 0:
                found.append((place(value, axis), dim.dim_param, axis, len(dims)))
    return found


def make_feeds(
    model: ModelProto, dims: Mapping[str, int], values: Mapping[str, Value]
) -> dict[str, npt.NDArray[Any]]:
    """An array for each input; ``dims`` by place or name, ``values`` by input."""
    random = np.random.default_rng(_SEED)
    return {
        value.name: _array(value.type, _shape(value, dims), values.get(value.name), random)
        for value in open_inputs(model)
    }


def _shape(value: ValueInfoProto, dims: Mapping[str, int]) -> tuple[int, ...]:
    sizes = []
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        at = place(value, axis)
        given = dims.get(at, dims.get(dim.dim_param, dim.dim_value))
        if given <= 0:
            raise ValueError(f"no size for {at} {dim.dim_param!r}")
        sizes.append(given)
    return tuple(sizes)


def _array(
    kind: TypeProto, shape: Sequence[int], value: Value | None, random: np.random.Generator
) -> npt.NDArray[Any]:
    dtype: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)
    if value is not None:
        return np.array(np.broadcast_to(np.asarray(value, dtype), tuple(shape)))
    if np.issubdtype(dtype, np.floating):
        return np.asarray(random.uniform(0, 1, tuple(shape)), dtype)
    return np.ones(tuple(shape), dtype)  # a valid index, length and mask nearly everywhere
