"""Every threshold at once: one sort, cumulative sums, and no cut between equal confidences.

A rule gives each sample a confidence s and offloads where s < θ. Sorted by s, a threshold is a
cut: the k least confident samples are offloaded, the others kept. With c local answers that are
right in all, c(k) of them among the first k, and r(k) remote answers that are right among them,

    accuracy = (c − c(k) + r(k)) / n,   share = k / n,   cost = (w − w(k) + β·k) / n

with w local answers that are wrong. All counts are integers, so every threshold is exact. Equal
confidences go the same way: only cuts between different ones are thresholds.

Intervals are those of the bootstrap, of counts. What a rule reaches depends on how many samples are
of each kind alone: offloaded or kept, the local answer right or wrong, the remote one right, wrong
or not recorded. n samples drawn again with replacement fall into the kinds as a multinomial of the
shares (B. Efron, R. Tibshirani, An introduction to the bootstrap, 1993, chapter 6): drawing the
counts is the same, for every threshold at once, and takes no longer for a million samples.

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
from mansard.analytics.decisions.offload.records import BASELINES, Rule
from mansard.analytics.decisions.offload.samples import (
    RIGHT,
    UNANSWERED,
    WRONG,
    Array,
    LabelledSamples,
)

DRAWS = 2000
_KEPT, _OFFLOADED = 0, 1
_REMOTE = (RIGHT, WRONG, UNANSWERED)  # the last axis of a table


def kind_counts(
    samples: LabelledSamples, confidence: Array, thresholds: Array
) -> NDArray[np.int64]:
    """Counts of kinds for each of ``thresholds``, ascending: thresholds × 2 × 2 × 3.

    The axes: kept or offloaded; the local answer wrong or right; the remote answer as ``_REMOTE``.
    """
    remote = np.select([samples.remote == answer for answer in _REMOTE], [0, 1, 2])
    code = samples.local.astype(np.int64) * 3 + remote
    n = len(thresholds)
    # A sample is offloaded by every threshold above its confidence.
    first = np.searchsorted(thresholds, confidence, side="right")
    by_first = np.bincount(first * 6 + code, minlength=6 * (n + 1)).reshape(n + 1, 6)
    offloaded = np.cumsum(by_first[:n], axis=0)
    retained = by_first.sum(axis=0) - offloaded
    return np.stack([retained, offloaded], axis=1).reshape(n, 2, 2, 3)


def reached(table: NDArray[np.int64], rule: Rule, share: Array | None = None) -> Reached:
    """What ``rule`` reaches of counts of kinds (… × 2 × 2 × 3).

    The baselines ignore which samples the table offloads; a random offload takes ``share``.
    """
    n = int(table.reshape(-1, 12)[0].sum())
    offloaded = table[..., _OFFLOADED, :, :]
    share_of_table = offloaded.sum(axis=(-2, -1)) / n
    if rule in BASELINES:
        fixed = {"never": np.zeros_like(share_of_table), "always": np.ones_like(share_of_table)}
        taken = np.broadcast_to(
            fixed.get(rule, share_of_table if share is None else share), share_of_table.shape
        )
        local_wrong, local_right = (
            table[..., :, is_right, :].sum(axis=(-2, -1)) / n for is_right in (0, 1)
        )
        remote_right, unanswered = (table[..., answer].sum(axis=(-2, -1)) / n for answer in (0, 2))
        least = (1 - taken) * local_right + taken * remote_right
        return Reached(
            n=n,
            share=taken,
            accuracy_least=least,
            accuracy_most=least + taken * unanswered,
            kept_wrong=(1 - taken) * local_wrong,
        )
    kept_wrong, kept_right = (table[..., _KEPT, is_right, :].sum(axis=-1) for is_right in (0, 1))
    right = kept_right + offloaded[..., 0].sum(axis=-1)
    most = right + offloaded[..., 2].sum(axis=-1)
    return Reached(
        n=n,
        share=share_of_table,
        accuracy_least=right / n,
        accuracy_most=most / n,
        kept_wrong=kept_wrong / n,
    )


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


def sweep(samples: LabelledSamples, confidence: Array) -> Sweep:
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
    """The number of such samples before each cut."""
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
