"""Reductions, cumulative sums and searches."""

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
    """Additions, and one division for each output."""
    return Cost(simple=_folds(node) + node.output.n_elements)


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
    """One operation for each element."""
    return Cost(simple=node.output.n_elements)


@register("TopK", not_weights=(1,))
def top_k(node: Node) -> Cost:
    """A heap of k elements: up to log2(k) + 1 comparisons for each input element."""
    data = node.input(0)
    k = node.output.shape[data.axis(node.integer("axis", -1))]
    return Cost(simple=data.n_elements * k.bit_length())


def _folds(node: Node) -> int:
    return max(node.input(0).n_elements - node.output.n_elements, 0)
