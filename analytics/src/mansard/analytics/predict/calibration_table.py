"""Timed groups as columns of numbers, for the fit of a calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.predict.calibration import TIMED_SCHEMA
from mansard.analytics.predict.calibration_solve import Array
from mansard.core.errors import InputError

LEAST_GROUPS = 8  # of a class or a mode, to say anything about it
_TOTAL = ("network", "batch", "precision", "mode")
Kind = tuple[str, str]  # op_class and precision


@dataclass(frozen=True, eq=False)
class LaunchColumns:
    """What is solved for to know the cost of a launch in each mode, which is ``unit`` of it.

    Each mode's own seconds (``unit`` 1), or one number of CPU cycles for all (1 / f_cpu).
    """

    column: NDArray[np.int64]
    unit: Array

    @classmethod
    def of(cls, modes: Sequence[str], cpu_hz: Mapping[str, float] | None) -> LaunchColumns:
        """InputError for a mode without a clock, where there are clocks."""
        if cpu_hz is None:
            return cls(np.arange(len(modes)), np.ones(len(modes)))
        lost = [mode for mode in modes if not cpu_hz.get(mode, 0) > 0]
        if lost:
            raise InputError(
                f"no CPU clock of mode {', '.join(lost)}", fix="give that of every mode, or none"
            )
        return cls(np.zeros(len(modes), int), np.array([1 / cpu_hz[mode] for mode in modes]))

    def costs_s(self, found: Array) -> Array:
        """The cost of a launch in each mode, s."""
        return np.asarray(found[self.column] * self.unit, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class TimedTable:
    """One place for each group; ``kinds`` and ``modes`` are those with enough groups."""

    roof_s: Array
    measured_s: Array
    total_s: Array  # measured time of all groups of the network, batch, precision and mode
    launches: Array  # groups × columns: seconds for one of what is solved for
    kind: NDArray[np.int64]  # place in ``kinds``, -1 where too few are of the group's
    network: NDArray[np.object_]
    total: NDArray[np.int64]  # groups of one total share a number
    kinds: tuple[Kind, ...]
    modes: tuple[str, ...]
    launch: LaunchColumns

    def only(self, kept: NDArray[np.bool_]) -> TimedTable:
        """The groups that are kept, with the same kinds and modes."""
        return replace(
            self,
            roof_s=self.roof_s[kept],
            measured_s=self.measured_s[kept],
            total_s=self.total_s[kept],
            launches=self.launches[kept],
            kind=self.kind[kept],
            network=self.network[kept],
            total=self.total[kept],
        )

    def sums(self, time_s: Array) -> Array:
        """The time of each total, in the order of their numbers that occur; NaN if a group's is."""
        numbers, at = np.unique(self.total, return_inverse=True)
        added = np.bincount(at, weights=time_s, minlength=len(numbers))
        return np.asarray(added, dtype=np.float64)


def usable(timed: pl.DataFrame) -> pl.DataFrame:
    """The groups with a time under the roof and a measured one, in modes that have enough.

    Frames of two devices, of other columns or without enough groups raise InputError.
    """
    missing = [name for name in TIMED_SCHEMA if name not in timed.columns]
    if missing:
        raise InputError(
            f"timed groups: no column {', '.join(missing)}", fix="give all of TIMED_SCHEMA"
        )
    devices = timed["device"].unique().sort().to_list()
    if len(devices) > 1:
        raise InputError(
            f"timed groups of {' and '.join(map(str, devices))}", fix="calibrate one at a time"
        )
    roof, measured = pl.col("roof_s"), pl.col("measured_s")
    found = timed.filter(
        roof.is_finite() & (roof >= 0),
        measured.is_finite() & (measured > 0),
        pl.col("n_launches") >= 0,
        pl.all_horizontal(pl.col("op_class", *_TOTAL).is_not_null()),
    ).filter(pl.len().over("mode") >= LEAST_GROUPS)
    if found.is_empty():
        raise InputError(
            f"no mode has {LEAST_GROUPS} groups with a time under the roof and a measured one",
            fix="time networks group by group first",
        )
    return found


def timed_table(kept: pl.DataFrame, cpu_hz: Mapping[str, float] | None = None) -> TimedTable:
    """What ``usable`` kept, as columns. Seconds. ``cpu_hz``: as of ``LaunchColumns``."""
    counted = kept.filter(pl.col("roof_s") > 0).group_by("op_class", "precision").len()
    kinds = tuple(
        (str(name), str(precision))
        for name, precision, count in counted.sort("op_class", "precision").iter_rows()
        if count >= LEAST_GROUPS
    )
    places = {kind: at for at, kind in enumerate(kinds)}
    modes = tuple(kept["mode"].unique().sort().to_list())
    launch = LaunchColumns.of(modes, cpu_hz)
    mode = np.searchsorted(modes, kept["mode"].to_list())
    launches = np.zeros((len(kept), int(launch.column.max()) + 1))
    launches[np.arange(len(kept)), launch.column[mode]] = (
        kept["n_launches"].to_numpy() * launch.unit[mode]
    )
    own = kept.select("op_class", "precision").iter_rows()
    return TimedTable(
        roof_s=kept["roof_s"].to_numpy(),
        measured_s=kept["measured_s"].to_numpy(),
        total_s=kept.select(pl.col("measured_s").sum().over(_TOTAL)).to_series().to_numpy(),
        launches=launches,
        kind=np.array([places.get(kind, -1) for kind in own], dtype=np.int64),
        network=kept["network"].to_numpy(),
        total=kept.select(pl.struct(_TOTAL).rank("dense")).to_series().to_numpy().astype(np.int64),
        kinds=kinds,
        modes=modes,
        launch=launch,
    )
