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

from mansard.analytics.hierarchical.records import Replay
from mansard.analytics.hierarchical.samples import RIGHT, UNANSWERED, WRONG, Array, Samples
from mansard.analytics.hierarchical.thresholds import sweep

EXPLORATION = 0.52  # α: just above a half
BINS = 20
_N_STEPS = 60  # of the curve of regret


def replay(
    samples: Samples,
    offload_cost: float,
    *,
    n_orders: int = 20,
    n_bins: int = BINS,
    exploration: float = EXPLORATION,
    is_lite: bool = False,
    seed: int = 0,
) -> Replay:
    """One policy on ``samples`` in random orders, all orders at once.

    The loss of a sample is 1 if it is kept and wrong, β if it is offloaded. Where no remote answer
    tells, the label does.
    """
    n = len(samples)
    rng = np.random.default_rng(seed)
    orders = np.stack([rng.permutation(n) for _ in range(n_orders)], axis=1)
    place = np.minimum((samples.p1 * n_bins).astype(np.int64), n_bins - 1)
    tells = np.where(samples.agrees == UNANSWERED, samples.local, samples.agrees) == RIGHT
    is_wrong = samples.local == WRONG
    offloaded = _run(place[orders], tells[orders], offload_cost, n_bins, exploration, is_lite)
    losses = np.where(offloaded, offload_cost, is_wrong[orders])
    one = sweep(samples, samples.p1)
    at = int(np.argmin(one.cost(offload_cost)))
    # The regret until a step is against that one threshold, the best of all samples.
    is_below = samples.p1 < one.threshold[at]
    fixed = np.where(is_below, offload_cost, is_wrong)[orders]
    regrets = np.cumsum(losses - fixed, axis=0)
    steps = np.unique(np.geomspace(1, n, _N_STEPS).astype(np.int64))
    final = regrets[-1]
    remote = samples.remote[orders]
    is_unanswered = bool((offloaded & (remote == UNANSWERED)).any())
    right = np.where(offloaded, remote == RIGHT, ~is_wrong[orders])
    why = "some samples that it offloads have no recorded remote answer"
    return Replay(
        policy="HI-LCB-lite" if is_lite else "HI-LCB",
        n=n,
        n_orders=n_orders,
        n_bins=n_bins,
        exploration=exploration,
        offload_cost=offload_cost,
        loss=float(losses.mean()),
        best_loss=float(one.cost(offload_cost)[at]),
        best_threshold=float(one.threshold[at]),
        regret=float(final.mean()),
        regret_low=float(final.min()),
        regret_high=float(final.max()),
        share=float(offloaded.mean()),
        accuracy=None if is_unanswered else float(right.mean()),
        steps=tuple(int(step) for step in steps),
        regrets=tuple(float(each) for each in regrets[steps - 1].mean(axis=1)),
        unknown={"accuracy": why} if is_unanswered else {},
    )


def _run(
    place: NDArray[np.int64],
    tells: NDArray[np.bool_],
    offload_cost: float,
    n_bins: int,
    exploration: float,
    is_lite: bool,
) -> NDArray[np.bool_]:
    """Which samples are offloaded: steps × orders."""
    n, n_orders = place.shape
    every = np.arange(n_orders)
    count, right = np.zeros((n_orders, n_bins)), np.zeros((n_orders, n_bins))
    offloaded = np.zeros((n, n_orders), dtype=bool)
    logs = exploration * np.log(np.arange(1, n + 1))
    for step in range(n):
        here = place[step]
        lower = _lower(count, right, logs[step], here, every, is_lite)
        does = 1 - lower >= offload_cost
        offloaded[step] = does
        count[every, here] += does
        right[every, here] += does & tells[step]
    return offloaded


def _lower(
    count: Array, right: Array, log: float, here: NDArray[np.int64], every: NDArray[np.int64],
    is_lite: bool,
) -> Array:  # fmt: skip
    """The lower bound of the accuracy in the bin of each order, at least 0."""
    if is_lite:
        n, k = count[every, here], right[every, here]
        known = np.maximum(n, 1)
        return np.where(n > 0, np.maximum(0.0, k / known - np.sqrt(log / known)), 0.0)
    known = np.maximum(count, 1)
    bounds = np.where(count > 0, right / known - np.sqrt(log / known), 0.0)
    grown = np.maximum.accumulate(bounds, axis=1)
    return np.maximum(0.0, grown[every, here])
