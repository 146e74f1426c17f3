"""Shape rules and small values against NumPy and against counting, for any sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import assume, given
from hypothesis import strategies as st

from mansard.core.errors import ModelError
from mansard.estimator.numbers import FLOAT32, INT64, hold_array
from mansard.estimator.operators import REGISTRY
from mansard.estimator.shape_inference.values import evaluate_all
from mansard.estimator.tensors import Node, Shape, Tensor

sizes = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)
small = st.integers(-9, 9)


def data(*shape: int) -> Tensor:
    return Tensor("x", FLOAT32, shape)


def known(values: Sequence[int] | npt.NDArray[np.int64], name: str = "v") -> Tensor:
    array = np.asarray(values, np.int64)
    return Tensor(name, INT64, array.shape, value=hold_array(INT64, array))


def node(
    op_type: str, *inputs: Tensor | None, outputs: int = 1, opset: int = 21, **attributes: object
) -> Node:
    names = tuple(f"y{i}" for i in range(outputs))
    return Node(0, "n", op_type, "", opset, attributes, inputs, names)


def shapes_of(made: Node) -> list[tuple[int | None, ...]]:
    rule = REGISTRY.shape_rule("", made.op_type)
    assert rule is not None
    specs = rule(made)
    assert not isinstance(specs, str)
    return [shape for _, shape in specs]


def value_of(made: Node) -> list[list[int]]:
    rule = REGISTRY.shape_rule("", made.op_type)
    assert rule is not None
    values = evaluate_all(made, rule(made))  # type: ignore[arg-type]
    return [value.array.tolist() for value in values if value is not None]


@given(sizes, sizes)
def test_broadcasting_is_that_of_numpy(left: Shape, right: Shape) -> None:
    made = node("Add", data(*left), data(*right))
    try:
        expected = np.broadcast_shapes(left, right)
    except ValueError:
        try:
            shapes_of(made)
        except ModelError:
            return
        raise AssertionError(f"{left} and {right} went together") from None
    assert shapes_of(made) == [expected]


@given(sizes, small, small, small.filter(bool), st.data())
def test_slices_are_those_of_numpy(
    shape: Shape, start: int, end: int, step: int, draw: st.DataObject
) -> None:
    axis = draw.draw(st.integers(-len(shape), len(shape) - 1))
    made = node("Slice", data(*shape), *(known([n]) for n in (start, end, axis, step)))
    expected_size = np.arange(shape[axis])[start:end:step].size
    expected = list(shape)
    expected[axis] = expected_size
    assert shapes_of(made) == [tuple(expected)]


@given(sizes, st.data())
def test_reductions_have_the_shape_of_numpys_and_fold_every_element(
    shape: Shape, draw: st.DataObject
) -> None:
    axes = draw.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    keeps = draw.draw(st.booleans())
    made = node("ReduceSum", data(*shape), known(sorted(axes)), keepdims=int(keeps))
    expected = np.sum(np.zeros(shape), axis=tuple(axes), keepdims=keeps).shape
    assert shapes_of(made) == [expected]
    operator = REGISTRY.find("", "ReduceSum")
    assert operator is not None
    summed = Node(
        0, "n", "ReduceSum", inputs=made.inputs, output_names=("y0",), outputs=(data(*expected),)
    )
    assert operator.cost(summed).simple == np.prod(shape) - np.prod(expected, initial=1)


@given(
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_a_window_stops_where_it_fits_the_last_time(
    size: int, width: int, stride: int, dilation: int, pads: tuple[int, int]
) -> None:
    # Positions of a window's first element, for which its last is still in the padded data.
    span = dilation * (width - 1)
    starts = [i for i in range(0, size + sum(pads), stride) if i + span < size + sum(pads)]
    assume(starts)
    made = node(
        "MaxPool",
        data(1, 1, size),
        kernel_shape=(width,),
        strides=(stride,),
        dilations=(dilation,),
        pads=pads,
    )
    assert shapes_of(made)[0] == (1, 1, len(starts))


@given(st.lists(small, min_size=1, max_size=8), st.booleans(), st.booleans())
def test_running_sums_are_what_they_say(
    values: list[int], exclusive: bool, backwards: bool
) -> None:
    flags = {"exclusive": int(exclusive), "reverse": int(backwards)}
    made = node("CumSum", known(values), known(np.asarray(0)), **flags)
    order = values[::-1] if backwards else values
    sums = [sum(order[: i + (not exclusive)]) for i in range(len(order))]
    assert value_of(made) == [sums[::-1] if backwards else sums]


@given(st.lists(small, min_size=1, max_size=8), st.data(), st.booleans())
def test_the_largest_come_with_the_place_of_the_first_among_equals(
    values: list[int], draw: st.DataObject, largest: bool
) -> None:
    k = draw.draw(st.integers(0, len(values)))
    made = node("TopK", known(values), known([k]), outputs=2, largest=int(largest))
    sign = -1 if largest else 1
    order = sorted(range(len(values)), key=lambda i: (sign * values[i], i))[:k]
    assert value_of(made) == [[values[i] for i in order], order]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(1, 3))
def test_the_parts_of_a_split_make_the_whole(parts: list[int], rest: int) -> None:
    values = list(range(sum(parts) * rest))
    whole = known(np.reshape(values, (sum(parts), rest)))
    assert whole.value is not None
    made = node("Split", whole, known(parts), outputs=len(parts))
    rows = [row for part in value_of(made) for row in part]
    np.testing.assert_array_equal(np.reshape(rows, (sum(parts), rest)), whole.value.array)
    assert [shape[0] for shape in shapes_of(made)] == parts
