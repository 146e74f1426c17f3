"""Readings of meters, and the energy of windows of time."""

from __future__ import annotations

from typing import ClassVar

from mansard.core.records.base import Record, Schema


class PowerSample(Record, frozen=True, kw_only=True):
    """One reading of one rail, at a monotonic time."""

    schema: ClassVar[Schema] = Schema("power-sample", 1)

    rail: str
    monotonic_s: float
    power_w: float | None
    energy_j: float | None  # of meters that count energy: since the counter's start


class RailEnergy(Record, frozen=True, kw_only=True):
    """The energy of one rail over a window, from its raw samples."""

    rail: str
    energy_j: float | None  # None: not measurable in this window
    n_samples: int
    n_changed: int  # samples that differ from the one before: the sensor's own pace
    n_gaps: int  # pauses between samples of more than three periods
    step_w: float | None  # the smallest change of power that the sensor can show


class EnergyWindow(Record, frozen=True, kw_only=True):
    """One stretch of time on every rail; ``total_j`` by the rule in the manifest."""

    start_s: float  # monotonic
    window_s: float
    repetitions: int  # of the kernel, within the window; 0 when idle
    rails: tuple[RailEnergy, ...]
    total_j: float | None
