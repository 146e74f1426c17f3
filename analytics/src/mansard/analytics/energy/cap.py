"""The power-capped branch: a limit on power stretches time.

T = max(t, D / (P_limit - π₀)): work and traffic cost the energy D beside the constant power, and
no more than P_limit - π₀ is left to pay it with (J. W. Choi, M. Dukhan, X. Liu, R. Vuduc:
Algorithmic time, energy, and power on candidate HPC compute building blocks, IPDPS 2014, where
P_limit - π₀ is Δπ and D = W ε_flop + Q ε_byte).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def capped_time_s(
    time_s: ArrayLike, dynamic_j: ArrayLike, constant_w: ArrayLike, limit_w: ArrayLike
) -> NDArray[np.float64]:
    """Seconds that the work takes under a limit on power; all arguments are broadcast.

    ``time_s``: without a limit; ``dynamic_j``: of work and traffic, without the constant power.
    A limit of NaN is none, and so is anything else of NaN but the time. Infinite where the
    constant power leaves nothing of the limit.
    """
    time, dynamic, constant, limit = np.broadcast_arrays(
        *(np.asarray(each, dtype=np.float64) for each in (time_s, dynamic_j, constant_w, limit_w))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        left_w = limit - constant
        paid_s = np.where(left_w > 0, dynamic / left_w, np.where(dynamic > 0, np.inf, 0.0))
    known = ~(np.isnan(left_w) | np.isnan(dynamic))
    return np.where(known, np.maximum(time, paid_s), time)
