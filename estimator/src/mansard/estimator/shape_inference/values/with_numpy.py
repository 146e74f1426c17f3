"""Values that NumPy computes: picked by index, folded, sorted, padded, and element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from mansard.estimator.numbers import Array
from mansard.estimator.operators.movement import pad_widths
from mansard.estimator.operators.reduction import axes_of
from mansard.estimator.shape_inference.values.plain import Evaluate, Known, operands
from mansard.estimator.tensors import Node, Shape


def _single(function: Callable[[Node, Shape], Array | None]) -> Evaluate:
    """An evaluator of one output from a function of the node and that output's shape."""
    return lambda node, specs: (function(node, specs[0][1]),)


_UPDATES: dict[str, Any] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
}


def _along(indices: Array, axis: int) -> tuple[Array, ...]:
    """Where each index points: its own coordinates, with the index along ``axis``."""
    coordinates = np.indices(indices.shape)
    return tuple(indices if i == axis else np.asarray(c) for i, c in enumerate(coordinates))


def _gather_nd(node: Node, shape: Shape) -> Array:
    value, indices, batch = node.array(0), node.array(1), node.integer("batch_dims", 0)
    if not batch:
        return np.asarray(value[tuple(np.moveaxis(indices, -1, 0))])
    found = [
        value[i][tuple(np.moveaxis(indices[i], -1, 0))] for i in np.ndindex(*indices.shape[:batch])
    ]
    return np.asarray(found).reshape(shape)


def _scatter_elements(node: Node, _shape: Shape) -> Array:
    result, axis = node.array(0).copy(), node.integer("axis", 0)
    return _update(node, result, _along(node.array(1), axis % max(result.ndim, 1)))


def _scatter_nd(node: Node, _shape: Shape) -> Array:
    return _update(node, node.array(0).copy(), tuple(np.moveaxis(node.array(1), -1, 0)))


def _update(node: Node, result: Array, coordinates: tuple[Array, ...]) -> Array:
    operation = _UPDATES.get(node.text("reduction", "none"))
    if operation is None:
        result[coordinates] = node.array(2)
    else:
        operation.at(result, coordinates, node.array(2))
    return result


def _compress(node: Node, _shape: Shape) -> Array:
    axis = node.integer("axis", 0) if "axis" in node.attributes else None
    return np.compress(node.array(1), node.array(0), axis=axis)


def _nonzero(node: Node, shape: Shape) -> Array:
    # A scalar has no coordinates: its result is [0, n].
    return np.asarray(np.nonzero(node.array(0))) if shape[0] else np.zeros(shape)


def _one_hot(node: Node, _shape: Shape) -> Array:
    depth = int(node.array(1).reshape(-1)[0])
    off, on = node.array(2).reshape(-1)
    indices = np.asarray(node.array(0)).astype(np.int64)
    inside = (indices >= -depth) & (indices < depth)
    hit = (np.arange(depth) == (indices % max(depth, 1))[..., None]) & inside[..., None]
    return np.moveaxis(np.where(hit, on, off), -1, node.integer("axis", -1))


