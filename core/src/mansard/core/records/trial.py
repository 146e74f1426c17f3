"""Readings of meters, the energy of windows of time, and trials."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from mansard.core.records.base import Record, Schema, Source


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
    error_j: float | None = None  # at most, by a counter that moves in steps


# Of a window's length; where more is disturbed, its energy is that of other work as well.
MOST_DISTURBED = 0.05


class EnergyWindow(Record, frozen=True, kw_only=True):
    """One stretch of time on every rail; ``total_j`` by the rule in the manifest."""

    start_s: float  # monotonic
    window_s: float
    repetitions: int  # of the kernel, within the window; 0 when idle
    rails: tuple[RailEnergy, ...]
    total_j: float | None
    error_j: float | None = None  # of the total, at most, by counters that move in steps
    is_settled: bool | None = None  # whether the power no longer changed when it began
    # Of its length, at most: in which the repetitions waited for CPUs, or ran at another clock.
    disturbed_s: float | None = None

    @property
    def disturbed_share(self) -> float:
        """The disturbed share of the window's length; 0 where disturbances were not recorded."""
        return min(self.disturbed_s or 0.0, self.window_s) / self.window_s if self.window_s else 0.0

    @property
    def is_disturbed(self) -> bool:
        """Whether other work ran in too much of it for an energy of its own."""
        return self.disturbed_share > MOST_DISTURBED


Family = Literal["fma", "stream", "tensor", "latency", "stalled", "launch"]
Processor = Literal["cpu", "gpu"]
Operands = Literal["chaotic", "constant"]
Scope = Literal["core", "sm", "gpu"]
MemoryKind = Literal["host", "device", "zero-copy"]


class Spread(Record, frozen=True, kw_only=True):
    """A reading before, during and after a trial, in the unit of the field that holds it."""

    before: float
    low: float  # the extremes of all readings
    high: float
    after: float


class MemoryUse(Record, frozen=True, kw_only=True):
    """The share of the memory's bandwidth in use, by readings while a trial, or its loop, ran."""

    mean_share: float  # 1 is all of it
    low_share: float
    high_share: float
    n_readings: int
    source: str  # "actmon"; or NVML's, of cards, which is a share of time


class Conditions(Record, frozen=True, kw_only=True):
    """What the machine did while a trial ran."""

    cpu_clock_hz: Spread | None  # of the slowest CPU in use
    gpu_clock_hz: Spread | None
    memory_clock_hz: Spread | None
    temperature_c: Spread | None
    temperature_slope_c_per_s: float | None
    n_throttle_events: int | None
    n_overcurrent_events: int | None
    gpu_processes: tuple[str, ...] | None  # of others, seen on the GPU
    settings_changed: tuple[str, ...] | None = None  # the mode's, in sentences
    engines: tuple[str, ...] | None = None  # video engines and accelerators at work
    swapped_bytes: int | None = None  # moved between memory and swap space, both ways
    fan_speed_rpm: Spread | None = None  # of the fastest fan
    fan_drive_share: Spread | None = None  # of the fan that is driven most; 1 is the most
    memory_use: MemoryUse | None = None


# How the failure of a trial begins whose result cannot be: its work, its time or its clock is
# miscounted. Its samples are among the rejected ones.
ABOVE_LIMIT = "above what the hardware can do"


class Trial(Record, frozen=True, kw_only=True):
    """One kernel at one size under one power mode. Raw repetitions, no medians.

    Work and traffic are those of one repetition over all threads, or over the whole GPU;
    how stores are counted is said in ``traffic_counting``.
    """

    schema: ClassVar[Schema] = Schema("trial", 7)

    run_id: str
    trial_id: str
    source: Source
    kernel: str
    family: Family  # the roof that the kernel can raise: microbench/kernel.py
    processor: Processor
    backend: str  # numba-cpu, cupy, numba-cuda or cublas
    precision: str
    fma_per_element: int | None
    operands: Operands  # values that never settle, or the same one everywhere
    scope: Scope  # what sweeps a part of the working set of its own; gpu: all sweep the whole
    memory: MemoryKind
    cpus: tuple[int, ...]  # one pinned thread on each; on a GPU, those that launch
    n_sms: int | None  # that were on
    working_set_bytes: int  # over all threads
    work_flop: int
    traffic_bytes: int
    traffic_counting: str
    # So many that a sample is long against the clock's resolution.
    repetitions_per_sample: int | None
    seconds_s: tuple[float, ...]  # accepted samples: seconds of one repetition, as they ran
    block: tuple[int, ...]  # the block each accepted sample belongs to
    clock_hz: tuple[float, ...] | None  # of an SM during each accepted sample, by the kernel
    rejected_s: tuple[float, ...]
    rejected_reason: tuple[str, ...]  # one for each rejected sample
    stability: Literal["stable", "unstable"]
    stability_interval: float | None  # half width of the interval of the block medians, relative
    energy: tuple[EnergyWindow, ...] | None  # the kernel runs without pause in each
    conditions: Conditions
    disturbances: tuple[str, ...]  # why this trial is kept but never averaged in; empty: none
    source_hash: str  # of the kernel's source
    started_utc: str
    duration_s: float
    # Why it could not be measured, such as a compiler's error; no accepted samples then.
    failure: str | None = None

    def __post_init__(self) -> None:
        if self.failure is None and "failure" not in self.unknown:
            msgspec.structs.force_setattr(self, "unknown", {**self.unknown, "failure": "it ran"})
        super().__post_init__()
