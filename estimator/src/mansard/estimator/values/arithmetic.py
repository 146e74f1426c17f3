"""Arithmetic of a few numbers, with broadcasting, as shapes are computed by exporters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any

from mansard.estimator.element_types import ElementType
from mansard.estimator.numbers import Numbers, hold
from mansard.estimator.tensors import Node, Shape
from mansard.estimator.values.registry import Move
from mansard.estimator.values.strides import broadcast


def _pointwise(function: Callable[..., Any]) -> Move:
    def run(node: Node, dtype: ElementType, shape: Shape) -> Numbers | None:
        columns = [broadcast(held, shape).flat for held in operands(node)]
        found = map(function, *columns)
        try:
            # One operation on floats, rounded from fp64, is what a narrower format has.
            return hold(dtype, shape, found if dtype.is_float else _wrapped(dtype, found))
        except OverflowError:  # of a float: an infinity, which no shape follows from
            return None

    return run


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


ARITHMETIC: MappingProxyType[str, Move] = MappingProxyType(
    {
        "Add": _pointwise(operator.add),
        "Equal": _pointwise(operator.eq),
        "Mul": _pointwise(operator.mul),
        "Sub": _pointwise(operator.sub),
        "Where": _pointwise(_choose),
    }
)
