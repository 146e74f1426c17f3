"""Weights of terms from few measurements, the form chosen by leaving out what is then predicted.

Errors are relative: each equation is divided by what was measured, as a clock or a meter errs by
a share of what it reads. The uncertainty of a prediction is that of linear regression with a
weak prior: scatter² · (1 + φ·A⁻¹·φ), with A = ΦᵀΦ + ridge over the rows that were measured
(C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mansard.analytics.energy.least_squares import solve_active_set, student_quantile
from mansard.analytics.scaling.network_terms import Array, Basis, evaluate

FEWEST_MODES = 3  # fewer leave nothing to test a form on
PRIOR_SCATTER = 0.02  # of a time or a power, before measurements tell; a choice
LEAST_SCATTER = 1e-4  # no clock and no meter is better
_MOST_FOLDS = 20  # from so many modes on several are left out at once
_DIGITS = 9


@dataclass(frozen=True, eq=False)
class TermFit:
    """Weights of the terms of ``basis``; value = ``level`` · terms @ ``weights``.

    ``left_out``: the natural logarithms of predicted over measured when a mode is left out, by
    the form that was chosen. ``scatter``: their root mean square. ``inverse``: A⁻¹.
    """

    form: str
    basis: Basis
    weights: Array
    level: float  # seconds or watts: the geometric mean of what was measured
    left_out: Array
    scatter: float
    inverse: Array

    @property
    def n_modes(self) -> int:
        """How many modes it was fitted on."""
        return int(self.left_out.size)

    @property
    def error(self) -> float:
        """Median relative error when a mode is left out."""
        return float(np.median(np.abs(np.expm1(self.left_out))))

    @property
    def quantile(self) -> float:
        """Half width of a 95 % interval in standard deviations."""
        return student_quantile(max(1, self.n_modes - 1))


def fit_terms(forms: Mapping[str, tuple[Basis, Array]], measured: Array) -> TermFit:
    """The form whose left-out modes are predicted best; the first of equals.

    ``forms``: by name, a basis and its terms in the measured modes, without NaN. ``measured``:
    positive, at least FEWEST_MODES.
    """
    level = float(np.exp(np.log(measured).mean()))
    wanted = measured / level
    tried = {form: _left_out(terms / wanted[:, None]) for form, (_, terms) in forms.items()}
    # Rounded, so that forms that say the same are equal on every machine.
    form = min(tried, key=lambda name: round(_spread(tried[name]), _DIGITS))
    left_out, (basis, terms) = tried[form], forms[form]
    rows = terms / wanted[:, None]
    scatter = max(LEAST_SCATTER, _spread(left_out))
    inverse = information_inverse(rows, scatter)
    weights = solve_active_set(rows, np.ones(len(wanted)))
    return TermFit(form, basis, weights, level, left_out, scatter, inverse)


def information_inverse(rows: Array, scatter: float) -> Array:
    """A⁻¹ of relative rows (modes × terms): the covariance of the weights over scatter².

    Before any row the weights, together about 1, are as uncertain as that: 1 over their number
    each, and so the ridge is their number times scatter².
    """
    n_terms = rows.shape[1]
    ridge = n_terms * scatter**2 * np.eye(n_terms)
    inverse: Array = np.linalg.inv(rows.T @ rows + ridge)
    return inverse


def leverage(rows: Array, inverse: Array) -> Array:
    """φ·A⁻¹·φ of each relative row: the variance of its prediction over scatter²."""
    return np.asarray(((rows @ inverse) * rows).sum(axis=1), dtype=np.float64)


def estimate(
    fit: TermFit, values: Mapping[str, Array], rate: Array | None = None
) -> tuple[Array, Array]:
    """Predicted values, and the standard deviation of their logarithms; NaN where unknown."""
    terms = evaluate(fit.basis, values, rate)
    relative = terms @ fit.weights
    relative = np.where(relative > 0, relative, np.nan)
    variance = 1 + leverage(terms / relative[:, None], fit.inverse)
    return fit.level * relative, fit.scatter * np.sqrt(variance)


def _spread(left_out: Array) -> float:
    return float(np.sqrt((left_out**2).mean()))


def _left_out(rows: Array) -> Array:
    """log(predicted / measured) of each mode, by a fit that has not seen it."""
    n_modes = len(rows)
    n_folds = min(n_modes, _MOST_FOLDS)
    errors = np.zeros(n_modes)
    for fold in range(n_folds):
        is_out = np.arange(n_modes) % n_folds == fold
        weights = solve_active_set(rows[~is_out], np.ones(int((~is_out).sum())))
        # A form that predicts nothing there is as wrong as can be, but not infinitely.
        errors[is_out] = np.log(np.maximum(rows[is_out] @ weights, 1e-3))
    return errors
