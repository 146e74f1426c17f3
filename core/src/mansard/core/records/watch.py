"""What a watched board is doing: one record for each look at it."""

from __future__ import annotations

from typing import ClassVar, Literal

from mansard.core.records.base import Record, Schema, Source

LimitCause = Literal["thermal", "over-current", "power", "mode", "cap", "unknown"]


class CpuNow(Record, frozen=True, kw_only=True):
    """One CPU that is on."""

    cpu: int
    busy_share: float | None  # of the time since the last look, 0 to 1
    clock_hz: float | None
    cap_hz: float | None  # what the clock may rise to


class GpuNow(Record, frozen=True, kw_only=True):
    """The GPU of a Jetson, or one graphics card."""

    gpu: str  # gpu; of cards gpu0, gpu1
    name: str | None  # of a card
    busy_share: float | None
    clock_hz: float | None
    cap_hz: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None


class ZoneNow(Record, frozen=True, kw_only=True):
    """One sensor of temperature, and from where on the kernel slows down for it."""

    zone: str
    temperature_c: float | None
    trip_c: float | None


class RailNow(Record, frozen=True, kw_only=True):
    """One rail: its power, and its energy since the watching began."""

    rail: str
    power_w: float | None  # of a meter that counts energy: the mean since the last look
    energy_j: float | None


class Limit(Record, frozen=True, kw_only=True):
    """Something that keeps clocks down, and why, in a sentence.

    ``is_throttling``: the board runs slower than its power mode allows.
    """

    cause: LimitCause
    parts: tuple[str, ...]  # CPU, CPU 0-3, GPU, memory, board
    is_throttling: bool
    why: str


class BoardSample(Record, frozen=True, kw_only=True):
    """One look at a board: clocks, rails, temperatures, what limits it, and who uses the GPU."""

    schema: ClassVar[Schema] = Schema("board-sample", 1)

    board: str  # as it was named: user@board; else the name that it has itself
    source: Source
    time_s: float  # since 1970, by the clock of the machine that watches
    watched_s: float  # since the first look
    mode: str | None  # power mode
    cpus: tuple[CpuNow, ...]
    gpus: tuple[GpuNow, ...]
    memory_clock_hz: float | None
    memory_cap_hz: float | None
    memory_busy_share: float | None  # of the memory's bandwidth; of a card: of the time
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    swap_used_bytes: int | None
    swap_total_bytes: int | None
    zones: tuple[ZoneNow, ...]
    rails: tuple[RailNow, ...]
    power_w: float | None  # of the board, by the rule of its rails
    energy_j: float | None  # the same since the first look
    unmetered_s: float  # of that time, pauses whose energy is in no sum
    fan_speed_rpm: float | None
    fan_drive_share: float | None
    engines: tuple[str, ...] | None  # video engines and accelerators at work
    gpu_processes: tuple[str, ...] | None  # name (pid)
    limits: tuple[Limit, ...]
    n_throttle_events: int | None  # since the first look
    n_overcurrent_events: int | None

    @property
    def is_throttling(self) -> bool:
        """Whether it runs slower now than its power mode allows."""
        return any(limit.is_throttling for limit in self.limits)
