"""The times that networks take on a GPU, from the bounds of their roofs alone.

The ends are those of recorded networks with TensorRT (docs/results/held_back.md, Boards).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mansard.analytics.decisions.values import Array
from mansard.core.units import ROOF_ENGINE, ROOF_RATIOS

# Bounds with the longest times, s, of recorded networks on nine Jetsons: the corners of the concave
# envelope, between which it is straight. Short bounds leave launches out. A board that is left out
# exceeds ROOF_MARGIN times the envelope of the others in 1.2 % of 432 times.
ROOF_LONGEST = (
    (13.4e-6, 1.1e-3), (31.6e-6, 2.31e-3), (108e-6, 5.32e-3), (221e-6, 9.07e-3), (329e-6, 11.4e-3),
    (1.93e-3, 32.6e-3), (2.99e-3, 42.1e-3), (30.7e-3, 98.2e-3), (335e-3, 415e-3),
)  # fmt: skip
ROOF_MARGIN = 1.25


def expected_span_s(bound_s: ArrayLike) -> tuple[Array, Array]:
    """The least and the longest time of networks on a GPU with TensorRT, from their bounds."""
    bound_s = np.asarray(bound_s, dtype=np.float64)
    return ROOF_RATIOS[ROOF_ENGINE][0] * bound_s, ROOF_MARGIN * longest_s(bound_s)


def longest_s(bound_s: Array, corners: Sequence[tuple[float, float]] = ROOF_LONGEST) -> Array:
    """The envelope at ``bound_s``: a longer bound has a longer time.

    Below the first corner the longest time is that of it, above the last one their ratio.
    """
    bounds_s, times_s = zip(*corners, strict=True)
    beyond = bound_s * times_s[-1] / bounds_s[-1]
    within = np.interp(bound_s, bounds_s, times_s)
    return np.asarray(np.where(bound_s > bounds_s[-1], beyond, within))
