"""Non-negative least squares with the uncertainty of each coefficient; NumPy alone.

SciPy has a solver too, and importing it takes 0.3 s: a third of a whole ``mansard recommend``. The
method is the same, NNLS of C. L. Lawson and R. J. Hanson, Solving Least Squares Problems, 1974,
chapter 23: columns enter one at a time, the one downhill most steeply first, and leave where they
turn negative. It starts from the columns that are positive without the constraint, as R. Bro and
S. de Jong, A fast non-negativity-constrained least squares algorithm, 1997.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.data.statistics import student_quantile

Array = NDArray[np.float64]

_MOST_STEPS = 30  # of the solver, for each column; it seldom takes one
_ROUNDING = 1e-10  # gradients and coefficients below it, of columns of length 1, are rounding
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


def solve_non_negative(rows: Array, wanted: Array, least_scatter: float = 0.0) -> Solution:
    """The x ≥ 0 with the least squared error of ``rows @ x - wanted``.

    Intervals are those of linear regression, from the scatter of the residuals and Student's
    t: equal errors in all rows are assumed, so weight them beforehand. ``least_scatter``: the
    standard deviation of an error that the rows have in any case. No column of ``rows`` is of
    zeros alone.
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
        scatter = max(float(residuals @ residuals) / n_free, least_scatter**2)
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
    unit, goal = rows / scale, wanted / size
    is_in = (length > 0) & (_free(unit, goal) > 0)
    found = _step_back(unit, goal, np.zeros(len(scale)), is_in)
    is_refused = np.zeros(len(scale), dtype=bool)
    for _ in range(_MOST_STEPS * len(scale)):
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
    """The best solution of the columns ``is_in``, from which those that turn negative go out."""
    while True:
        trial = np.zeros_like(found)
        trial[is_in] = _free(unit[:, is_in], wanted)
        is_low = is_in & (trial <= 0)
        if not is_low.any():
            return trial
        # As far from the last solution towards the new one as all stay at or above 0.
        shares = found[is_low] / np.maximum(found[is_low] - trial[is_low], np.finfo(float).tiny)
        found = found + float(shares.min()) * (trial - found)
        is_in &= (found > _ROUNDING) | (trial > 0)
        found = np.where(is_in, np.maximum(found, 0.0), 0.0)


def _free(rows: Array, wanted: Array) -> Array:
    """The least squared error without the constraint, the shortest of several solutions."""
    return np.asarray(np.linalg.lstsq(rows, wanted, rcond=None)[0], dtype=np.float64)
