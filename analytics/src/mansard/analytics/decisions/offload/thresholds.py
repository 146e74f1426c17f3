"""Every threshold at once: one sort, cumulative sums, and no cut between equal confidences.

A rule gives each sample a confidence s and offloads where s < θ. Sorted by s, a threshold is a
cut: the k least confident samples are offloaded, the others kept. With c local answers that are
right in all, c(k) of them among the first k, and r(k) remote answers that are right among them,

    accuracy = (c − c(k) + r(k)) / n,   share = k / n,   cost = (w − w(k) + β·k) / n

with w local answers that are wrong. All counts are integers, so every threshold is exact. Equal
confidences go the same way: only cuts between different ones are thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decisions.offload.samples import RIGHT, UNANSWERED, WRONG, Array, Samples

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Reached:
    """What a rule reaches on ``n`` samples; arrays of one shape, an element for each threshold.

    ``accuracy_least`` and ``accuracy_most``: as if every answer that was not recorded were wrong,
    or right. ``kept_wrong``: the share that is kept and wrong.
    """

    n: int
    share: Array
    accuracy_least: Array
    accuracy_most: Array
    kept_wrong: Array

    def cost(self, offload_cost: float) -> Array:
        """The mean of 1{kept and wrong} + β·1{offloaded}."""
        return np.asarray(self.kept_wrong + offload_cost * self.share)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep(Reached):
    """Every threshold, from 0, which offloads none, to just above 1, which offloads all.

    ``n_right``: kept or offloaded; ``n_unanswered``: offloaded, without a recorded answer.
    """

    threshold: Array
    n_offloaded: Counts
    n_right: Counts
    n_unanswered: Counts


def sweep(samples: Samples, confidence: Array) -> Sweep:
    """Every threshold on ``confidence``, a number from 0 to 1 a sample; n log n steps."""
    order = np.argsort(confidence)
    ordered = confidence[order]
    n = len(ordered)
    is_cut = np.ones(n + 1, dtype=bool)
    is_cut[1:n] = ordered[1:] != ordered[:-1]
    cuts = np.flatnonzero(is_cut)
    local, remote = samples.local[order], samples.remote[order]
    kept_right = _before(local == RIGHT, cuts)
    kept_wrong = _before(local == WRONG, cuts)
    n_right = kept_right[-1] - kept_right + _before(remote == RIGHT, cuts)
    n_unanswered = _before(remote == UNANSWERED, cuts)
    threshold = np.append(ordered[cuts[:-1]], np.nextafter(1.0, 2.0))
    threshold[0] = 0.0
    return Sweep(
        n=n,
        threshold=threshold,
        n_offloaded=cuts,
        n_right=n_right,
        n_unanswered=n_unanswered,
        share=cuts / n,
        accuracy_least=n_right / n,
        accuracy_most=(n_right + n_unanswered) / n,
        kept_wrong=(kept_wrong[-1] - kept_wrong) / n,
    )


def _before(is_so: NDArray[np.bool_], cuts: Counts) -> Counts:
    """How many of the samples before each cut are so."""
    sums = np.zeros(len(is_so) + 1, dtype=np.int64)
    np.cumsum(is_so, out=sums[1:])
    return sums[cuts]


def thinned(one: Sweep, n_most: int) -> Counts:
    """Indices of at most ``n_most`` thresholds, evenly apart in the share, both ends included."""
    n = len(one.threshold)
    if n <= n_most:
        return np.arange(n)
    wanted = np.linspace(0, one.n, n_most)
    at = np.searchsorted(one.n_offloaded, wanted, side="left")
    return np.unique(np.clip(at, 0, n - 1))
