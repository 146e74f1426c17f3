"""The logistic decision on the two largest outputs, as DIME has it.

P(local is right) = 1 / (1 + exp(−(β + w1·p1 + w2·p2))); DIME offloads where it is below 0.5
(A. P. Behera et al., Exploring the boundaries of on-device inference: when tiny falls short, go
hierarchical, IEEE Internet of Things Journal, 2025, arXiv 2407.11061). Any threshold can be
chosen here.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from scipy.special import expit

from mansard.analytics.decisions.offload.records import Logistic
from mansard.analytics.decisions.offload.samples import RIGHT, Array, Samples
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


def probability(rule: Logistic, samples: Samples) -> Array:
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
    found = DIME.get(name)
    if found is None:
        raise UsageError(f"no coefficients are called {name!r}", fix=f"there are {', '.join(DIME)}")
    return found


def fit_logistic(samples: Samples, *, is_balanced: bool = False) -> Logistic | None:
    """The coefficients of most likelihood, by Newton's method; None where nothing can be fitted.

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
    found = np.zeros(3)
    loss = _loss(design, right, weights, penalty, found)
    for _ in range(_MOST_STEPS):
        chance = expit(design @ found)
        slope = design.T @ (weights * (chance - right)) + penalty * found
        bend = (design * (weights * chance * (1 - chance))[:, None]).T @ design
        step = np.linalg.lstsq(bend + np.diag(penalty), slope, rcond=None)[0]
        size = 1.0
        while size > _SMALL:
            ahead = _loss(design, right, weights, penalty, found - size * step)
            if ahead <= loss:
                break
            size /= 2
        else:
            break
        found, change, loss = found - size * step, loss - ahead, ahead
        if change <= _SMALL * max(1.0, abs(loss)):
            break
    return Logistic(
        name="fitted", intercept=float(found[0]), w1=float(found[1]), w2=float(found[2])
    )


def _loss(design: Array, right: Array, weights: Array, penalty: Array, found: Array) -> float:
    scores = design @ found
    return float(weights @ (np.logaddexp(0, scores) - right * scores) + penalty @ found**2 / 2)
