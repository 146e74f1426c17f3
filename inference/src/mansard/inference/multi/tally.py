"""Where the time of those that run stages goes, within one stretch of time for all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, MutableSequence
from typing import Literal

import msgspec

Doing = Literal["inference", "transfer", "input_wait", "device_wait", "output_wait"]
_MOST_LATENCIES = 1000  # of a network: of more runs every second, fourth, …


class CountedWindow:
    """The stretch in which runs count: not begun, until its ends are set.

    ``ends``: its start and end by the monotonic clock, which all processes share.
    """

    def __init__(self, ends: MutableSequence[float]) -> None:
        self._ends = ends

    def open(self, start_s: float, seconds_s: float) -> None:
        """Let it be from ``start_s``, which has not come yet."""
        self._ends[1] = start_s + seconds_s
        self._ends[0] = start_s

    def abandon(self) -> None:
        """Let everybody stop."""
        self._ends[1] = -math.inf

    def is_over(self) -> bool:
        """Whether everybody is to stop."""
        return time.monotonic() >= self._ends[1]

    def overlap_s(self, from_s: float, to_s: float) -> float:
        """How much of a stretch lies in it."""
        return max(0.0, min(to_s, self._ends[1]) - max(from_s, self._ends[0]))

    def holds(self, at_s: float) -> bool:
        return bool(self._ends[0] <= at_s <= self._ends[1])


class StageTotals(msgspec.Struct):
    """What one stage took in the window."""

    n_runs: int = 0
    inference_s: float = 0.0
    transfer_s: float = 0.0
    input_wait_s: float = 0.0
    device_wait_s: float = 0.0
    output_wait_s: float = 0.0


class Tally:
    """The time of one worker. Its laps follow one another without a gap."""

    def __init__(
        self, window: CountedWindow, n_stages: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._window, self._clock = window, clock
        self.stages = [StageTotals() for _ in range(n_stages)]
        self.latency_s: list[float] = []
        self._n_ended, self._each = 0, 1
        self.now_s = clock()

    def lap(self, stage: int, doing: Doing) -> None:
        """What was done since the last lap, for a stage; what lies in the window counts."""
        before_s, self.now_s = self.now_s, self._clock()
        spent_s = self._window.overlap_s(before_s, self.now_s)
        if spent_s:
            totals = self.stages[stage]
            name = f"{doing}_s"
            setattr(totals, name, getattr(totals, name) + spent_s)

    def end_stage(self, stage: int) -> None:
        """A stage has run: it counts where it ended in the window."""
        self.stages[stage].n_runs += self._window.holds(self.now_s)

    def end_network(self, began_s: float) -> None:
        """A run of the whole network has ended that began then."""
        if not self._window.holds(self.now_s):
            return
        if self._n_ended % self._each == 0:
            self.latency_s.append(self.now_s - began_s)
        self._n_ended += 1
        if len(self.latency_s) > _MOST_LATENCIES:
            self.latency_s, self._each = self.latency_s[::2], 2 * self._each
