"""The height of a plateau and its interval, from repetitions that ran in blocks.

Repetitions inside one block share whatever disturbed the machine then, so they are
not independent: the median of each block is one observation. The noise of a shared
machine is one-sided and long-tailed, hence medians and no normal theory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

N_RESAMPLES = 2000
CONFIDENCE = 0.95
# Two observations cannot show their own spread: an interval from them would be
# narrow by accident half of the time.
MIN_BLOCKS = 3
SEED = 20090401  # fixed, so that the same rows always give the same interval

Rates = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A median with its 95 % interval, in the unit of the observations.

    ``low`` and ``high`` are None where there are fewer than MIN_BLOCKS blocks.
    """

    value: float
    low: float | None
    high: float | None
    n_blocks: int


def members(groups: Sequence[Rates], tolerance: float) -> list[int]:
    """Which groups stand on the plateau: median within ``tolerance`` of the best median."""
    medians = [float(np.median(group)) for group in groups]
    floor = max(medians) * (1.0 - tolerance)
    return [at for at, median in enumerate(medians) if median >= floor]


def estimate(groups: Sequence[Rates]) -> Estimate:
    """The median over all blocks of all groups, with a two-stage bootstrap interval.

    A group is one trial, its elements the rates of its blocks. Each resample draws
    trials with replacement, then blocks within each drawn trial, so that scatter
    between trials widens the interval as much as scatter between blocks does.
    Groups must not be empty. The order of groups does not matter: they are sorted.
    """
    ordered = sorted((np.sort(group) for group in groups), key=tuple)
    pooled = np.concatenate(ordered)
    value = float(np.median(pooled))
    if len(pooled) < MIN_BLOCKS:
        return Estimate(value, None, None, len(pooled))
    medians = _resample(ordered)
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(medians, [tail, 1.0 - tail])
    return Estimate(value, min(float(low), value), max(float(high), value), len(pooled))


def _resample(groups: Sequence[Rates]) -> Rates:
    random = np.random.default_rng(SEED)
    n_groups, n_draws = len(groups), max(len(group) for group in groups)
    lengths = np.array([len(group) for group in groups])
    table = np.zeros((n_groups, n_draws))
    for at, group in enumerate(groups):
        table[at, : len(group)] = group
    chosen = random.integers(n_groups, size=(N_RESAMPLES, n_groups, 1))
    position = random.random((N_RESAMPLES, n_groups, n_draws)) * lengths[chosen]
    drawn = table[chosen, position.astype(np.int64)]
    medians: Rates = np.median(drawn.reshape(N_RESAMPLES, -1), axis=1)
    return medians
