"""Meters that replay recordings in place of hardware: traces, CSV files, logs of tegrastats.

A CSV file has the columns ``monotonic_s`` and one per rail: ``VDD_IN_w`` in watts,
``package-0_j`` in joules counted.
"""

from __future__ import annotations

import csv
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path

from mansard.core.errors import DeviceError, InputError
from mansard.core.records import PowerSample
from mansard.device.meters.meter import power_sample
from mansard.device.tegrastats.files import read_lines
from mansard.device.tegrastats.parse import stream
from mansard.device.tegrastats.sessions import Times


class ReplayMeter:
    """Gives back recorded readings one after another, as the real meter did."""

    name = "replay"
    total_rule = "sum of all replayed rails"
    boundary = "what was recorded"
    pace_s = None

    def __init__(self, readings: Iterable[tuple[PowerSample, ...]], period_s: float = 0.1) -> None:
        recorded = tuple(readings)
        self.rails = tuple(sample.rail for sample in recorded[0]) if recorded else ()
        self.period_s = period_s
        self._readings: Iterator[tuple[PowerSample, ...]] = iter(recorded)

    def read(self) -> tuple[PowerSample, ...]:
        try:
            return next(self._readings)
        except StopIteration:
            raise DeviceError(
                "the recording has no more readings", fix="record a longer log"
            ) from None

    def step_w(self, rail: str) -> float | None:
        return None

    def step_note(self, rail: str) -> str:
        return "a recording does not say: the smallest change seen is used as the step"

    def sensor(self, rail: str) -> str:
        return rail


class TraceMeter(ReplayMeter):
    """Plays traces of power at the clock's own pace: each rail's is known at any time.

    ``traces`` holds (seconds since the start, watts) for each rail, in the order of time;
    between two points power is linear, after the last one the trace has ended.
    """

    name = "trace"

    def __init__(
        self,
        traces: Mapping[str, Sequence[tuple[float, float]]],
        period_s: float = 0.01,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__((), period_s)
        self.rails = tuple(traces)
        self._traces = traces
        self._clock = clock
        self.start_s = clock()

    def read(self) -> tuple[PowerSample, ...]:
        return tuple(self._read_trace(rail, trace) for rail, trace in self._traces.items())

    def _read_trace(self, rail: str, trace: Sequence[tuple[float, float]]) -> PowerSample:
        now_s = self._clock()
        after = bisect_right(trace, now_s - self.start_s, key=lambda point: point[0])
        if not 0 < after < len(trace):
            raise DeviceError("the trace has ended, or not begun", where=f"rail {rail}")
        (a_s, a_w), (b_s, b_w) = trace[after - 1], trace[after]
        power_w = a_w + (b_w - a_w) * (now_s - self.start_s - a_s) / (b_s - a_s)
        return power_sample(rail, now_s, power_w)


Reading = tuple[PowerSample, ...]
_COUNTS_ENERGY = {"power_w": "the recording counts energy"}


def replay_csv(path: Path) -> ReplayMeter:
    """The recording in a CSV file; raises InputError that names the line."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.reader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read as CSV: {error}", where=str(path)) from error
    if not rows or rows[0][:1] != ["monotonic_s"] or len(rows[0]) < 2:
        raise InputError(
            "has no column monotonic_s first and a rail after it",
            where=str(path),
            fix="name the columns monotonic_s,VDD_IN_w,…; _w is watts, _j joules counted",
        )
    columns = [_column(path, name) for name in rows[0][1:]]
    readings: list[Reading] = []
    for number, row in enumerate(rows[1:], 2):
        readings.append(_reading(path, number, row, columns))
        _check_order(path, number, readings)
    if not readings:
        raise InputError("has no readings", where=str(path))
    return ReplayMeter(readings)


def replay_log(path: Path, interval_s: float | None = None) -> ReplayMeter:
    """The recording in a log of tegrastats, by its lines' dates or every ``interval_s``.

    Rails are those of the first line; a line that lacks one is left out, as is one that is no
    line of tegrastats. Raises InputError, or StorageError where it cannot be read.
    """
    readings: list[Reading] = []
    rails: tuple[str, ...] = ()
    times = Times()
    for number, sample in enumerate(stream(read_lines(path)), 1):
        moment = times.of(sample.prefix)
        powers_w = {rail.name: rail.power_w for rail in sample.rails}
        rails = rails or tuple(powers_w)
        if not rails or not powers_w.keys() >= set(rails):
            continue
        time_s = len(readings) * interval_s if interval_s is not None else None
        if time_s is None and moment is not None:
            time_s = moment.time_s
        if time_s is None:
            raise InputError(
                f"sample {number} has no times", where=str(path), fix="give the log's interval"
            )
        readings.append(tuple(power_sample(rail, time_s, powers_w[rail]) for rail in rails))
        _check_order(path, number, readings)
    if not readings:
        raise InputError("has no line of tegrastats with power rails", where=str(path))
    return ReplayMeter(readings, interval_s or 1.0)


def _check_order(path: Path, number: int, readings: list[Reading]) -> None:
    if len(readings) > 1 and readings[-1][0].monotonic_s < readings[-2][0].monotonic_s:
        raise InputError(f"line {number} goes back in time", where=str(path))


def _column(path: Path, name: str) -> tuple[str, str]:
    rail, _, unit = name.rpartition("_")
    if not rail or unit not in {"w", "j"}:
        raise InputError(f"column {name!r} does not end in _w or _j", where=str(path))
    return rail, unit


def _reading(path: Path, number: int, row: list[str], columns: list[tuple[str, str]]) -> Reading:
    try:
        time_s, *values = (float(text) for text in row)
    except ValueError:
        time_s, values = 0.0, []
    if len(values) != len(columns) or not all(isfinite(value) for value in (time_s, *values)):
        raise InputError(f"line {number} is not {len(columns) + 1} numbers", where=str(path))
    return tuple(
        power_sample(rail, time_s, value) if unit == "w" else _energy(rail, time_s, value)
        for (rail, unit), value in zip(columns, values, strict=True)
    )


def _energy(rail: str, time_s: float, energy_j: float) -> PowerSample:
    return PowerSample(
        rail=rail, monotonic_s=time_s, power_w=None, energy_j=energy_j, unknown=_COUNTS_ENERGY
    )
