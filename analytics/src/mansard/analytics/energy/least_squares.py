"""Non-negative least squares with the uncertainty of each coefficient.

The solver is SciPy's, the active-set method NNLS of C. L. Lawson and R. J. Hanson, Solving Least
Squares Problems, 1974, chapter 23.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import stdtrit

Array = NDArray[np.float64]

CONFIDENCE = 0.95
_MOST_STEPS = 30  # of the solver, for each column; it seldom takes one
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
    free = np.asarray(np.linalg.lstsq(unit, wanted, rcond=_RANK_SHARE)[0], dtype=np.float64)
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
    if size == 0 or not length.any():
        return np.zeros(rows.shape[1])
    scale = np.where(length > 0, length, 1.0)
    found, _ = nnls(rows / scale, wanted / size, maxiter=_MOST_STEPS * max(10, len(scale)))
    return np.asarray(found * size / scale, dtype=np.float64)


def student_quantile(n_free: int, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t with ``n_free`` degrees of freedom."""
    return float(stdtrit(n_free, (1 + confidence) / 2))
