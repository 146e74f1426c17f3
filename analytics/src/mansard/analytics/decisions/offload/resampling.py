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

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.data.accuracies import wilson_ends
from mansard.analytics.decisions.offload.records import BASELINES, Rule
from mansard.analytics.decisions.offload.samples import RIGHT, UNANSWERED, WRONG, Array, Samples
from mansard.analytics.decisions.offload.thresholds import Reached

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
