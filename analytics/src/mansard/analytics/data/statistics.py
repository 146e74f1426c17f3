"""Quantiles of Student's distribution, without the time that SciPy needs to be imported."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

CONFIDENCE = 0.95


@cache
def student_quantile(n_free: int, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t with ``n_free`` degrees of freedom, within 1e-6.

    By its distribution (M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions, 26.7.3
    and 26.7.4); from 100 on by its expansion in 1/n, 26.7.5.
    """
    if n_free >= 100:
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        )
        return z + math.fsum(term / n_free**power for power, term in enumerate(terms, 1))
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / √n
    for _ in range(60):
        middle = (low + high) / 2
        is_less = _share_within(middle, n_free) < confidence
        low, high = (middle, high) if is_less else (low, middle)
    return math.sqrt(n_free) * math.tan(low)


def _share_within(angle: float, n_free: int) -> float:
    """The share of Student's distribution between ± √n · tan(angle)."""
    cosine = math.cos(angle)
    is_odd = n_free % 2 == 1
    term, total = cosine if is_odd else 1.0, 0.0
    for power in range(int(is_odd), n_free - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if is_odd else total
