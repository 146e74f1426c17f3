"""Meters that replay recorded readings: the stand-in for absent hardware."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from mansard.core.errors import DeviceError
from mansard.core.records import PowerSample
from mansard.device.meters.meter import power_sample


class ReplayMeter:
    """Gives back recorded readings one after another, as the real meter did."""

    name = "replay"
    total_rule = "sum of all replayed rails"
    boundary = "what was recorded"

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

    def step_w(self, rail: str) -> float | None:  # noqa: ARG002
        return None

    def step_note(self, rail: str) -> str:  # noqa: ARG002
        return "a recording does not say: the smallest change seen stands for the step"

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
