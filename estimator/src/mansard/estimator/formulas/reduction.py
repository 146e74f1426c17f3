"""Reductions and cumulative sums.

https://onnx.ai/onnx/operators/onnx__ReduceSum.html and kin, …__ArgMax, …__CumSum
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node


@register("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ArgMax", "ArgMin", not_weights=(1,))
def reduce_plain(node: Node) -> Cost:
    """n elements become one by n - 1 operations."""
    return Cost(simple=_folds(node))


@register("ReduceMean", not_weights=(1,))
def reduce_mean(node: Node) -> Cost:
    """Additions, and one division for each output; nothing where nothing is reduced."""
    folds = _folds(node)
    return Cost(simple=folds + node.output.n_elements if folds else 0)


@register("ReduceL1", "ReduceSumSquare", not_weights=(1,))
def reduce_mapped(node: Node) -> Cost:
    """Absolute value or square of each element, then additions."""
    return Cost(simple=_folds(node) + node.input(0).n_elements)


@register("ReduceL2", not_weights=(1,))
def reduce_l2(node: Node) -> Cost:
    """Squares, additions, and a root for each output."""
    return reduce_mapped(node) + Cost(functions=node.output.n_elements)


@register("ReduceLogSum", not_weights=(1,))
def reduce_log_sum(node: Node) -> Cost:
    """Additions, and a logarithm for each output."""
    return Cost(simple=_folds(node), functions=node.output.n_elements)


@register("ReduceLogSumExp", not_weights=(1,))
def reduce_log_sum_exp(node: Node) -> Cost:
    """Maximum, difference and exp of each element, additions.

    For each output a logarithm, and the maximum is added again.
    """
    n, n_outputs = node.input(0).n_elements, node.output.n_elements
    return Cost(simple=2 * _folds(node) + n + n_outputs, functions=n + n_outputs)


@register("CumProd", "CumSum", not_weights=(1,))
def cumulate(node: Node) -> Cost:
    """A row of n: n - 1 operations; n - 2 where each element leaves itself out.

    Which axis is a row may depend on data; it is then taken to be the last one.
    """
    data, axis = node.input(0), node.optional(1)
    known = None if axis is None else axis.value
    width = data.shape[data.axis(-1 if known is None else int(known.first))]
    n_rows = data.n_elements // width if width else 0
    steps = width - 2 if node.integer("exclusive", 0) else width - 1
    return Cost(simple=n_rows * max(steps, 0))


def _folds(node: Node) -> int:
    return max(node.input(0).n_elements - node.output.n_elements, 0)
