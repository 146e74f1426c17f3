"""Reductions, ArgMax, TopK, cumulative sums.

https://onnx.ai/onnx/operators/onnx__ReduceSum.html and kin, …__ArgMax, …__TopK, …__CumSum
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import INT64
from mansard.estimator.operators.costs import folds
from mansard.estimator.operators.registry import Specs, operator, shape_of
from mansard.estimator.operators.shapes import distinct_axes, known_int, open_shape, same
from mansard.estimator.tensors import Node


def axes_of(node: Node, position: int) -> tuple[int, ...] | None:
    """Axes from the input at ``position`` (newer opsets) or the attribute; None: not given."""
    if node.has(position):
        return node.value_ints(position)
    return node.integers("axes")


def _reduce_shape(node: Node) -> Specs:
    data, keeps = node.input(0), node.integer("keepdims", 1)
    if node.has(1) and node.input(1).value is None:
        rank = data.rank if keeps else data.rank - node.input(1).n_elements
        return [(data.dtype, open_shape(node, rank))]
    axes = axes_of(node, 1)
    if not axes:
        if node.integer("noop_with_empty_axes", 0):
            return [(data.dtype, data.shape)]
        axes = tuple(range(data.rank))
    reduced = distinct_axes(node, data, axes)
    if keeps:
        shape = [1 if i in reduced else size for i, size in enumerate(data.shape)]
    else:
        shape = [size for i, size in enumerate(data.shape) if i not in reduced]
    return [(data.dtype, tuple(shape))]


@operator(
    "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", shape=_reduce_shape, not_weights=(1,)
)
def reduce_plain(node: Node) -> Cost:
    """n - 1 operations for each row of n."""
    return Cost(simple=folds(node))


@operator("ReduceMean", shape=_reduce_shape, not_weights=(1,))
def reduce_mean(node: Node) -> Cost:
    """n - 1 additions and a division for n elements; none if nothing is reduced."""
    n = folds(node)
    return Cost(simple=n + node.output.n_elements if n else 0)


@operator("ReduceL1", "ReduceSumSquare", shape=_reduce_shape, not_weights=(1,))
def reduce_mapped(node: Node) -> Cost:
    """Absolute value or square of each element, then additions."""
    return Cost(simple=folds(node) + node.input(0).n_elements)


@operator("ReduceL2", shape=_reduce_shape, not_weights=(1,))
def reduce_l2(node: Node) -> Cost:
    """Squares, additions, and a root for each output."""
    return reduce_mapped(node) + Cost(functions=node.output.n_elements)


@operator("ReduceLogSum", shape=_reduce_shape, not_weights=(1,))
def reduce_log_sum(node: Node) -> Cost:
    """Additions, and a logarithm for each output."""
    return Cost(simple=folds(node), functions=node.output.n_elements)


@operator("ReduceLogSumExp", shape=_reduce_shape, not_weights=(1,))
def reduce_log_sum_exp(node: Node) -> Cost:
    """Maximum, difference, exp, addition for each element; 1 and a logarithm for each output."""
    n, n_outputs = node.input(0).n_elements, node.output.n_elements
    return Cost(simple=2 * folds(node) + n + n_outputs, functions=n + n_outputs)


@shape_of("ArgMax", "ArgMin", cost=reduce_plain, not_weights=(1,))
def _arg_shape(node: Node) -> Specs:
    data = node.input(0)
    axis = data.axis(node.integer("axis", 0))
    middle = (1,) if node.integer("keepdims", 1) else ()
    return [(INT64, data.shape[:axis] + middle + data.shape[axis + 1 :])]


def _top_k_shape(node: Node) -> Specs:
    data = node.input(0)
    k = node.integer("k", -1) if node.opset < 10 else known_int(node, 1)
    axis = data.axis(node.integer("axis", -1))
    if k is not None and not 0 <= k <= data.shape[axis]:
        raise node.error(f"cannot take the top {k} of {data.shape[axis]}")
    shape = (*data.shape[:axis], k, *data.shape[axis + 1 :])
    return [(data.dtype, shape), (INT64, shape)]


@operator("TopK", shape=_top_k_shape, not_weights=(1,))
def top_k(node: Node) -> Cost:
    """⌊log2 k⌋ + 1 comparisons for each input element (heap): an upper bound."""
    data = node.input(0)
    k = node.output.shape[data.axis(node.integer("axis", -1))]
    return Cost(simple=data.n_elements * k.bit_length())


def _cumulate_shape(node: Node) -> Specs:
    data, axis = node.input(0), known_int(node, 1)
    if axis is not None:
        data.axis(axis)
    return [same(data)]


@operator("CumProd", "CumSum", shape=_cumulate_shape, not_weights=(1,))
def cumulate(node: Node) -> Cost:
    """n - 1 operations for each row of n, n - 2 if exclusive; an unknown axis is the last."""
    data, axis = node.input(0), node.optional(1)
    known = None if axis is None else axis.value
    width = data.shape[data.axis(-1 if known is None else int(known.first))]
    n_rows = data.n_elements // width if width else 0
    steps = width - 2 if node.integer("exclusive", 0) else width - 1
    return Cost(simple=n_rows * max(steps, 0))
