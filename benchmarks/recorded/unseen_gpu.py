"""Products on a GPU that was not seen: what other GPUs teach, and its data sheet.

T = (W / P + Q / B + launch) · exp(g), with g the median of one Gaussian process for each other GPU,
so that the habits of one (a P100 is three times slower where N is 16,384 or more) are outvoted. Its
features are relative to the GPU: outputs for each SM, K, and the harmonic mean of M and N.
P is the least of the sheet's rate and of what the board's power allows: in fp32 the best of the
others do 54 to 62 GFLOP/s for each W, and a T4 at 70 W reaches half of its sheet's rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.models.predict.gaussian_process import Prior, fit_process
from mansard.analytics.models.predict.operator_times import TimedOperator
from recorded.timed_operators import Gpu

Array = NDArray[np.float64]
_LAUNCH_S = 5e-6
_PRIOR = Prior(length=3.0, scale=0.3, noise=0.05)


def from_others(
    others: Mapping[Gpu, Sequence[TimedOperator]],
    gpu: Gpu,
    rows: Sequence[TimedOperator],
    *,
    has_limit: bool,
) -> Array:
    """Seconds of ``rows`` on ``gpu``; ``has_limit``: by the power of the board too."""
    flop_per_j = np.inf
    if has_limit:
        flop_per_j = max(
            float(np.quantile([row.work_flop / (row.measured_s or 1) for row in some], 0.95))
            / other.power_w
            for other, some in others.items()
        )
    votes = []
    for other, some in others.items():
        log_s = np.log([row.measured_s or 1 for row in some])
        values = log_s - np.log(_at_sheet(other, some, flop_per_j))
        middle = float(np.median(values))
        process = fit_process(_features(other, some), values - middle, _PRIOR)
        votes.append(middle + process.mean(_features(gpu, rows)))
    seconds: Array = _at_sheet(gpu, rows, flop_per_j) * np.exp(np.median(votes, axis=0))
    return seconds


def _at_sheet(gpu: Gpu, rows: Sequence[TimedOperator], flop_per_j: float) -> Array:
    flop_per_s = min(gpu.flop_per_s, flop_per_j * gpu.power_w)
    work = np.array([row.work_flop for row in rows]) / flop_per_s
    seconds: Array = work + np.array([row.traffic_s for row in rows]) + _LAUNCH_S
    return seconds


def _features(gpu: Gpu, rows: Sequence[TimedOperator]) -> Array:
    sizes = [
        (row.m * row.n * row.n_products / gpu.n_sms, row.k, row.m * row.n / (row.m + row.n))
        for row in rows
    ]
    features: Array = np.log(np.array(sizes))
    return features
