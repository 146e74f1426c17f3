"""Reductions, ArgMax, TopK, cumulative sums.

https://onnx.ai/onnx/operators/onnx__ReduceSum.html and kin, …__ArgMax, …__TopK, …__CumSum
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import INT64
from mansard.estimator.shapes.checks import distinct_axes, known_int, open_shape
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)


def axes_of(node: Node, position: int) -> tuple[int, ...] | None:
    """Axes from the input at ``position`` (newer opsets) or the attribute; None: not given."""
    if node.has(position):
        return node.value_ints(position)
    return node.integers("axes")


@rule(*REDUCTIONS)
def _reduce(node: Node) -> Sequence[Spec]:
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


@rule("ArgMax", "ArgMin")
def _arg(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    axis = data.axis(node.integer("axis", 0))
    middle = (1,) if node.integer("keepdims", 1) else ()
    return [(INT64, data.shape[:axis] + middle + data.shape[axis + 1 :])]


@rule("TopK")
def _top_k(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    k = node.integer("k", -1) if node.opset < 10 else known_int(node, 1)
    axis = data.axis(node.integer("axis", -1))
    if k is not None and not 0 <= k <= data.shape[axis]:
        raise node.error(f"cannot take the top {k} of {data.shape[axis]}")
    shape = (*data.shape[:axis], k, *data.shape[axis + 1 :])
    return [(data.dtype, shape), (INT64, shape)]


@rule("CumSum", "CumProd")
def _cumulate(node: Node) -> Sequence[Spec]:
    data, axis = node.input(0), known_int(node, 1)
    if axis is not None:
        data.axis(axis)
    return [same(data)]
