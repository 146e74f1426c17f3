"""A few modes that stand for many: spread evenly over the space of their settings.

Greedy farthest-point choice (Gonzalez, "Clustering to minimize the maximum intercluster
distance", Theoretical Computer Science 38, 1985): each point taken is the one farthest
from all taken before. The smallest distance between two of them is at least half of the
best possible one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def spread(points: Sequence[Sequence[float]], n: int, seed: int) -> tuple[int, ...]:
    """The indices of ``n`` of ``points``, ascending: the fastest, the slowest, those between.

    Each setting counts by the logarithm of its value, scaled so that its range is 1, so
    that doubling a clock is one distance wherever it starts. ``seed`` settles ties.
    """
    if n >= len(points):
        return tuple(range(len(points)))
    if n < 1:
        return ()
    import numpy as np

    order = list(range(len(points)))
    random.Random(seed).shuffle(order)  # noqa: S311 - ties go to whoever comes first
    scaled = normalise(points)[order]
    speed = scaled.sum(axis=1).round(9)
    taken = [int(speed.argmax()), int(speed.argmin())][:n]
    distance = np.full(len(points), np.inf)
    for index in taken:
        distance = np.minimum(distance, _distance(scaled, index))
    while len(taken) < n:
        taken.append(int(distance.argmax()))
        distance = np.minimum(distance, _distance(scaled, taken[-1]))
    return tuple(sorted(order[index] for index in taken))


def normalise(points: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Logarithms of positive values, each column scaled to 0 to 1; a constant one is 0."""
    import numpy as np

    logs = np.log(np.asarray(points, dtype=np.float64))
    low, high = logs.min(axis=0), logs.max(axis=0)
    return (logs - low) / np.where(high > low, high - low, 1.0)


def _distance(scaled: NDArray[np.float64], index: int) -> NDArray[np.float64]:
    """Squared distances to one point. Rounded, so that ties are the same on every machine."""
    squared: NDArray[np.float64] = ((scaled - scaled[index]) ** 2).sum(axis=1).round(9)
    return squared
