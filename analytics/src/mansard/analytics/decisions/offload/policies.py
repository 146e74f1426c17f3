"""Decisions that are learned: DIME's logistic regression, and HI-LCB on the device.

DIME decides on the two largest outputs:

P(local is right) = 1 / (1 + exp(−(β + w1·p1 + w2·p2))); DIME offloads where it is below 0.5
(A. P. Behera et al., Exploring the boundaries of on-device inference: when tiny falls short, go
hierarchical, IEEE Internet of Things Journal, 2025, arXiv 2407.11061). Any threshold can be
chosen here.

HI-LCB learns on the device which confidences to offload; here it is replayed on recorded samples:
S. Chattopadhyay, V. Sutar, J. P. Champati, S. Moharir, Low-regret and low-complexity learning for
hierarchical inference, arXiv 2508.08985: a confidence bound on the accuracy of each confidence,
which is taken to grow with the confidence; regret O(log T). The bound here is Hoeffding's: where a
bin was offloaded N times until step t, and the local answer was right in a share m of these,

    lower(bin) = max over bins at or below of (m − √(α·ln t / N)),   offload if 1 − lower ≥ β

With α above ½ the chances that it is above the true accuracy have a finite sum over t. HI-LCB-lite
looks at its own bin alone, in constant time. Only an offload tells whether the local answer was
right: the remote answer is taken for the truth, as a device would have to.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mansard.analytics.decisions.offload.records import Logistic, Replay
from mansard.analytics.decisions.offload.samples import (
    RIGHT,
    UNANSWERED,
    WRONG,
    Array,
    LabelledSamples,
)
from mansard.analytics.decisions.offload.thresholds import sweep
from mansard.core.errors import InputError, UsageError

_MOST_STEPS = 100
_RIDGE = 1.0  # ½·(w1² + w2²) is added to the loss of all samples: weights of few stay finite
_SMALL = 1e-10


def _dime(name: str, intercept: float, w1: float, w2: float) -> tuple[str, Logistic]:
    return name, Logistic(name=f"DIME's {name}", intercept=intercept, w1=w1, w2=w2)


# github.com/JoseGaDel/DIME, models/README.md: CIFAR-10 above, ImageNet below.
DIME = MappingProxyType(
    dict(
        (
            _dime("resnet8-fp", -4.531622904031753, 5.82555453, -3.59687685),
            _dime("resnet8-int8", -4.63391351, 5.93658349, -3.04197074),
            _dime("resnet56-fp", -5.09909203324702, 5.60475641, -4.37203237),
            _dime("resnet56-int8", -4.695974, 5.21640018, -3.70736749),
            _dime("alexnet-fp", -3.7969481741850837, 4.84755215, -1.79537036),
            _dime("alexnet-int8", -4.33089237, 5.39107836, -1.03445988),
            _dime("resnet18-imagenet-int8", -3.02860354, 4.95192416, -1.7800178),
            _dime("resnet50-imagenet-int8", -3.45594814, 5.11103057, -2.07690727),
            _dime("alexnet-imagenet-int8", -2.61127983, 5.00778702, -1.23894854),
        )
    )
)


def probability(rule: Logistic, samples: LabelledSamples) -> Array:
    """P(local is right) of each sample. Raises InputError without p2."""
    if samples.p2 is None:
        raise InputError(
            "has no p2, which the logistic decision needs",
            where="the samples",
            fix="record the two largest outputs",
        )
    scores = rule.intercept + rule.w1 * samples.p1 + rule.w2 * samples.p2
    return np.asarray(expit(scores))


def find_published(name: str) -> Logistic:
    """The coefficients of one of DIME's networks; raises UsageError."""
    policy = DIME.get(name)
    if policy is None:
        raise UsageError(f"no coefficients are called {name!r}", fix=f"there are {', '.join(DIME)}")
    return policy


def fit_logistic(samples: LabelledSamples, *, is_balanced: bool = False) -> Logistic | None:
    """The coefficients of maximum likelihood, by Newton's method; None if they cannot be fitted.

    ``is_balanced``: right and wrong samples weigh the same in all, so that a threshold of 0.5
    separates them; the result is no probability then. Nothing can be fitted without p2, or where
    all samples are right or all wrong.
    """
    right = samples.local == RIGHT
    n_right, n = int(right.sum()), len(samples)
    if samples.p2 is None or n_right in {0, n}:
        return None
    design = np.column_stack([np.ones(n), samples.p1, samples.p2])
    weights = np.ones(n)
    if is_balanced:
        weights = np.where(right, n / (2 * n_right), n / (2 * (n - n_right)))
    penalty = np.array([0.0, _RIDGE, _RIDGE])
    theta = np.zeros(3)
    loss = _loss(design, right, weights, penalty, theta)
    for _ in range(_MOST_STEPS):
        chance = expit(design @ theta)
        slope = design.T @ (weights * (chance - right)) + penalty * theta
        bend = (design * (weights * chance * (1 - chance))[:, None]).T @ design
        step = np.linalg.lstsq(bend + np.diag(penalty), slope, rcond=None)[0]
        size = 1.0
        while size > _SMALL:
            ahead = _loss(design, right, weights, penalty, theta - size * step)
            if ahead <= loss:
                break
            size /= 2
        else:
            break
        theta, change, loss = theta - size * step, loss - ahead, ahead
        if change <= _SMALL * max(1.0, abs(loss)):
            break
    return Logistic(
        name="fitted",
        intercept=float(theta[0]),
        w1=float(theta[1]),
        w2=float(theta[2]),
    )


