"""What measured networks say about how near kernels come to their roofs: records.

T of a group = factor(class, precision) · max(work / peak, traffic / bandwidth) + n · launch(mode).
A calibration belongs to one device and one runtime, and says what it was fitted on and how far
off it is: before, after, and on networks that it did not see (docs/calibration.md).
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.predict.op_classes import OP_CLASSES
from mansard.core.records import Record

# One row for each group of a network that was timed by itself in a mode.
TIMED_SCHEMA: FrameSchema = {
    "device": pl.String,
    "mode": pl.String,
    "network": pl.String,
    "batch": pl.Int64,
    "precision": pl.String,
    "op_class": pl.String,
    "roof_s": pl.Float64,  # max(work / peak, traffic / bandwidth) in the mode
    "n_launches": pl.Int64,
    "measured_s": pl.Float64,
}


class ClassFactor(Record, frozen=True, kw_only=True):
    """How many times the time under the roof groups of a class take, without their launch.

    ``value`` is None where too few groups were timed: the overall factor holds for them. 95 %.
    """

    op_class: str
    precision: str
    value: float | None
    low: float | None
    high: float | None
    n_groups: int
    n_networks: int


class LaunchCost(Record, frozen=True, kw_only=True):
    """What it takes to start one group in a mode, 95 %."""

    mode: str
    value_s: float | None
    low_s: float | None
    high_s: float | None
    n_groups: int


class Misfit(Record, frozen=True, kw_only=True):
    """|modelled / measured - 1| of network totals: each network, batch, precision and mode one.

    ``ratio_95``: of 95 % of them modelled and measured differ by no more than this ratio, ≥ 1.
    """

    median: float
    worst: float
    ratio_95: float | None
    n_totals: int


class Calibration(Record, frozen=True, kw_only=True):
    """Factors and launch costs of one device and runtime, and what they rest on.

    ``before``: the roofs alone. ``after``: on the networks it was fitted on. ``unseen``: each
    network by the calibration of the others.
    """

    device: str
    runtime: str
    phase: str
    modes: tuple[str, ...]
    networks: tuple[str, ...]
    batches: tuple[int, ...]
    factors: tuple[ClassFactor, ...]
    overall: float
    least_factor: float
    launches: tuple[LaunchCost, ...]
    is_launch_in_cycles: bool  # one number of CPU cycles for all modes, not a cost of each
    n_groups: int
    n_left_out: int  # groups without a time under the roof, or without a measured one
    before: Misfit
    after: Misfit
    unseen: Misfit | None

    @property
    def precisions(self) -> tuple[str, ...]:
        """Those of the networks that were timed."""
        return tuple(dict.fromkeys(found.precision for found in self.factors))

    def factor(self, op_class: str, precision: str) -> float:
        """What the time under the roof is multiplied with; overall where none is known."""
        for found in self.factors:
            if (found.op_class, found.precision) == (op_class, precision):
                return self.overall if found.value is None else found.value
        return self.overall

    def efficiency(self, precision: str) -> dict[str, float]:
        """The factor of every class for networks in ``precision``, as the engine takes them."""
        classes = dict.fromkeys((*OP_CLASSES, *(found.op_class for found in self.factors)))
        return {name: self.factor(name, precision) for name in classes}

    def launch_s(self, mode: str) -> float | None:
        """The cost of a launch in a mode that it was fitted on; None in any other."""
        return next((found.value_s for found in self.launches if found.mode == mode), None)


def misfit(modelled_s: NDArray[np.float64], measured_s: NDArray[np.float64]) -> Misfit:
    """How far modelled totals are off the measured ones, which are above 0; at least one."""
    ratio = modelled_s / measured_s
    error = np.abs(ratio - 1)
    unknown = {}
    ratio_95 = None
    if (ratio > 0).all():
        ratio_95 = float(np.quantile(np.maximum(ratio, 1 / ratio), 0.95))
    else:
        unknown["ratio_95"] = "the modelled time of a network is 0"
    return Misfit(
        median=float(np.median(error)),
        worst=float(error.max()),
        ratio_95=ratio_95,
        n_totals=len(ratio),
        unknown=unknown,
    )
