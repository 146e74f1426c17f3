"""The roofs of energy and power: what a FLOP costs, and what is drawn, at each intensity.

With the time roofline T = max(W/P, Q/B) and E = ε_f·W + ε_m·Q + π₀·T (Choi, Bedard, Fowler, Vuduc:
A roofline model of energy, IPDPS 2013), everything per FLOP depends on the intensity I = W/Q alone:

    E/W = ε_f + ε_m/I + π₀·max(1/P, 1/(I·B))           J/FLOP; its inverse is the efficiency
    E/T = (ε_f + ε_m/I) / max(1/P, 1/(I·B)) + π₀       W

Under a cap c on power the rate is at most (c − π₀) / (ε_f + ε_m/I) (Choi, Dukhan, Liu, Vuduc:
Algorithmic time, energy, and power on candidate HPC compute building blocks, IPDPS 2014).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mansard.analytics.energy.cap import capped_time_s
from mansard.core.records import Record

Array = NDArray[np.float64]


class EnergyRoof(Record, frozen=True, kw_only=True):
    """One precision against one memory level in one mode: two ceilings and three costs."""

    peak_flop_per_s: float
    bandwidth_bytes_per_s: float
    flop_j: float
    byte_j: float
    constant_w: float
    cap_w: float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.peak_flop_per_s > 0 and self.bandwidth_bytes_per_s > 0):
            raise ValueError("a roof needs a peak and a bandwidth above 0")
        if min(self.flop_j, self.byte_j, self.constant_w) < 0 or self.flop_j + self.constant_w == 0:
            raise ValueError("costs are not below 0, and a FLOP is not free")
        if self.cap_w is not None and self.cap_w <= self.constant_w:
            raise ValueError(f"nothing can run: {self.cap_w} W allowed, {self.constant_w} W idle")

    def rate_flop_per_s(self, intensity: ArrayLike) -> Array:
        """The roof of time, FLOP/s, at ``intensity`` in FLOP/byte, which is above 0."""
        at = np.asarray(intensity, dtype=np.float64)
        rate = np.minimum(self.peak_flop_per_s, at * self.bandwidth_bytes_per_s)
        if self.cap_w is None:
            return rate
        moved_j = self.flop_j + self.byte_j / at
        return 1 / capped_time_s(1 / rate, moved_j, self.constant_w, self.cap_w)

    def energy_per_flop_j(self, intensity: ArrayLike) -> Array:
        """J/FLOP at ``intensity`` when running at the roof of time; its inverse is FLOP/J."""
        at = np.asarray(intensity, dtype=np.float64)
        moved = self.flop_j + self.byte_j / at
        return moved + self.constant_w / self.rate_flop_per_s(at)

    def power_w(self, intensity: ArrayLike) -> Array:
        """Watts drawn at ``intensity`` when running at the roof of time."""
        at = np.asarray(intensity, dtype=np.float64)
        return self.energy_per_flop_j(at) * self.rate_flop_per_s(at)
