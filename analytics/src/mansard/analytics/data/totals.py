"""Total energies of windows, and what follows from them alone, without a frame."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mansard.core.records import EnergyWindow, Manifest


def known_totals(windows: Iterable[EnergyWindow]) -> list[tuple[float, EnergyWindow]]:
    """The total energy, J, of each window that has one above 0, and the window."""
    return [
        (window.total_j, window)
        for window in windows
        if window.total_j is not None and window.total_j > 0 and window.window_s > 0
    ]


def meter_deviation(windows: Iterable[EnergyWindow]) -> float:
    """The relative standard deviation of the mean of ``windows`` by the steps of their counters.

    The phase of a step is random: an error is taken to be anywhere within its bound, and windows
    to err each by itself. 0 where no meter tells such a bound.
    """
    shares = [(window.error_j or 0.0) / total_j for total_j, window in known_totals(windows)]
    return float(np.sqrt(np.sum(np.square(shares)) / 3)) / len(shares) if shares else 0.0


def why_no_total(windows: Iterable[EnergyWindow]) -> str:
    """Why ``known_totals`` of ``windows`` is empty."""
    reasons = (window.unknown["total_j"] for window in windows if window.total_j is None)
    return next(reasons, "no window has a total energy")


def idle_power_w(manifest: Manifest) -> float | None:
    """Median total power of the idle windows, watts; None where no total is above 0."""
    powers = [total_j / window.window_s for total_j, window in known_totals(manifest.idle or ())]
    return float(np.median(powers)) if powers else None
