"""Least absolute errors under x ≥ 0, and what leaving one network out does to the answer.

The median of errors is not moved by a few groups whose clock fell while they were timed; their
mean square is. So absolute errors are added up, by least squares over and over, each equation
divided by the square root of its error before (iteratively reweighted least squares: P. Bloomfield
and W. L. Steiger, Least Absolute Deviations, 1983, chapter 6).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.energy.least_squares import solve_active_set, student_quantile

Array = NDArray[np.float64]

_N_ROUNDS = 30
_SETTLED = 1e-4  # relative change of the answer from which on it stays as it is
_SMALLEST = 1e-5  # errors below it, as a share of ``scale``, count alike: none divides by 0
_LEAST_NETWORKS = 3  # to tell how much they differ


def least_absolute(rows: Array, wanted: Array, scale: Array) -> Array:
    """The x ≥ 0 with the least sum of |rows @ x - wanted| / scale.

    ``rows``: equations × columns, finite; ``scale`` is above 0. A column of zeros gets 0.
    """
    both = np.column_stack([rows, wanted])
    weight = scale
    found = np.zeros(rows.shape[1])
    for _ in range(_N_ROUNDS):
        before = found
        found = _least_squares(both / weight[:, None])
        if np.abs(found - before).max(initial=0.0) <= _SETTLED * np.abs(found).max(initial=0.0):
            break
        error = np.abs(rows @ found - wanted) / scale
        weight = scale * np.sqrt(np.maximum(error, _SMALLEST))
    return found


def _least_squares(both: Array) -> Array:
    """As ``solve_active_set``, of as few equations as there are columns; the last is wanted.

    With V Λ Vᵀ the products of the columns with each other, Λ^½ Vᵀ has the same ones, and so the
    same solution. Columns of length 1 keep half of the digits.
    """
    products = both.T @ both
    length = np.sqrt(np.diag(products))
    unit = np.where(length > 0, length, 1.0)
    values, vectors = np.linalg.eigh(products / np.outer(unit, unit))
    few = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T * length
    return solve_active_set(few[:, :-1], few[:, -1])


def jackknife_half(without: Array) -> Array | None:
    """Half widths of 95 % intervals from the answers with one network left out at a time.

    ``without``: networks × columns; NaN where a column was only in the network left out: its
    half width is NaN. None with fewer than three networks. (Quenouille and Tukey's standard error,
    B. Efron, The jackknife, the bootstrap and other resampling plans, 1982, chapter 3.)
    """
    n_networks = len(without)
    if n_networks < _LEAST_NETWORKS:
        return None
    spread = ((without - without.mean(axis=0)) ** 2).sum(axis=0)
    error = np.sqrt(spread * (n_networks - 1) / n_networks)
    return np.asarray(student_quantile(n_networks - 1) * error, dtype=np.float64)
