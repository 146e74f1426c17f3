"""Values of operators that move numbers, make them from shapes, or add, multiply and compare them.

They are most of what exported networks compute shapes from, and need no NumPy. Where one of them
answers None, NumPy may still know.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Any

from mansard.estimator.model import StoredTensor
from mansard.estimator.numbers import (
    INT64,
    Array,
    ElementType,
    Numbers,
    broadcast,
    hold,
    joined,
    offsets,
    pick,
    strides_of,
)
from mansard.estimator.operators.constants import shape_slice
from mansard.estimator.operators.indexing import slice_of
from mansard.estimator.tensors import Node, Shape

_EXACT = 2**53  # all integers below it in size are doubles

Known = tuple[ElementType, Shape]
# With NumPy: the values of all outputs.
Evaluate = Callable[[Node, Sequence[Known]], "Sequence[Array | None]"]
# Without NumPy: the value of the one output; None where it cannot be computed.
PlainEvaluate = Callable[[Node, ElementType, Shape], "Numbers | None"]


def _same(node: Node, dtype: ElementType, shape: Shape) -> Numbers:
    return Numbers(dtype, shape, node.value(0).data)


def _shape_of(node: Node, _dtype: ElementType, shape: Shape) -> Numbers:
    return hold(INT64, shape, shape_slice(node))


def _size_of(node: Node, _dtype: ElementType, _shape: Shape) -> Numbers:
    return hold(INT64, (), (node.input(0).n_elements,))


def _filled(node: Node, dtype: ElementType, shape: Shape) -> Numbers:
    stored, width = node.attributes.get("value"), dtype.n_bits // 8
    fill = stored.value if isinstance(stored, StoredTensor) else None
    one = bytes(width) if fill is None else fill.data[:width]
    return Numbers(dtype, shape, one * math.prod(shape))


def _eye(node: Node, dtype: ElementType, shape: Shape) -> Numbers:
    rows, columns = shape
    k, kind = node.integer("k", 0), float if dtype.is_float else int
    return hold(dtype, shape, [kind(j - i == k) for i in range(rows) for j in range(columns)])


def _range(node: Node, dtype: ElementType, shape: Shape) -> Numbers:
    # The length comes from the shape: rounding may leave another one room.
    start, step = node.value(0).first, node.value(2).first
    return hold(dtype, shape, [start + i * step for i in range(*shape)])


def _gathered(node: Node, _dtype: ElementType, shape: Shape) -> Numbers:
    whole = node.value(0)
    axis = node.input(0).axis(node.integer("axis", 0))
    size, stride = whole.shape[axis], strides_of(whole.shape)[axis]
    chosen = [index % max(size, 1) * stride for index in node.value_ints(1)]
    rows = range(0, whole.n_elements, size * stride or 1)
    found = [row + offset + i for row in rows for offset in chosen for i in range(stride)]
    return pick(whole, shape, found)


def _gathered_elements(node: Node, _dtype: ElementType, shape: Shape) -> Numbers:
    """Each element from its own coordinates, with its index along the axis."""
    whole, strides = node.value(0), strides_of(node.value(0).shape)
    axis = node.input(0).axis(node.integer("axis", 0))
    size, along = whole.shape[axis], strides[axis]
    strides[axis] = 0
    indices = node.value_ints(1)
    found = [
        offset + index % max(size, 1) * along
        for offset, index in zip(offsets(shape, strides), indices, strict=True)
    ]
    return pick(whole, shape, found)


def _joined(node: Node, _dtype: ElementType, shape: Shape) -> Numbers:
    # Before version 4 the axis was 1 where none is given.
    return joined(node.values, shape, node.input(0).axis(node.integer("axis", 1)))


def _sliced(node: Node, _dtype: ElementType, shape: Shape) -> Numbers:
    whole = node.value(0)
    start, strides = 0, strides_of(whole.shape)
    for axis, cut in slice_of(node).items():
        first, _, step = cut.indices(whole.shape[axis])
        start += first * strides[axis]
        strides[axis] *= step
    return pick(whole, shape, offsets(shape, strides, start))


def _transposed(node: Node, _dtype: ElementType, shape: Shape) -> Numbers:
    whole = node.value(0)
    strides, order = strides_of(whole.shape), node.integers("perm")
    if order is None:
        order = tuple(reversed(range(len(strides))))
    return pick(whole, shape, offsets(shape, [strides[axis] for axis in order]))


def _expanded(node: Node, _dtype: ElementType, shape: Shape) -> Numbers:
    return broadcast(node.value(0), shape)


def _pointwise(function: Callable[..., Any]) -> PlainEvaluate:
    def run(node: Node, dtype: ElementType, shape: Shape) -> Numbers | None:
        columns = [broadcast(held, shape).flat for held in operands(node)]
        found = map(function, *columns)
        try:
            # One operation on floats, rounded from fp64, is what a narrower format has.
            return hold(dtype, shape, found if dtype.is_float else _wrapped(dtype, found))
        except OverflowError:  # of a float: an infinity, which no shape follows from
            return None

    return run


def _cast(node: Node, dtype: ElementType, shape: Shape) -> Numbers | None:
    """Numbers of another type; None where one may not fit or be exact: NumPy converts these."""
    found = node.value(0).flat
    if dtype.name == "bool":
        return hold(dtype, shape, map(bool, found))
    if not all(-_EXACT < number < _EXACT for number in found):  # false for a NaN, too
        return None
    try:
        return hold(dtype, shape, map(float if dtype.is_float else int, found))
    except OverflowError:
        return None


def _divided(node: Node, dtype: ElementType, shape: Shape) -> Numbers | None:
    """Integer quotients, rounded towards zero; None for floats, whose zeros NumPy knows."""
    if dtype.is_float:
        return None
    if not all(node.value(1).flat):
        raise node.error("divides by zero in its shape arithmetic")
    return _pointwise(_quotient)(node, dtype, shape)


def _quotient(number: int, divisor: int) -> int:
    whole = abs(number) // abs(divisor)
    return whole if (number < 0) == (divisor < 0) else -whole


def _whole(rounded: Callable[[float], int]) -> Callable[[float], float]:
    return lambda number: float(rounded(number)) if math.isfinite(number) else number


def operands(node: Node) -> list[Numbers]:
    """All operands; before version 7 the second may lie on the first at an axis."""
    values = list(node.values)
    if node.opset < 7 and "axis" in node.attributes:
        first, second = values
        rank = len(first.shape)
        behind = rank - node.integer("axis", 0) % max(rank, 1) - len(second.shape)
        shape = second.shape + (1,) * max(behind, 0)
        values[1] = Numbers(second.dtype, shape, second.data)
    return values


def _wrapped(dtype: ElementType, numbers: Iterable[int]) -> Iterable[int]:
    """Integers as their type holds them: what is too large comes out at the other end."""
    if dtype.name == "bool":
        return numbers
    span = 2**dtype.n_bits
    low = 0 if dtype.name.startswith("u") else -span // 2
    return [(number - low) % span + low for number in numbers]


def _choose(condition: bool, one: Any, other: Any) -> Any:
    return one if condition else other


PLAIN_EVALUATORS: MappingProxyType[str, PlainEvaluate] = MappingProxyType(
    {
        "Add": _pointwise(operator.add),
        "And": _pointwise(operator.and_),
        "Cast": _cast,
        "CastLike": _cast,
        "Ceil": _pointwise(_whole(math.ceil)),
        "Concat": _joined,
        "ConstantOfShape": _filled,
        "Div": _divided,
        "Equal": _pointwise(operator.eq),
        "Expand": _expanded,
        "EyeLike": _eye,
        "Flatten": _same,
        "Floor": _pointwise(_whole(math.floor)),
        "Gather": _gathered,
        "GatherElements": _gathered_elements,
        "Greater": _pointwise(operator.gt),
        "GreaterOrEqual": _pointwise(operator.ge),
        "Identity": _same,
        "Less": _pointwise(operator.lt),
        "LessOrEqual": _pointwise(operator.le),
        "Mul": _pointwise(operator.mul),
        "Neg": _pointwise(operator.neg),
        "Not": _pointwise(operator.not_),
        "Or": _pointwise(operator.or_),
        "Range": _range,
        "Reshape": _same,
        "Shape": _shape_of,
        "Size": _size_of,
        "Slice": _sliced,
        "Squeeze": _same,
        "Sub": _pointwise(operator.sub),
        "Transpose": _transposed,
        "Unsqueeze": _same,
        "Where": _pointwise(_choose),
        "Xor": _pointwise(operator.xor),
    }
)
