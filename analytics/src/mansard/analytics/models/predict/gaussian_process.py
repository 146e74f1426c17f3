"""A Gaussian process: a smooth function of a few features, with the spread of what it says.

The covariance of two rows is Matérn's with ν = 3/2 of their distance, in which each feature has a
length of its own, and each row has noise:

k(x, x') = s² (1 + √3 r) exp(-√3 r) + n² [x = x'],  r² = Σ ((x - x') / length)²

Lengths, s and n are those of the largest likelihood under log-normal priors, by its gradient: C. E.
Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, equations 2.25,
2.26, 4.17 and 5.9; leave-one-out residuals are their 5.12. The search takes steps by the gradient's
signs alone (M. Riedmiller and H. Braun, A direct adaptive method for faster backpropagation
learning, 1993), which needs no step length that fits every data set. NumPy alone: importing SciPy
takes a third of a whole ``mansard recommend``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_MOST_STEPS = 50
_FIRST_STEP, _LEAST_STEP, _LARGEST_STEP = 0.3, 0.01, 0.8  # of the logarithm of a parameter
_LONGER, _SHORTER = 1.3, 0.5
_LARGEST = 6.0  # no logarithm of a parameter is beyond
_TINY = 1e-14  # squared distance of rows that are the same, so that none divides by 0


@dataclass(frozen=True)
class Prior:
    """What is expected of the parameters, each within a factor of e (one standard deviation).

    ``length``: over which the function changes; ``scale``: how much it does; ``noise``.
    """

    length: float = 3.0
    scale: float = 0.4
    noise: float = 0.06


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """The function through ``values`` at the rows of ``features``; parameters are logarithms.

    ``parameters``: the length of each feature, then s and n.
    """

    features: Array
    values: Array
    parameters: Array

    @cached_property
    def _inverse(self) -> Array:
        noise = np.exp(2 * self.parameters[-1])
        return np.linalg.inv(self._covariance(self.features) + noise * np.eye(len(self.values)))

    @cached_property
    def _weights(self) -> Array:
        weights: Array = self._inverse @ self.values
        return weights

    @property
    def noise(self) -> float:
        """The standard deviation of a value about the function."""
        return float(np.exp(self.parameters[-1]))

    def mean(self, features: Array) -> Array:
        """What the function is most likely to be at ``features``."""
        mean: Array = self._covariance(features) @ self._weights
        return mean

    def covariance(self, features: Array) -> Array:
        """Of the function at ``features``, given the values; without noise."""
        across = self._covariance(features)
        prior = _scaled(features, features, self.parameters)[0]
        covariance: Array = prior - across @ self._inverse @ across.T
        return covariance

    def variance(self, features: Array) -> Array:
        """The diagonal of ``covariance``."""
        across = self._covariance(features)
        explained = np.einsum("ij,jk,ik->i", across, self._inverse, across)
        variance: Array = np.maximum(np.exp(2 * self.parameters[-2]) - explained, 0.0)
        return variance

    @cached_property
    def left_out(self) -> tuple[Array, Array]:
        """What each value is off what the others say, and the deviation that they expect."""
        precision = np.diag(self._inverse)
        return self._weights / precision, 1 / np.sqrt(precision)

    def _covariance(self, features: Array) -> Array:
        return _scaled(features, self.features, self.parameters)[0]


def fit_process(features: Array, values: Array, prior: Prior = Prior()) -> GaussianProcess:
    """The process with the most likely parameters; ``features``: a row for each value."""
    n_features = features.shape[1]
    expected = np.log([*[prior.length] * n_features, prior.scale, prior.noise])
    at, step = expected.copy(), np.full(n_features + 2, _FIRST_STEP)
    before, best = np.zeros(n_features + 2), (-np.inf, expected)
    for _ in range(_MOST_STEPS):
        likelihood, gradient = _likelihood(features, values, at, expected)
        if likelihood > best[0]:
            best = likelihood, at.copy()
        turned = np.sign(gradient) * np.sign(before)
        factor = np.where(turned > 0, _LONGER, np.where(turned < 0, _SHORTER, 1.0))
        step = np.clip(step * factor, _LEAST_STEP / 2, _LARGEST_STEP)
        if (step < _LEAST_STEP).all():
            break
        at = np.clip(at + step * np.sign(gradient), -_LARGEST, _LARGEST)
        before = gradient
    return GaussianProcess(features, values, best[1])


def _likelihood(
    features: Array, values: Array, parameters: Array, expected: Array
) -> tuple[float, Array]:
    """The logarithm of the posterior density of ``parameters``, without constants; its gradient."""
    covariance, slope = _scaled(features, features, parameters)
    noise = np.exp(2 * parameters[-1])
    inverse = np.linalg.inv(covariance + noise * np.eye(len(values)))
    weights = inverse @ values
    _, log_determinant = np.linalg.slogdet(inverse)
    off = parameters - expected
    likelihood = 0.5 * (log_determinant - values @ weights - off @ off)
    # dL/dθ = ½ tr((w wᵀ - K⁻¹) dK/dθ)
    outer = np.outer(weights, weights) - inverse
    sloped = outer * slope
    gradient = np.empty_like(parameters)
    for at, (column, length) in enumerate(zip(features.T, np.exp(parameters), strict=False)):
        apart = (column[:, None] - column) / length
        gradient[at] = 0.5 * np.sum(sloped * apart**2)
    gradient[-2] = np.sum(outer * covariance)
    gradient[-1] = noise * np.trace(outer)
    return float(likelihood), gradient - off


def _scaled(rows: Array, columns: Array, parameters: Array) -> tuple[Array, Array]:
    """The covariance without noise, and what its derivative by a length's logarithm is for each
    squared distance in that feature.
    """
    lengths, variance = np.exp(parameters[:-2]), np.exp(2 * parameters[-2])
    left, right = rows / lengths, columns / lengths
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2 * left @ right.T
    distance = np.sqrt(3 * np.maximum(squares, _TINY))
    decay = variance * np.exp(-distance)
    return (1 + distance) * decay, 3 * decay
