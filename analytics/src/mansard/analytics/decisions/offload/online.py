"""HI-LCB: learning on the device which confidences to offload, replayed on recorded samples.

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

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decisions.offload.records import Replay
from mansard.analytics.decisions.offload.samples import RIGHT, UNANSWERED, WRONG, Array, Samples
from mansard.analytics.decisions.offload.thresholds import sweep
from mansard.core.errors import UsageError

MOST_REPLAYED = 100_000  # a replay of so many takes about 10 s
EXPLORATION = 0.52  # α: just above a half
BINS = 20
_N_STEPS = 60  # of the curve of regret


def replay(
    samples: Samples, offload_cost: float, *, n_orders: int = 20, seed: int = 0
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
            regrets=tuple(float(each) for each in regrets[steps - 1].mean(axis=1)),
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
