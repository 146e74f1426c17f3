"""Losses, and the selection of boxes.

https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html,
…__SoftmaxCrossEntropyLoss, …__NonMaxSuppression
"""

from __future__ import annotations

import math

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.numbers import INT64
from mansard.estimator.operators.costs import sort_comparisons
from mansard.estimator.operators.normalization import softmax_cost
from mansard.estimator.operators.registry import Specs, operator
from mansard.estimator.operators.shapes import check_length, chosen, same
from mansard.estimator.tensors import Node


def _loss_shape(node: Node) -> Specs:
    """One number, or with reduction "none" one for each label."""
    scores, labels = node.input(0), node.input(1)
    if scores.rank < 2 or labels.shape != (scores.shape[0], *scores.shape[2:]):
        raise node.error(f"labels {list(labels.shape)} do not fit scores {list(scores.shape)}")
    check_length(node, 2, scores.shape[1], "classes")
    reduction = chosen(node, "reduction", "mean", ("none", "sum", "mean"))
    return [(scores.dtype, labels.shape if reduction == "none" else ())]


def _picked_bytes(node: Node, precision: Precision | None) -> int:
    """The labels, a score and a weight for each."""
    scores, labels = node.input(0), node.input(1)
    picked = scores.dtype.size_bytes(labels.n_elements, precision)
    weights = node.optional(2)
    held = 0 if weights is None else min(picked, weights.n_bytes(precision))
    return picked + held + labels.n_bytes(precision)


@operator("NegativeLogLikelihoodLoss", shape=_loss_shape, not_weights=(1, 2), reads=_picked_bytes)
def negative_log_likelihood(node: Node) -> Cost:
    """A negation and a weight for each of n labels; a sum n - 1, a mean 1 more.

    A weighted mean also sums the weights.
    """
    n = node.input(1).n_elements
    if not n:
        return Cost()
    is_weighted, reduction = node.has(2), node.text("reduction", "mean")
    simple = 2 * n if is_weighted else n
    if reduction != "none":
        simple += n - 1
    if reduction == "mean":
        simple += n if is_weighted else 1
    return Cost(simple=simple)


def _softmax_cross_entropy_shape(node: Node) -> Specs:
    return [*_loss_shape(node), same(node.input(0))]


@operator("SoftmaxCrossEntropyLoss", shape=_softmax_cross_entropy_shape, not_weights=(1, 2))
def softmax_cross_entropy(node: Node) -> Cost:
    """LogSoftmax over the classes of each label, then NegativeLogLikelihoodLoss."""
    n, n_classes = node.input(1).n_elements, node.input(0).shape[1]
    logarithms = Cost(functions=n if n_classes else 0)
    return softmax_cost(n, n_classes) + logarithms + negative_log_likelihood(node)


def _non_max_suppression_shape(node: Node) -> Specs:
    """[selected, 3] of boxes [batch, n, 4] and scores [batch, classes, n]: image, class, box.

    How many are selected depends on data.
    """
    boxes, scores = node.input(0), node.input(1)
    fits = boxes.rank == 3 and boxes.shape[2] == 4 and scores.rank == 3
    if not fits or (boxes.shape[0], boxes.shape[1]) != (scores.shape[0], scores.shape[2]):
        raise node.error(f"boxes {list(boxes.shape)} and scores {list(scores.shape)} do not fit")
    # Without a number of boxes none is selected: the input's default is 0.
    limit = node.input(2).value if node.has(2) else None
    if not node.has(2) or (limit is not None and int(limit.first) == 0):
        return [(INT64, (0, 3))]
    return [(INT64, (None, 3))]


@operator("NonMaxSuppression", shape=_non_max_suppression_shape, not_weights=(2, 3, 4))
def non_max_suppression(node: Node) -> Cost:
    """Threshold, sort of n scores by class, overlap of each selected box with n others.

    An overlap is 13 operations, an area 3.
    """
    boxes, scores = node.input(0), node.input(1)
    n_lists, n = math.prod(scores.shape[:2]), boxes.shape[1]
    areas = 3 * boxes.shape[0] * n
    overlaps = 13 * node.output.shape[0] * n
    return Cost(simple=areas + scores.n_elements + n_lists * sort_comparisons(n) + overlaps)
