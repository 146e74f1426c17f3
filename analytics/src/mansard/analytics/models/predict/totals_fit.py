"""The time of whole networks as a sum: T = a + b · compute + c · memory + d · launches.

compute, memory and launches are what a network spends at the roof; a is what every run of it
costs. The four coefficients are fitted to networks that were measured, all of one mode or of one
device, on the logarithms of their times: errors of totals are relative, and no time is below zero.

With few networks most of it is a prior (docs/understand/calibration.md): the coefficients are
log-normal about a line of the roof's shape, b and c together more than apart, so one network gives
little more than a factor, and each further one frees the line. The fit is the maximum of the
posterior, D. J. C. MacKay, Information Theory, Inference, and Learning Algorithms, 2003, chapters
27 and 28, by Levenberg's and Marquardt's steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PARTS = ("constant", "compute", "memory", "launch")
# The prior, chosen on recorded networks (benchmarks/recorded/calibrations.py): the share of the
# time that each part has before anything is known, how far its logarithm may be off, and how much
# of that compute and memory have in common.
_SHARES = np.array([0.2, 0.4, 0.4, 0.2])
_WIDTHS = np.array([3.0, 2.0, 2.0, 3.0])
_COMMON = 0.8
_OF_MODE = np.array([1.0, 0.5, 0.5, 1.0])  # how far those of one mode may be off those of all
# The same where classes of operators were calibrated layer by layer: the parts are seconds then,
# and the line says what a whole call takes beside its layers (benchmarks/zoo_calibration.py).
_CALL_SHARE = 0.005
_TIMED_WIDTHS = np.array([1.5, 0.2, 0.2, 1.0])
_LEAST_LAUNCH_S = 1e-9
_SPREAD, _SPREAD_COUNT = 0.25, 2.0  # of ln T about the line, and as how many networks it counts
_STEPS, _ROUNDS = 60, 4
_CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class TotalsFit:
    """ln of the coefficients of PARTS, their ``covariance``, the ``variance`` of ln T beside it."""

    log_coefficients: Array
    covariance: Array
    variance: float

    def coefficient(self, part: str, n_deviations: float) -> float:
        """Of one of PARTS, so many standard deviations from its most likely value."""
        at = PARTS.index(part)
        deviation = float(np.sqrt(self.covariance[at, at]))
        return float(np.exp(self.log_coefficients[at] + n_deviations * deviation))

    def seconds(self, parts: Array) -> Array:
        """Of networks with these ``parts`` (networks × PARTS)."""
        return np.asarray(parts @ np.exp(self.log_coefficients), dtype=np.float64)

    def deviation(self, parts: Array) -> Array:
        """The standard deviation of ln T of a network that was not measured."""
        shares = _shares(parts, self.log_coefficients)
        of_line = np.einsum("ij,jk,ik->i", shares, self.covariance, shares)
        return np.asarray(np.sqrt(of_line + self.variance), dtype=np.float64)


def fit_totals(
    parts: Array,
    measured_s: Array,
    weights: Array,
    *,
    launch_s: float | None = None,
    all_modes: TotalsFit | None = None,
    start: TotalsFit | None = None,
) -> TotalsFit:
    """The most likely line through ``measured_s`` of ``parts`` (rows × PARTS), s; at least one.

    ``weights``: how much of a network a row is, so that one with many batches counts little more
    than one. ``launch_s``: what a launch takes by timed layers, where the other parts are seconds
    by these too. ``all_modes``: the line of all modes, about which that of one mode lies.
    ``start``: a line that is near.
    """
    log_s = np.log(measured_s)
    if all_modes is None:
        middle, covariance = (
            _prior(parts, log_s, weights)
            if launch_s is None
            else _timed_prior(log_s, weights, launch_s)
        )
        spread = _SPREAD**2
    else:
        middle, spread = all_modes.log_coefficients, all_modes.variance
        covariance = all_modes.covariance + np.diag(_OF_MODE**2)
    precision = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
    log_found = middle if start is None else start.log_coefficients
    variance = spread if start is None else start.variance
    for _ in range(_ROUNDS):
        log_found, hessian, residuals = _climb(
            log_found, parts, log_s, weights / variance, middle, precision
        )
        shares = _shares(parts, log_found)
        data = (shares.T * weights) @ shares / variance
        n_free = weights.sum() - np.trace(np.linalg.solve(hessian, data))
        scatter = float(weights @ residuals**2)
        last = variance
        variance = (_SPREAD_COUNT * spread + scatter) / (_SPREAD_COUNT + max(0.0, n_free))
        if abs(variance - last) < 1e-3 * last:
            break
    found = np.asarray(np.linalg.inv(hessian), dtype=np.float64)
    return TotalsFit(log_found, found, variance)


def _prior(parts: Array, log_s: Array, weights: Array) -> tuple[Array, Array]:
    """The middle of ln of the coefficients, and their covariance, before anything is measured."""

    def level(column: Array) -> float:
        known = column > 0
        if not known.any():
            return 0.0
        return float(np.average(log_s[known] - np.log(column[known]), weights=weights[known]))

    roof = level(parts[:, 1] + parts[:, 2])
    levels = np.array([level(parts[:, 0]), roof, roof, level(parts[:, 3])])
    used = (parts > 0).any(axis=0)
    covariance = np.diag(_WIDTHS**2)
    covariance[1, 2] = covariance[2, 1] = _COMMON * _WIDTHS[1] * _WIDTHS[2]
    return levels + np.log(_SHARES / _SHARES[used].sum()), covariance


def _timed_prior(log_s: Array, weights: Array, launch_s: float) -> tuple[Array, Array]:
    """As ``_prior``, where timed layers say what each part takes."""
    call = float(np.average(log_s, weights=weights)) + np.log(_CALL_SHARE)
    middle = np.array([call, 0.0, 0.0, np.log(max(launch_s, _LEAST_LAUNCH_S))])
    return middle, np.diag(_TIMED_WIDTHS**2)


def _shares(parts: Array, log_coefficients: Array) -> Array:
    """How much of each row's time is of each part: the derivative of ln T."""
    spent = parts * np.exp(log_coefficients)
    return np.asarray(spent / spent.sum(axis=1, keepdims=True), dtype=np.float64)


def _climb(
    log_found: Array,
    parts: Array,
    log_s: Array,
    weights: Array,
    middle: Array,
    precision: Array,
) -> tuple[Array, Array, Array]:
    """Where the posterior is highest, its curvature there, and ln measured / fitted."""

    def residuals_at(point: Array) -> Array:
        return np.asarray(log_s - np.log(parts @ np.exp(point)), dtype=np.float64)

    def cost_at(point: Array, residuals: Array) -> float:
        away = point - middle
        return float(weights @ residuals**2 + away @ precision @ away)

    residuals = residuals_at(log_found)
    cost, damping = cost_at(log_found, residuals), 1e-3
    for _ in range(_STEPS):
        shares = _shares(parts, log_found)
        hessian = (shares.T * weights) @ shares + precision
        slope = shares.T @ (weights * residuals) - precision @ (log_found - middle)
        step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), slope)
        moved = residuals_at(log_found + step)
        new = cost_at(log_found + step, moved)
        if new > cost:
            damping *= 5
            if damping > 1e9:
                break
            continue
        is_there = cost - new < _CLOSE * (1 + cost)
        log_found, residuals, cost = log_found + step, moved, new
        damping = max(damping / 5, 1e-9)
        if is_there:
            break
    shares = _shares(parts, log_found)
    return log_found, (shares.T * weights) @ shares + precision, residuals
