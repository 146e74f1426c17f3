"""Values folded along axes, searched and sorted, and products of small matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

import numpy as np

from mansard.estimator.numbers import Array
from mansard.estimator.operators.reduction import axes_of
from mansard.estimator.tensors import Node, Shape
from mansard.estimator.values.registry import Evaluate, Known, alone


def _reduce(function: Callable[..., Array]) -> Evaluate:
    def run(node: Node, _shape: Shape) -> Array | None:
        axes = axes_of(node, 1)
        if not node.array(0).size:
            return None  # the extreme of nothing is a matter of the type
        if not axes:
            # Without axes all are folded, or by another attribute none.
            axes = () if node.integer("noop_with_empty_axes", 0) else None
        return np.asarray(function(node.array(0), axis=axes))

    return alone(run)


def _sum_square(value: Array, axis: tuple[int, ...] | None) -> Array:
    return np.asarray(np.sum(value * value, axis=axis))


def _norm(value: Array, axis: tuple[int, ...] | None) -> Array:
    return np.sqrt(_sum_square(value, axis))


def _sum_absolute(value: Array, axis: tuple[int, ...] | None) -> Array:
    return np.asarray(np.sum(np.abs(value), axis=axis))


def _cumulate(function: Callable[..., Array], neutral: int) -> Evaluate:
    def run(node: Node, _shape: Shape) -> Array:
        value, axis = node.array(0), int(node.array(1).reshape(-1)[0])
        if node.integer("reverse", 0):
            value = np.flip(value, axis)
        result = np.asarray(function(value, axis=axis))
        if node.integer("exclusive", 0):
            result = np.roll(result, 1, axis)
            first = [slice(None)] * value.ndim
            first[axis] = slice(0, 1)
            result[tuple(first)] = neutral
        return np.flip(result, axis) if node.integer("reverse", 0) else result

    return alone(run)


def _search(function: Callable[..., Array]) -> Evaluate:
    def run(node: Node, _shape: Shape) -> Array:
        value, axis = node.array(0), node.integer("axis", 0)
        if node.integer("select_last_index", 0):
            return np.asarray(value.shape[axis] - 1 - function(np.flip(value, axis), axis=axis))
        return np.asarray(function(value, axis=axis))

    return alone(run)


def _top_k(node: Node, specs: Sequence[Known]) -> tuple[Array, Array]:
    value, axis = node.array(0), node.integer("axis", -1)
    # Among equals the lower index comes first, whichever end is wanted. Unsigned and
    # smallest integers cannot be negated, so order is taken from ranks.
    _, ranks = np.unique(value, return_inverse=True)
    ranks = ranks.reshape(value.shape)
    order = np.argsort(-ranks if node.integer("largest", 1) else ranks, axis=axis, kind="stable")
    chosen = np.take(order, np.arange(specs[0][1][axis]), axis=axis)
    return np.take_along_axis(value, chosen, axis=axis), chosen


def _matmul(node: Node, _shape: Shape) -> Array:
    return np.asarray(np.matmul(node.array(0), node.array(1)))


EVALUATORS: MappingProxyType[str, Evaluate] = MappingProxyType(
    {
        "ArgMax": _search(np.argmax),
        "ArgMin": _search(np.argmin),
        "CumProd": _cumulate(np.cumprod, 1),
        "CumSum": _cumulate(np.cumsum, 0),
        "MatMul": alone(_matmul),
        "ReduceL1": _reduce(_sum_absolute),
        "ReduceL2": _reduce(_norm),
        "ReduceMax": _reduce(np.max),
        "ReduceMean": _reduce(np.mean),
        "ReduceMin": _reduce(np.min),
        "ReduceProd": _reduce(np.prod),
        "ReduceSum": _reduce(np.sum),
        "ReduceSumSquare": _reduce(_sum_square),
        "TopK": _top_k,
    }
)