def _unique(node: Node, _specs: Sequence[Known]) -> tuple[Array, ...]:
    axis = node.integer("axis", 0) if "axis" in node.attributes else None
    values, first, inverse, counts = np.unique(
        node.array(0), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if node.integer("sorted", 1):
        return values, first, inverse, counts
    order = np.argsort(first)
    rank = np.argsort(order)
    values = np.take(values, order, axis=0 if axis is None else axis)
    return values, first[order], rank[inverse], counts[order]


def _split(node: Node, specs: Sequence[Known]) -> list[Array]:
    axis = node.integer("axis", 0)
    sizes = [shape[axis] for _, shape in specs]
    return np.split(node.array(0), np.cumsum(sizes)[:-1], axis)


def _tile(node: Node, shape: Shape) -> Array:
    value = node.array(0)
    if node.opset >= 6:
        return np.tile(value, node.value_ints(1))
    # One axis only is repeated: the one whose size differs.
    times = [new // old if old else 1 for new, old in zip(shape, value.shape, strict=True)]
    return np.tile(value, times)


_PAD_MODES = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}


def _pad(node: Node, _shape: Shape) -> Array:
    value, widths = node.array(0), pad_widths(node) or []
    # Negative widths cut off, which NumPy's pad does not.
    kept = tuple(
        slice(max(-before, 0), size - max(-behind, 0))
        for size, (before, behind) in zip(value.shape, widths, strict=True)
    )
    added = [(max(before, 0), max(behind, 0)) for before, behind in widths]
    mode = _PAD_MODES.get(node.text("mode", "constant"))
    if mode is not None:
        return np.asarray(np.pad(value[kept], added, mode=mode))  # type: ignore[call-overload]
    fill = node.array(2).reshape(-1)[0] if node.has(2) else node.number("value", 0.0)
    return np.pad(value[kept], added, constant_values=fill)


def _triangle(node: Node, _shape: Shape) -> Array:
    function = np.triu if node.integer("upper", 1) else np.tril
    offset = int(node.array(1).reshape(-1)[0]) if node.has(1) else 0
    return np.asarray(function(node.array(0), offset))


def _unary(function: Callable[..., Array]) -> Evaluate:
    return _single(lambda node, _shape: function(node.array(0)))


def _operands(node: Node) -> tuple[Array, Array]:
    first, second = operands(node)
    return first.array, second.array


def _binary(function: Callable[..., Array]) -> Evaluate:
    return _single(lambda node, _shape: function(*_operands(node)))


def _modulo(node: Node, _shape: Shape) -> Array:
    divisor = node.array(1)
    if divisor.dtype.kind != "f" and not divisor.all():
        raise node.error("divides by zero in its shape arithmetic")
    function = np.fmod if node.integer("fmod", 0) else np.mod
    return np.asarray(function(node.array(0), node.array(1)))


def _shift(node: Node, _shape: Shape) -> Array:
    function = np.left_shift if node.text("direction", "") == "LEFT" else np.right_shift
    return np.asarray(function(node.array(0), node.array(1)))


def _clip(node: Node, _shape: Shape) -> Array:
    value = node.array(0)
    if node.opset < 11:
        infinite = float("inf")
        low, high = node.number("min", -infinite), node.number("max", infinite)
        return np.asarray(np.clip(value, low, high))
    if node.has(1):
        value = np.maximum(value, node.array(1))
    return np.asarray(np.minimum(value, node.array(2)) if node.has(2) else value)


def _is_infinite(node: Node, _shape: Shape) -> Array:
    value, found = node.array(0), np.isinf(node.array(0))
    if not node.integer("detect_positive", 1):
        found &= value < 0
    if not node.integer("detect_negative", 1):
        found &= value > 0
    return np.asarray(found)


def _folded(function: Callable[..., Array]) -> Evaluate:
    """Several inputs of one common shape, folded into one."""

    def run(node: Node, _shape: Shape) -> Array:
        values = [held.array for held in node.values]
        return np.asarray(function(np.stack(np.broadcast_arrays(*values)), axis=0))

    return _single(run)


def _reduce(function: Callable[..., Array]) -> Evaluate:
    def run(node: Node, _shape: Shape) -> Array | None:
        axes = axes_of(node, 1)
        if not node.array(0).size:
            return None  # the extreme of nothing is a matter of the type
        if not axes:
            # Without axes all are folded, or by another attribute none.
            axes = () if node.integer("noop_with_empty_axes", 0) else None
        return np.asarray(function(node.array(0), axis=axes))

    return _single(run)


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

    return _single(run)


def _search(function: Callable[..., Array]) -> Evaluate:
    def run(node: Node, _shape: Shape) -> Array:
        value, axis = node.array(0), node.integer("axis", 0)
        if node.integer("select_last_index", 0):
            return np.asarray(value.shape[axis] - 1 - function(np.flip(value, axis), axis=axis))
        return np.asarray(function(value, axis=axis))

    return _single(run)


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


# How each operator's value is computed, by its type in the standard domain.
EVALUATORS: MappingProxyType[str, Evaluate] = MappingProxyType(
    {
        "Abs": _unary(np.abs),
        "ArgMax": _search(np.argmax),
        "ArgMin": _search(np.argmin),
        "BitShift": _single(_shift),
        "BitwiseAnd": _binary(np.bitwise_and),
        "BitwiseNot": _unary(np.bitwise_not),
        "BitwiseOr": _binary(np.bitwise_or),
        "BitwiseXor": _binary(np.bitwise_xor),
        "Cast": _unary(np.asarray),
        "CastLike": _unary(np.asarray),
        "Clip": _single(_clip),
        "Compress": _single(_compress),
        "Cos": _unary(np.cos),
        "CumProd": _cumulate(np.cumprod, 1),
        "CumSum": _cumulate(np.cumsum, 0),
        "Div": _binary(np.divide),  # of floats
        "Exp": _unary(np.exp),
        "GatherND": _single(_gather_nd),
        "IsInf": _single(_is_infinite),
        "IsNaN": _unary(np.isnan),
        "Log": _unary(np.log),
        "MatMul": _single(_matmul),
        "Max": _folded(np.max),
        "Mean": _folded(np.mean),
        "Min": _folded(np.min),
        "Mod": _single(_modulo),
        "NonZero": _single(_nonzero),
        "OneHot": _single(_one_hot),
        "Pad": _single(_pad),
        "Pow": _binary(np.power),
        "Reciprocal": _unary(np.reciprocal),
        "ReduceL1": _reduce(_sum_absolute),
        "ReduceL2": _reduce(_norm),
        "ReduceMax": _reduce(np.max),
        "ReduceMean": _reduce(np.mean),
        "ReduceMin": _reduce(np.min),
        "ReduceProd": _reduce(np.prod),
        "ReduceSum": _reduce(np.sum),
        "ReduceSumSquare": _reduce(_sum_square),
        "Relu": _single(lambda node, _shape: np.maximum(node.array(0), 0)),
        "Round": _unary(np.round),
        "Scatter": _single(_scatter_elements),
        "ScatterElements": _single(_scatter_elements),
        "ScatterND": _single(_scatter_nd),
        "Sign": _unary(np.sign),
        "Sin": _unary(np.sin),
        "Split": _split,
        "Sqrt": _unary(np.sqrt),
        "Sum": _folded(np.sum),
        "Tile": _single(_tile),
        "TopK": _top_k,
        "Trilu": _single(_triangle),
        "Unique": _unique,
    }
)