def _loss(design: Array, right: Array, weights: Array, penalty: Array, theta: Array) -> float:
    scores = design @ theta
    return float(weights @ (np.logaddexp(0, scores) - right * scores) + penalty @ theta**2 / 2)


MOST_REPLAYED = 100_000  # takes about 10 s
EXPLORATION = 0.52  # α: just above a half
BINS = 20
_N_STEPS = 60  # of the curve of regret


def replay(
    samples: LabelledSamples, offload_cost: float, *, n_orders: int = 20, seed: int = 0
) -> tuple[Replay, Replay]:
    """HI-LCB and HI-LCB-lite on ``samples`` in the same random orders, all orders at once.

    The loss of a sample is 1 if it is kept and wrong, β if it is offloaded. Raises UsageError where
    a remote answer was not recorded: the policies learn from nothing else.
    """
    n = len(samples)
    if (samples.agrees == UNANSWERED).any() or (samples.remote == UNANSWERED).any():
        what = "a replay needs predicted, and a remote answer of every sample"
        raise UsageError(what, fix="record them, or leave --replay out")
    rng = np.random.default_rng(seed)
    orders = np.stack([rng.permutation(n) for _ in range(n_orders)], axis=1)
    place = np.minimum((samples.p1 * BINS).astype(np.int8), BINS - 1)[orders]
    tells = (samples.agrees == RIGHT)[orders]
    is_wrong = (samples.local == WRONG)[orders]
    remote_right = (samples.remote == RIGHT)[orders]
    one = sweep(samples, samples.p1)
    at = int(np.argmin(one.cost(offload_cost)))
    # The regret until a step is against that one threshold, the best of all samples.
    fixed = np.where((samples.p1 < one.threshold[at])[orders], offload_cost, is_wrong)
    steps = np.unique(np.geomspace(1, n, _N_STEPS).astype(np.int64))

    def one_policy(*, is_lite: bool) -> Replay:
        offloaded = _run(place, tells, offload_cost, is_lite)
        losses = np.where(offloaded, offload_cost, is_wrong)
        regrets = np.cumsum(losses - fixed, axis=0)
        final = regrets[-1]
        return Replay(
            policy="HI-LCB-lite" if is_lite else "HI-LCB",
            n=n,
            n_orders=n_orders,
            offload_cost=offload_cost,
            loss=float(losses.mean()),
            best_loss=float(one.cost(offload_cost)[at]),
            best_threshold=float(one.threshold[at]),
            regret=float(final.mean()),
            regret_low=float(final.min()),
            regret_high=float(final.max()),
            share=float(offloaded.mean()),
            accuracy=float(np.where(offloaded, remote_right, ~is_wrong).mean()),
            steps=tuple(int(step) for step in steps),
            regrets=tuple(float(regret) for regret in regrets[steps - 1].mean(axis=1)),
        )

    return one_policy(is_lite=False), one_policy(is_lite=True)


def _run(
    place: NDArray[np.int8], tells: NDArray[np.bool_], offload_cost: float, is_lite: bool
) -> NDArray[np.bool_]:
    """Which samples are offloaded: steps × orders."""
    n, n_orders = place.shape
    every = np.arange(n_orders)
    count, right = np.zeros((n_orders, BINS)), np.zeros((n_orders, BINS))
    offloaded = np.zeros((n, n_orders), dtype=bool)
    logs = EXPLORATION * np.log(np.arange(1, n + 1))
    for step in range(n):
        here = place[step]
        if is_lite:
            lower = _lower(count[every, here], right[every, here], logs[step])
        else:
            bounds = _lower(count, right, logs[step])
            lower = np.maximum.accumulate(bounds, axis=1)[every, here]
        does = 1 - lower >= offload_cost
        offloaded[step] = does
        count[every, here] += does
        right[every, here] += does & tells[step]
    return offloaded


def _lower(count: Array, right: Array, log: float) -> Array:
    """The lower bounds of accuracies, at least 0."""
    known = np.maximum(count, 1)
    return np.where(count > 0, np.maximum(0.0, right / known - np.sqrt(log / known)), 0.0)
