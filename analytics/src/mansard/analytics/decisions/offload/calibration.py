"""Whether probabilities are calibrated: of those that say p, a share p is right.

The expected calibration error in bins of equal width is Σ n_b/n · |share right − mean p| (M. P.
Naeini et al., AAAI 2015; C. Guo et al., ICML 2017). Few samples have an error even when they are
calibrated. So it is compared with what calibrated ones would have: the number right in a bin has
then the mean Σp and the variance Σp(1 − p), and is drawn as normal (J. Bröcker, L. A. Smith,
Weather and Forecasting 22, 2007).
"""

from __future__ import annotations

import numpy as np

from mansard.analytics.decisions.offload.records import Calibration
from mansard.analytics.decisions.offload.samples import RIGHT, Array, Samples

BINS = 15
_DRAWS = 4000


def calibration(
    samples: Samples, probability: Array, of: str, n_bins: int = BINS, seed: int = 0
) -> Calibration:
    """The expected calibration error of ``probability``, that the local network is right."""
    right = (samples.local == RIGHT).astype(np.float64)
    place = np.minimum((probability * n_bins).astype(np.int64), n_bins - 1)

    def sums(values: Array) -> Array:
        return np.asarray(np.bincount(place, values, n_bins), dtype=np.float64)

    counts = sums(np.ones(len(right)))
    said, was = sums(probability), sums(right)
    deviation = np.sqrt(sums(probability * (1 - probability)))
    error = float(np.abs(was - said).sum() / len(right))
    drawn = np.random.default_rng(seed).standard_normal((_DRAWS, n_bins)) * deviation
    drawn = np.clip(said + drawn, 0, counts) - said
    error_95 = float(np.quantile(np.abs(drawn).sum(axis=1) / len(right), 0.95))
    bins = tuple(
        (at / n_bins, int(counts[at]), said[at] / counts[at], was[at] / counts[at])
        for at in range(n_bins)
        if counts[at]
    )
    return Calibration(
        of=of,
        n_bins=n_bins,
        error=error,
        error_95=error_95,
        is_rejected=error > error_95,
        bins=tuple((edge, n, float(mean), float(share)) for edge, n, mean, share in bins),
    )
