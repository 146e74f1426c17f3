"""What a measurement reports while it runs: the lines from a measuring process to the run writer.

The run writer keeps them on disk; the measuring process may be this one, or one in a container,
whose only way out is its standard output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, TypeAlias, Union

import msgspec

from mansard.core.processes.line_channel import WireError
from mansard.core.records import EnergyWindow, Gpu, PowerSample
from mansard.device.meters.meter import Meters
from mansard.device.totals import Total
from mansard.measuring.kind import Job, RowT

# The longest pause between two events where none is announced: one trial of the full profile takes
# 2 minutes at most, and compilers on a small board as long again.
SILENCE_S = 900.0


class Started(msgspec.Struct, frozen=True, tag=True, kw_only=True):
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
    now: str


class Lengthy(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What a trial does now may take long, such as loading a network or building an engine.

    It is announced, not repeated: what loads may hold up every thread of the process.
    """

    now: str
    at_most_s: float  # until the next event; silence beyond it is a hang


class Row(msgspec.Struct, Generic[RowT], frozen=True, tag="Row"):
    """A finished trial, as the row of its kind."""

    row: RowT


class Readings(msgspec.Struct, frozen=True, tag=True):
    """Raw readings of the meters, of the trial or idle window that comes next."""

    samples: tuple[PowerSample, ...]


class Idle(msgspec.Struct, frozen=True, tag=True):
    """A window in which nothing of ours ran, or why there is none."""

    window: EnergyWindow | None
    reason: str = ""


Stream: TypeAlias = Literal["stdout", "stderr"]


class OutputPiece(msgspec.Struct, frozen=True, tag=True):
    """What a measured program wrote, where its streams are not those of the caller."""

    stream: Stream
    data: bytes


class Note(msgspec.Struct, frozen=True, tag=True):
    """A remark for the person who waits."""

    line: str


class Aborted(msgspec.Struct, frozen=True, tag=True):
    """The last event of a measurement that could not go on."""

    error: WireError


class Done(msgspec.Struct, frozen=True, tag=True):
    """The last event of a job that is through."""


Event: TypeAlias = Started | Progress | Lengthy | Row[Any] | Readings | Idle | Aborted | Done
# Does a job; its last event is Done or Aborted. Closing the iterator stops the measurement.
Measurer: TypeAlias = Callable[[Job], Iterator[Event]]


def event_decoder(row_type: Any) -> msgspec.json.Decoder[Event]:
    """A decoder of the lines of a measuring process whose rows are of the class ``row_type``."""
    return msgspec.json.Decoder(_events(row_type))


Passed: TypeAlias = OutputPiece | Note  # beside events, from a process that has no terminal


def passed_decoder(row_type: Any) -> msgspec.json.Decoder[Event | Passed]:
    """``event_decoder`` of a process that passes on what a program prints, and notes."""
    return msgspec.json.Decoder(_events(row_type) | OutputPiece | Note)


def _events(row_type: Any) -> Any:
    row: Any = Row
    return Union[Started, Progress, Lengthy, row[row_type], Readings, Idle, Aborted, Done]  # noqa: UP007


def started(versions: dict[str, str], meters: Meters, gpu: Gpu | None, why_no_gpu: str) -> Started:
    """The first event of a measurement with these meters."""
    return Started(
        versions=versions,
        meters=tuple(meter.name for meter in meters.found),
        meters_missing=meters.missing,
        total=meters.total,
        why_no_total=meters.why_no_total,
        gpu=gpu,
        why_no_gpu=why_no_gpu,
    )
