"""Values found without NumPy are those that NumPy finds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mansard.estimator.numbers import ELEMENT_TYPES, Numbers, hold_array
from mansard.estimator.operators import REGISTRY
from mansard.estimator.shape_inference.values import evaluate_all
from mansard.estimator.tensors import Node, Origin, Tensor

Array = npt.NDArray[Any]

# No floats: of those only a few are kept at all.
TYPES = st.sampled_from(["int64", "int32", "uint8", "bool"])
SMALL = arrays.arrays(TYPES, arrays.array_shapes(min_dims=1, max_dims=3, max_side=4))
INTEGERS = arrays.arrays(
    st.sampled_from(["int64", "int32", "int8", "uint16"]),
    arrays.array_shapes(min_dims=0, max_dims=3, max_side=3),
)


def value_of(op_type: str, *values: Array, **attributes: object) -> Array:
    """What the node's one output is found to hold."""
    inputs = tuple(
        Tensor(f"x{i}", held.dtype, held.shape, Origin.FILE, held)
        for i, held in enumerate(map(held_in, values))
    )
    node = Node(0, "node", op_type, attributes=attributes, inputs=inputs, output_names=("y",))
    rule = REGISTRY.shape_rule("", op_type)
    assert rule is not None
    (found,) = evaluate_all(node, rule(node))  # type: ignore[arg-type]
    assert found is not None
    return found.array


def held_in(array: Array) -> Numbers:
    return hold_array(ELEMENT_TYPES[array.dtype.name], array)


def same(found: Array, real: Array) -> None:
    assert found.dtype == real.dtype
    np.testing.assert_array_equal(found, real)


@given(SMALL, st.data())
def test_picking_along_any_axis(whole: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-whole.ndim, whole.ndim - 1))
    size = whole.shape[axis]
    indices = data.draw(
        arrays.arrays(
            "int64",
            arrays.array_shapes(min_dims=0, max_dims=2, max_side=3),
            elements=st.integers(-size, size - 1),
        )
    )
    same(value_of("Gather", whole, indices, axis=axis), np.take(whole, indices, axis))


@given(SMALL, st.data())
def test_picking_element_by_element(whole: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, whole.ndim - 1))
    size = whole.shape[axis]
    shape = tuple(data.draw(st.integers(1, n)) for n in whole.shape)
    indices = data.draw(arrays.arrays("int64", shape, elements=st.integers(-size, size - 1)))
    cut = whole[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(shape))]
    real = np.take_along_axis(cut, indices, axis)
    same(value_of("GatherElements", whole, indices, axis=axis), real)


@given(SMALL, st.data())
def test_cutting_with_any_steps(whole: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, whole.ndim - 1))
    start, end = data.draw(st.integers(-6, 6)), data.draw(st.integers(-6, 6))
    step = data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
    found = value_of("Slice", whole, *(np.array([n]) for n in (start, end, axis, step)))
    # An end before the front is the front itself: for NumPy, no end.
    below = step < 0 and end < -whole.shape[axis]
    cut = [slice(None)] * whole.ndim
    cut[axis] = slice(start, None if below else end, step)
    same(found, whole[tuple(cut)])


@given(SMALL, st.data())
def test_turning_axes(whole: Array, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(whole.ndim)))
    same(value_of("Transpose", whole, perm=tuple(order)), np.transpose(whole, order))
    same(value_of("Transpose", whole), np.transpose(whole))


@given(SMALL, st.data())
def test_parts_in_a_row(whole: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-whole.ndim, whole.ndim - 1))
    parts = [whole, np.roll(whole, 1), whole]
    same(value_of("Concat", *parts, axis=axis), np.concatenate(parts, axis))


@given(arrays.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
def test_repeating_axes_of_one(shapes: arrays.BroadcastableShapes) -> None:
    first, second = shapes.input_shapes
    whole = np.arange(math.prod(first)).reshape(first)
    found = value_of("Expand", whole, np.array(second, np.int64))
    same(found, np.broadcast_to(whole, np.broadcast_shapes(first, second)))


@given(INTEGERS, st.data())
def test_arithmetic_wraps_like_that_of_machines(one: Array, data: st.DataObject) -> None:
    other = data.draw(arrays.arrays(one.dtype, one.shape[-1:]))
    functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Equal": np.equal}
    with np.errstate(all="ignore"):
        for op_type, function in functions.items():
            same(value_of(op_type, one, other), np.asarray(function(one, other)))


# Small enough for products to stay finite.
FLOATS = {
    "float16": st.floats(-100, 100, width=16),
    "float32": st.floats(-100, 100, width=32),
    "float64": st.floats(-100, 100, width=64),
}


@pytest.mark.parametrize("name", FLOATS)
@given(data=st.data())
def test_floats_are_rounded_once(name: str, data: st.DataObject) -> None:
    one = data.draw(arrays.arrays(name, (2, 3), elements=FLOATS[name]))
    other = data.draw(arrays.arrays(name, (3,), elements=FLOATS[name]))
    functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Equal": np.equal}
    for op_type, function in functions.items():
        same(value_of(op_type, one, other), np.asarray(function(one, other)))
    same(value_of("Where", one < other, one, other), np.where(one < other, one, other))


@given(SMALL, st.data())
def test_choosing(one: Array, data: st.DataObject) -> None:
    condition = data.draw(arrays.arrays("bool", one.shape[-1:]))
    other = np.flip(one)
    same(value_of("Where", condition, one, other), np.where(condition, one, other))
