"""Non-negative least squares with the uncertainty of each coefficient; NumPy alone.

With few columns the exact solution is found by trying: where the unconstrained solution is
non-negative it is the answer, else the answer is the best non-negative one among the
unconstrained solutions of every subset of the columns (C. L. Lawson and R. J. Hanson, Solving
Least Squares Problems, 1974, chapter 23: at the optimum the positive coefficients solve the
unconstrained problem of their columns).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_COLUMNS = 14  # 16,383 subsets, a second
CONFIDENCE = 0.95
# Singular values below this share of the largest are rounding: no measurement is that exact.
_RANK_SHARE = 1e-9
_HIDDEN = 1e-6  # a column with so much of itself in the null space has no value of its own


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients, half widths of their 95 % intervals about ``free``, and residuals.

    ``free`` is the solution without the constraint, about which the errors are symmetric.
    ``is_hidden`` marks columns that others can imitate; ``half`` is None without a degree of
    freedom to estimate the scatter from.
    """

    values: Array
    free: Array
    half: Array | None
    is_hidden: NDArray[np.bool_]
    residuals: Array


def solve_non_negative(rows: Array, wanted: Array) -> Solution:
    """The x ≥ 0 with the least squared error of ``rows @ x - wanted``.

    Intervals are those of linear regression, from the scatter of the residuals and Student's
    t: equal errors in all rows are assumed, so weight them beforehand. ``rows`` has at most
    MOST_COLUMNS columns, none of zeros alone.
    """
    scale = np.linalg.norm(rows, axis=0)
    unit = rows / scale  # columns of flops and of seconds differ by twelve orders of magnitude
    free = _free(unit, wanted)
    values = free if (free >= 0).all() else _best_subset(unit, wanted)
    residuals = unit @ values - wanted
    _, singular, right = np.linalg.svd(unit, full_matrices=True)
    rank = int((singular > _RANK_SHARE * singular[0]).sum())
    is_hidden = (np.abs(right[rank:]) > _HIDDEN).any(axis=0)
    n_free = len(wanted) - rank
    half = None
    if n_free > 0:
        variance = ((right[:rank] / singular[:rank, None]) ** 2).sum(axis=0)
        scatter = float(residuals @ residuals) / n_free
        half = student_quantile(n_free) * np.sqrt(variance * scatter) / scale
    return Solution(values / scale, free / scale, half, is_hidden, residuals)


def student_quantile(n_free: int, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t with ``n_free`` degrees of freedom.

    Exact for 1 and 2, else the expansion in 1/n of Abramowitz and Stegun, 26.7.5, within
    0.1 % from 3 on.
    """
    if n_free == 1:
        return math.tan(math.pi * confidence / 2)
    if n_free == 2:
        return confidence * math.sqrt(2 / (1 - confidence**2))
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / n_free**power for power, term in enumerate(terms, 1))


def _free(rows: Array, wanted: Array) -> Array:
    return np.asarray(np.linalg.lstsq(rows, wanted, rcond=_RANK_SHARE)[0], dtype=np.float64)


def _best_subset(rows: Array, wanted: Array) -> Array:
    n_columns = rows.shape[1]
    best, least = np.zeros(n_columns), float(wanted @ wanted)
    for n_active in range(1, n_columns + 1):
        for active in combinations(range(n_columns), n_active):
            columns = list(active)
            found = _free(rows[:, columns], wanted)
            if (found < 0).any():
                continue
            errors = rows[:, columns] @ found - wanted
            if float(errors @ errors) < least:
                least = float(errors @ errors)
                best = np.zeros(n_columns)
                best[columns] = found
    return best
