"""A few modes that stand for many: spread evenly over the space of their settings.

Greedy choice by the maximum-projection criterion (Joseph, Gul and Ba, "Maximum projection
designs for computer experiments", Biometrika 102, 2015): each point taken adds the least
to the sum over pairs of 1/Π_k (squared distance in setting k). So points are not only far
from each other, as in a maximin choice, which would take corners alone: each single clock
also gets many values, without which its curve of voltage could not be fitted.
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
    random.Random(seed).shuffle(order)  # noqa: S311 - ties go to the first
    scaled = normalise(points)[order]
    speed = scaled.sum(axis=1).round(9)
    fastest = int(speed.argmax())
    slowest = int(np.where(np.arange(len(points)) == fastest, np.inf, speed).argmin())
    taken = [fastest, slowest][:n]
    crowding = np.zeros(len(points))
    for index in taken:
        crowding += _crowding(scaled, index, n)
    while len(taken) < n:
        crowding[taken] = np.inf
        # Rounded, so that ties are ties on every machine.
        taken.append(int(np.log(crowding).round(9).argmin()))
        crowding += _crowding(scaled, taken[-1], n)
    return tuple(sorted(order[index] for index in taken))


def normalise(points: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Logarithms of positive values, each column scaled to 0 to 1; a constant one is 0."""
    import numpy as np

    logs = np.log(np.asarray(points, dtype=np.float64))
    low, high = logs.min(axis=0), logs.max(axis=0)
    scaled: NDArray[np.float64] = (logs - low) / np.where(high > low, high - low, 1.0)
    return scaled


def _crowding(scaled: NDArray[np.float64], index: int, n: int) -> NDArray[np.float64]:
    """What each point adds to the criterion beside the one at ``index``.

    The tables are short, so equal values cannot be avoided: they count as a squared
    distance of 1/n², that of neighbours if all ``n`` points had values of their own.
    """
    import numpy as np

    squared = (scaled - scaled[index]) ** 2 + 1 / n**2
    crowding: NDArray[np.float64] = 1 / np.prod(squared, axis=1)
    return crowding
