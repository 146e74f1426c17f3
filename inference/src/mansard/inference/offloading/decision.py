"""The decision of hierarchical inference: the two largest outputs, and whether to offload.

What the client runs for each sample is what is timed here, for any number of classes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mansard.core.errors import MeasurementError
from mansard.core.records import DecisionTime, OffloadRule, ScoreKind

Scores = npt.NDArray[np.float64]

SIZES = (10, 100, 1000)  # classes: CIFAR-10, CIFAR-100, ImageNet
N_BLOCKS = 25
_N_VECTORS = 200  # decisions of a block
_SUM_SLACK = 0.05  # by which rounded probabilities miss 1, see decisions.offload.samples
_CLASS_SLACK = 1 / 254


class OffloadDecision(NamedTuple):
    """The small network's class, its two largest outputs as probabilities, and what follows."""

    predicted: int
    p1: float
    p2: float
    is_offloaded: bool


def decide(scores: Scores, kind: ScoreKind, rule: OffloadRule) -> OffloadDecision:
    """The decision on the scores of one sample, a vector of two classes or more.

    The two largest of logits become probabilities by the softmax over all of them. Of equal scores
    the lower class counts. Raises MeasurementError for scores that are not finite.
    """
    predicted = int(scores.argmax())
    first = float(scores[predicted])
    if not math.isfinite(first):  # the first NaN, where there is one
        raise MeasurementError(
            "the scores of a sample are not finite numbers",
            fix="check for a layer that overflows, and --preprocess",
        )
    second = float(np.partition(scores, -2)[-2])
    if kind == "logits":
        total = float(np.exp(scores - first).sum())
        p1, p2 = 1 / total, math.exp(second - first) / total
    else:
        p1, p2 = min(max(first, 0.0), 1.0), min(max(second, 0.0), 1.0)
    return OffloadDecision(predicted, p1, p2, _confidence(p1, p2, rule) < rule.threshold)


def _confidence(p1: float, p2: float, rule: OffloadRule) -> float:
    if rule.logistic is None:
        return p1
    intercept, w1, w2 = rule.logistic
    return (1 + math.tanh((intercept + w1 * p1 + w2 * p2) / 2)) / 2  # which cannot overflow


def kind_of(scores: Scores) -> ScoreKind:
    """Whether scores, samples × classes, are probabilities: between 0 and 1, with a sum of 1."""
    slack = max(_SUM_SLACK, scores.shape[1] * _CLASS_SLACK)
    is_share = (scores >= -1e-6).all() and (scores <= 1 + 1e-6).all()
    return "probabilities" if is_share and (abs(scores.sum(1) - 1) <= slack).all() else "logits"


def time_decisions(
    n_classes: Sequence[int], kind: ScoreKind, rule: OffloadRule, n_blocks: int = N_BLOCKS
) -> tuple[DecisionTime, ...]:
    """How long ``decide`` takes here, on random scores; each number of classes once."""
    return tuple(_time(n, kind, rule, n_blocks) for n in dict.fromkeys(n_classes))


def _time(n_classes: int, kind: ScoreKind, rule: OffloadRule, n_blocks: int) -> DecisionTime:
    random = np.random.default_rng(n_classes)
    vectors = random.standard_normal((_N_VECTORS, n_classes))
    if kind == "probabilities":
        powers = np.exp(vectors)
        vectors = powers / powers.sum(axis=1, keepdims=True)
    rows = list(vectors)
    seconds_s = []
    for _ in range(n_blocks + 1):
        start_s = time.monotonic()
        for row in rows:
            decide(row, kind, rule)
        seconds_s.append((time.monotonic() - start_s) / _N_VECTORS)
    return DecisionTime(n_classes=n_classes, seconds_s=tuple(seconds_s[1:]))  # the first warms up
