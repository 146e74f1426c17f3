"""Whether two sides differ by more than their scatter: a rank test and its correction.

The rates of blocks are compared, trial by trial: blocks of the same trial (kernel, precision,
size) on either side are a stratum. The statistic is van Elteren's: the rank sum of one side in
each stratum, less its expectation, over n + 1 (P. van Elteren, Bulletin of the Institute of
International Statistics 37, 1960); with one stratum it is the Mann-Whitney test. Its
distribution is that of random relabelling inside the strata, so no shape of the noise is
assumed; p counts the observed labels among them (B. Phipson, G. K. Smyth, Statistical
Applications in Genetics and Molecular Biology 9, 2010), and is never 0.

It sees the scatter within the runs alone. A machine that was slower during a whole run differs
significantly: repeat the run to see how much runs differ by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from mansard.analytics.decide.values import Z95, Array

N_RELABELLINGS = 4999
SEED = 19600101
LEVEL = 0.05
Stratum = tuple[Array, Array]
Span = tuple[float, float | None, float | None]  # value, low, high


def rank_test(strata: Sequence[Stratum]) -> float | None:
    """Two-sided p that both sides of all strata are alike.

    None where there are too few blocks for any p below LEVEL, however far apart they are.
    """
    usable = [one for one in strata if len(one[0]) and len(one[1])]
    n_ways = math.prod(math.comb(len(one[0]) + len(one[1]), len(one[0])) for one in usable)
    if 2 / n_ways > LEVEL:
        return None
    random = np.random.default_rng(SEED)
    observed, drawn = 0.0, np.zeros(N_RELABELLINGS)
    for first, second in usable:
        scores = _ranks(np.concatenate([first, second])) / (len(first) + len(second) + 1)
        expected = len(first) / 2
        observed += float(scores[: len(first)].sum()) - expected
        keys = random.random((N_RELABELLINGS, len(scores)))
        chosen = np.argpartition(keys, len(first) - 1, axis=1)[:, : len(first)]
        # Sorted, so that the order of blocks is no matter.
        drawn += np.sort(scores)[chosen].sum(axis=1) - expected
    # Rounding must not tell equal sums apart.
    as_far = int((np.abs(drawn) >= abs(observed) - 1e-9).sum())
    return (as_far + 1) / (N_RELABELLINGS + 1)


def _ranks(values: Array) -> Array:
    """Ranks from 1 on; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse])


def interval_test(first: Span, second: Span) -> float | None:
    """Two-sided p from the 95 % intervals of two values above 0; None where one has none.

    z = |ln(second / first)| over the root of the sum of the squares of the logarithmic half
    widths that face each other, over 1.96.
    """
    ratio = ratio_span(first, second)
    if ratio[1] is None or ratio[2] is None:
        return None
    distance = abs(math.log(ratio[0]))
    end = ratio[1] if ratio[0] > 1 else ratio[2]
    half = abs(math.log(end / ratio[0]))
    if half == 0:
        return 1.0 if distance == 0 else 0.0
    return 2 * (1 - NormalDist().cdf(Z95 * distance / half))


def ratio_span(first: Span, second: Span) -> Span:
    """second / first with its 95 % interval, the errors of both taken as independent.

    Logarithmic half widths add in squares. No interval where a side has none or reaches 0.
    """
    ratio = second[0] / first[0]
    ends = (first[1], first[2], second[1], second[2])
    if any(end is None or end <= 0 for end in ends):
        return ratio, None, None
    low_1, high_1, low_2, high_2 = (float(end) for end in ends if end is not None)
    down = math.hypot(math.log(second[0] / low_2), math.log(high_1 / first[0]))
    up = math.hypot(math.log(high_2 / second[0]), math.log(first[0] / low_1))
    return ratio, ratio * math.exp(-down), ratio * math.exp(up)


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's correction for many tests, in the order given.

    The k-th smallest of n is multiplied by n - k + 1, never falls below the one before, and
    never exceeds 1 (S. Holm, Scandinavian Journal of Statistics 6, 1979).
    """
    corrected = [0.0] * len(ps)
    floor = 0.0
    for place, at in enumerate(sorted(range(len(ps)), key=lambda one: ps[one])):
        floor = max(floor, min(1.0, (len(ps) - place) * ps[at]))
        corrected[at] = floor
    return corrected
