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

from mansard.analytics.hierarchical.samples import RIGHT, UNANSWERED, WRONG, Array, Samples

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sweep:
    """Arrays with an element for each threshold, from none offloaded to all.

    ``threshold``: the confidence below which is offloaded; the last is just above the largest.
    ``n_right``: kept or offloaded; ``n_unanswered``: offloaded, without a recorded answer.
    """

    n: int
    threshold: Array
    n_offloaded: Counts
    n_right: Counts
    n_unanswered: Counts
    n_kept_wrong: Counts

    @property
    def share(self) -> Array:
        """Of samples that are offloaded."""
        return np.asarray(self.n_offloaded / self.n)

    @property
    def accuracy_least(self) -> Array:
        """As if every answer that was not recorded were wrong."""
        return np.asarray(self.n_right / self.n)

    @property
    def accuracy_most(self) -> Array:
        """As if every answer that was not recorded were right."""
        return np.asarray((self.n_right + self.n_unanswered) / self.n)

    def cost(self, offload_cost: float) -> Array:
        """The mean of 1{kept and wrong} + β·1{offloaded}."""
        return np.asarray((self.n_kept_wrong + offload_cost * self.n_offloaded) / self.n)

    def index(self, threshold: float) -> int:
        """Where the threshold stands that offloads the same samples as any ``threshold``."""
        at = int(np.searchsorted(self.threshold, threshold, side="left"))
        return min(at, len(self.threshold) - 1)


def sweep(samples: Samples, confidence: Array) -> Sweep:
    """Every threshold on ``confidence``, one finite number a sample; n log n steps."""
    order = np.argsort(confidence)
    ordered = confidence[order]
    n = len(ordered)
    is_cut = np.ones(n + 1, dtype=bool)
    is_cut[1:n] = ordered[1:] != ordered[:-1]
    cuts = np.flatnonzero(is_cut)
    local, remote = samples.local[order], samples.remote[order]
    kept_right = _before(local == RIGHT, cuts)
    kept_wrong = _before(local == WRONG, cuts)
    above = np.nextafter(ordered[-1], np.inf)
    return Sweep(
        n=n,
        threshold=np.append(ordered[cuts[:-1]], above),
        n_offloaded=cuts,
        n_right=kept_right[-1] - kept_right + _before(remote == RIGHT, cuts),
        n_unanswered=_before(remote == UNANSWERED, cuts),
        n_kept_wrong=kept_wrong[-1] - kept_wrong,
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
