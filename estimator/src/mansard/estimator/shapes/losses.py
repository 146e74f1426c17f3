"""Losses and selections over scores.

https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html,
…__SoftmaxCrossEntropyLoss, …__NonMaxSuppression
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import INT64
from mansard.estimator.shapes.checks import check_length
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


def _loss(node: Node) -> Spec:
    """One number, or with reduction "none" one for each label."""
    scores, labels = node.input(0), node.input(1)
    if scores.rank < 2 or labels.shape != (scores.shape[0], *scores.shape[2:]):
        raise node.error(f"labels {list(labels.shape)} do not fit scores {list(scores.shape)}")
    check_length(node, 2, scores.shape[1], "classes")
    reduction = node.text("reduction", "mean")
    if reduction not in ("none", "sum", "mean"):
        raise node.error(f"attribute 'reduction' = {reduction!r} does not exist")
    return scores.dtype, labels.shape if reduction == "none" else ()


@rule("NegativeLogLikelihoodLoss")
def _negative_log_likelihood(node: Node) -> Sequence[Spec]:
    return [_loss(node)]


@rule("SoftmaxCrossEntropyLoss")
def _softmax_cross_entropy(node: Node) -> Sequence[Spec]:
    return [_loss(node), same(node.input(0))]


@rule("NonMaxSuppression")
def _non_max_suppression(node: Node) -> Sequence[Spec]:
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
