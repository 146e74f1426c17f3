"""Intervals by drawing the samples again: the bootstrap, of counts.

What a rule reaches depends on how many samples are of each kind alone: offloaded or kept, the
local answer right or wrong, the remote one right, wrong or not recorded. n samples drawn again with
replacement fall into the kinds as a multinomial of the shares (B. Efron, R. Tibshirani, An
introduction to the bootstrap, 1993, chapter 6): drawing the counts is the same, for every threshold
at once, and takes no longer for a million samples.

Where every draw is alike (no sample was wrong, or none offloaded) it says nothing. There the
interval is Wilson's (E. B. Wilson, Journal of the American Statistical Association 22, 1927), which
bounds a share that was never seen as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.data.accuracies import wilson_ends
from mansard.analytics.hierarchical.records import Rule
from mansard.analytics.hierarchical.samples import RIGHT, UNANSWERED, WRONG, Array, Samples

DRAWS = 2000
_KEPT, _OFFLOADED = 0, 1
_REMOTE = (RIGHT, WRONG, UNANSWERED)  # the last axis of a table


def kind_counts(samples: Samples, confidence: Array, thresholds: Array) -> NDArray[np.int64]:
    """Counts of kinds for each of ``thresholds``, ascending: thresholds × 2 × 2 × 3.

    The axes: kept or offloaded; the local answer wrong or right; the remote answer as ``_REMOTE``.
    """
    remote = np.select([samples.remote == each for each in _REMOTE], [0, 1, 2])
    code = samples.local.astype(np.int64) * 3 + remote
    n = len(thresholds)
    # A sample is offloaded by every threshold above its confidence.
    first = np.searchsorted(thresholds, confidence, side="right")
    by_first = np.bincount(first * 6 + code, minlength=6 * (n + 1)).reshape(n + 1, 6)
    offloaded = np.cumsum(by_first[:n], axis=0)
    kept = by_first.sum(axis=0) - offloaded
    return np.stack([kept, offloaded], axis=1).reshape(n, 2, 2, 3)


@dataclass(frozen=True, eq=False)
class Reached:
    """What rules reach; arrays of any one shape, the last axes of a table taken away."""

    share: Array
    accuracy_least: Array
    accuracy_most: Array
    kept_wrong: Array

    def cost(self, offload_cost: float) -> Array:
        """The mean of 1{kept and wrong} + β·1{offloaded}."""
        return np.asarray(self.kept_wrong + offload_cost * self.share)


def reached(table: NDArray[np.int64], rule: Rule, share: Array | None = None) -> Reached:
    """What ``rule`` reaches of counts of kinds (… × 2 × 2 × 3).

    The baselines ignore which samples the table offloads; a random offload takes ``share``.
    """
    n = table.sum(axis=(-3, -2, -1))
    local_right = table[..., :, 1, :].sum(axis=(-2, -1)) / n
    remote_right = table[..., 0].sum(axis=(-2, -1)) / n
    unanswered = table[..., 2].sum(axis=(-2, -1)) / n
    if rule in {"never", "always", "random"}:
        taken = {"never": np.zeros_like(n, float), "always": np.ones_like(n, float)}.get(rule)
        of_table = table[..., _OFFLOADED, :, :].sum(axis=(-2, -1)) / n
        taken = taken if taken is not None else of_table if share is None else share
        least = (1 - taken) * local_right + taken * remote_right
        kept_wrong = (1 - taken) * (1 - local_right)
        share = np.broadcast_to(taken, n.shape)
        return Reached(share, least, least + taken * unanswered, kept_wrong)
    kept_right = table[..., _KEPT, 1, :].sum(axis=-1)
    kept_wrong = table[..., _KEPT, 0, :].sum(axis=-1)
    offloaded = table[..., _OFFLOADED, :, :]
    right = kept_right + offloaded[..., 0].sum(axis=-1)
    most = right + offloaded[..., 2].sum(axis=-1)
    share_now = offloaded.sum(axis=(-2, -1)) / n
    return Reached(share_now, right / n, most / n, kept_wrong / n)


def draw(table: NDArray[np.int64], n_draws: int, seed: int) -> NDArray[np.int64]:
    """Tables of samples drawn again: draws × the shape of ``table``."""
    flat = table.reshape(*table.shape[:-3], 12)
    n = int(flat.reshape(-1, 12)[0].sum())
    drawn = np.random.default_rng(seed).multinomial(n, flat / n, size=(n_draws, *flat.shape[:-1]))
    return drawn.reshape(n_draws, *table.shape)


def ends(draws: Array, probability: float = 0.975) -> tuple[Array, Array]:
    """What is above with ``probability``, and what is below with it, over the first axis."""
    low, high = np.quantile(draws, (1 - probability, probability), axis=0)
    return np.asarray(low), np.asarray(high)


def share_ends(draws: Array, n: int, probability: float = 0.975) -> tuple[Array, Array]:
    """``ends`` of a share of ``n`` samples; Wilson's where every draw is alike."""
    low, high = ends(draws, probability)
    is_alike = draws.min(axis=0) == draws.max(axis=0)
    by_wilson = wilson_ends(np.where(is_alike, draws[0], 0.0), n, NormalDist().inv_cdf(probability))
    return np.where(is_alike, by_wilson[0], low), np.where(is_alike, by_wilson[1], high)
