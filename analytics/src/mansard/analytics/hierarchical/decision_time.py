"""What the decision itself takes for one sample, measured on this machine's CPU."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from mansard.analytics.hierarchical.records import Amount, DecisionTime, Logistic, make_amount
from mansard.analytics.hierarchical.samples import Array, Samples

_BLOCKS, _ONES, _MANY = 25, 2000, 50_000
_LOW, _HIGH = 7, 17  # the 8th and the 18th of 25 hold the median in 95.7 % (binomial, p = ½)


def time_decision(samples: Samples, logistic: Logistic | None, threshold: float) -> DecisionTime:
    """The time of the threshold on p1, or of ``logistic`` on p1 and p2: median of 25 blocks.

    The ends hold the median with 95 %.
    """
    n = min(len(samples), _MANY)
    p1 = samples.p1[:n]
    p2 = np.zeros(n) if samples.p2 is None else samples.p2[:n]
    pairs = [(float(p1[at % n]), float(p2[at % n])) for at in range(_ONES)]
    # Enough times over that the clock resolves it.
    repeats = max(1, 20_000 // n)

    def by_one() -> None:
        for first, second in pairs:
            _decide(logistic, threshold, first, second)

    def by_many() -> None:
        for _ in range(repeats):
            _decide_all(logistic, threshold, p1, p2)

    return DecisionTime(one_s=_time(by_one, _ONES), many_s=_time(by_many, n * repeats), n=n)


def _decide(logistic: Logistic | None, threshold: float, p1: float, p2: float) -> bool:
    if logistic is None:
        return p1 < threshold
    score = logistic.intercept + logistic.w1 * p1 + logistic.w2 * p2
    return 1 / (1 + math.exp(-score)) < threshold


def _decide_all(logistic: Logistic | None, threshold: float, p1: Array, p2: Array) -> object:
    if logistic is None:
        return p1 < threshold
    scores = logistic.intercept + logistic.w1 * p1 + logistic.w2 * p2
    return 1 / (1 + np.exp(-scores)) < threshold


def _time(run: Callable[[], None], n: int) -> Amount:
    run()
    seconds_s = []
    for _ in range(_BLOCKS):
        start = time.perf_counter()
        run()
        seconds_s.append((time.perf_counter() - start) / n)
    ordered = sorted(seconds_s)
    return make_amount(ordered[_BLOCKS // 2], ordered[_LOW], ordered[_HIGH], "spread", "measured")
