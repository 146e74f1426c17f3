"""Non-negative least squares with the uncertainty of each coefficient; NumPy alone.

The solver is the active-set method NNLS of C. L. Lawson and R. J. Hanson, Solving Least Squares
Problems, 1974, chapter 23: columns enter one at a time, the one downhill most steeply first, and
leave where they turn negative. At the end the positive coefficients solve the unconstrained
problem of their columns, and no other column would lower the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CONFIDENCE = 0.95
# Gradients and coefficients below it, of columns of length 1, are rounding.
_ROUNDING = 1e-10
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
    t: equal errors in all rows are assumed, so weight them beforehand. No column of ``rows``
    is of zeros alone.
    """
    scale = np.linalg.norm(rows, axis=0)
    unit = rows / scale  # columns of flops and of seconds differ by twelve orders of magnitude
    free = _free(unit, wanted)
    values = free if (free >= 0).all() else solve_active_set(unit, wanted)
    residuals = unit @ values - wanted
    _, singular, right = np.linalg.svd(unit, full_matrices=len(unit) < unit.shape[1])
    rank = int((singular > _RANK_SHARE * singular[0]).sum())
    is_hidden = (np.abs(right[rank:]) > _HIDDEN).any(axis=0)
    n_free = len(wanted) - rank
    half = None
    if n_free > 0:
        variance = ((right[:rank] / singular[:rank, None]) ** 2).sum(axis=0)
        scatter = float(residuals @ residuals) / n_free
        half = student_quantile(n_free) * np.sqrt(variance * scatter) / scale
    return Solution(values / scale, free / scale, half, is_hidden, residuals)


def solve_active_set(rows: Array, wanted: Array) -> Array:
    """The x ≥ 0 with the least squared error of ``rows @ x - wanted``.

    ``rows``: equations × columns, finite, as many of each as there are. Columns may be each
    other's multiples: one of the best solutions is returned, always the same one. A column of
    zeros gets 0.
    """
    length, size = np.linalg.norm(rows, axis=0), float(np.linalg.norm(wanted))
    scale = np.where(length > 0, length, 1.0)
    if size == 0 or not rows.shape[1]:
        return np.zeros(rows.shape[1])
    unit, goal = rows / scale, wanted / size
    found = np.zeros(rows.shape[1])
    is_in, is_refused = np.zeros_like(found, dtype=bool), np.zeros_like(found, dtype=bool)
    for _ in range(3 * len(found)):  # Lawson and Hanson's own limit
        gradient = np.where(is_in | is_refused, -np.inf, unit.T @ (goal - unit @ found))
        best = int(gradient.argmax())
        if gradient[best] <= _ROUNDING:
            break
        is_in[best] = True
        found = _step_back(unit, goal, found, is_in)
        # One that goes out at once came in by rounding: another's turn, until the error falls.
        if is_in[best]:
            is_refused[:] = False
        else:
            is_refused[best] = True
    return np.asarray(found * size / scale, dtype=np.float64)


def _step_back(unit: Array, wanted: Array, found: Array, is_in: NDArray[np.bool_]) -> Array:
    """The best solution of the columns that are in; those that turn negative go out again."""
    while True:
        trial = np.zeros_like(found)
        trial[is_in] = _free(unit[:, is_in], wanted)
        is_low = is_in & (trial <= 0)
        if not is_low.any():
            return trial
        # As far from the last solution towards the new one as all stay at or above 0.
        shares = found[is_low] / np.maximum(found[is_low] - trial[is_low], np.finfo(float).tiny)
        found = found + float(shares.min()) * (trial - found)
        is_in &= found > _ROUNDING
        found = np.where(is_in, found, 0.0)


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
