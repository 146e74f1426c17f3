"""What a measurement says while it runs: the lines between a measuring process and its keeper.

The keeper writes them to disk; the measuring process may be this one, or one in a
container, whose only way out is its standard output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, TypeAlias

import msgspec

from mansard.core.line_channel import WireError
from mansard.core.records import EnergyWindow, Gpu, PowerMode, PowerSample, Record, Schema, Trial
from mansard.device.meters.meter import Meters
from mansard.device.totals import Total
from mansard.microbench.plan import Plan


class Job(Record, frozen=True, kw_only=True):
    """What a measuring process is to do: the trials of a plan that are not on disk yet."""

    schema: ClassVar[Schema] = Schema("job", 1)

    plan: Plan
    missing: tuple[str, ...]  # ids of trials
    read_back: PowerMode  # the mode that the machine is in


class Hello(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The first event: with what the measuring process measures."""

    versions: dict[str, str]
    meters: tuple[str, ...]
    meters_missing: dict[str, str]
    total: Total | None
    why_no_total: str
    gpu: Gpu | None
    why_no_gpu: str


class Progress(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A trial begins, or the last one has ended."""

    n_left: int  # of the job's trials
    remaining_s: float | None  # None until one trial has been timed
    now: str


class Row(msgspec.Struct, frozen=True, tag=True):
    """A finished trial."""

    trial: Trial


class Readings(msgspec.Struct, frozen=True, tag=True):
    """Raw readings of the meters, of the trial or idle window that comes next."""

    samples: tuple[PowerSample, ...]


class Idle(msgspec.Struct, frozen=True, tag=True):
    """A window in which nothing of ours ran, or why there is none."""

    window: EnergyWindow | None
    reason: str = ""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The last event of a measurement that could not go on."""

    error: WireError


class Done(msgspec.Struct, frozen=True, tag=True):
    """The last event of a job that is through."""


Event: TypeAlias = Hello | Progress | Row | Readings | Idle | Failed | Done
# Does a job; its last event is Done or Failed. Closing the iterator stops the measurement.
Measurer: TypeAlias = Callable[[Job], Iterator[Event]]


def hello(versions: dict[str, str], meters: Meters, gpu: Gpu | None, why_no_gpu: str) -> Hello:
    """The first event of a measurement with these meters."""
    return Hello(
        versions=versions,
        meters=tuple(meter.name for meter in meters.found),
        meters_missing=meters.missing,
        total=meters.total,
        why_no_total=meters.why_no_total,
        gpu=gpu,
        why_no_gpu=why_no_gpu,
    )
