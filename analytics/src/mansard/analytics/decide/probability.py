"""How likely a value keeps a limit, from its 95 % interval.

A value v with the interval [low, high] is taken as log-normal about v, with a spread of its own
on either side: σ above v is ln(high / v) / z, below v it is ln(v / low) / z, with z = 1.95996,
the 97.5 % quantile of the standard normal distribution. So P(X ≤ high) = 0.975, P(X ≤ v) = 0.5,
P(X ≤ low) = 0.025. Times and energies are positive and err by a share, hence the logarithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_NORMAL = NormalDist()
Z95 = _NORMAL.inv_cdf(0.975)


@dataclass(frozen=True, eq=False)
class Band:
    """Values of one quantity with their 95 % intervals, arrays of one length; NaN is unknown."""

    value: Array
    low: Array
    high: Array

    def ends(self) -> tuple[Array, Array]:
        """Low and high; the value itself where there is no interval."""
        return (
            np.where(np.isnan(self.low), self.value, self.low),
            np.where(np.isnan(self.high), self.value, self.high),
        )

    def times(self, other: Band) -> Band:
        """The product; its ends are those of both at once."""
        return Band(self.value * other.value, self.low * other.low, self.high * other.high)

    def over(self, divisor: Array) -> Band:
        """Divided by something that is known exactly."""
        return Band(self.value / divisor, self.low / divisor, self.high / divisor)

    def quantile(self, probability: float) -> Array:
        """What each value stays below with ``probability``; the value itself without interval."""
        low, high = self.ends()
        z = _NORMAL.inv_cdf(probability)
        side = high / self.value if z >= 0 else self.value / low
        quantile: Array = self.value * np.exp(np.log(side) * (z / Z95))
        return quantile


def probability_at_most(
    value: float, low: float | None, high: float | None, limit: float
) -> float | None:
    """P(X ≤ limit); None where there is no interval. All are above 0."""
    if low is None or high is None:
        return None
    end = high if limit >= value else low
    spread = abs(math.log(end / value))
    distance = math.log(limit / value)
    if spread == 0:
        return 1.0 if distance >= 0 else 0.0
    return _NORMAL.cdf(Z95 * distance / spread)
