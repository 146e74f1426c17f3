"""Samples on a GPU: launches between marks, their time on the host's clock, their SM clock.

Those samples count that ran at the trial's own SM clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median_low

import numpy as np

from mansard.core.clock import Clock
from mansard.measuring.raw_samples import RawSample
from mansard.microbench.cuda.runtime import CLOCK_WORDS, WORD_BYTES, Buffer, Event, Runtime, Start

# Launches that are enqueued beyond the one that is waited for: with samples of 2 ms the GPU
# never runs dry while Python enqueues (some 20 µs), and a stop is obeyed within a few samples.
DEPTH = 3
SLOTS = 512  # samples whose clock words are kept before they are read
CLOCK_BYTES = SLOTS * CLOCK_WORDS * WORD_BYTES
_ANCHORS = 3
# The GPU's nanosecond counter moves in steps: 32 ns to about 1 µs, by card and driver
# (PTX ISA, special register %globaltimer: the period is not fixed).
_TIMER_STEP_S = 2e-6
_TIMER_EXCESS = 1.05


@dataclass(frozen=True)
class Anchor:
    """A mark on the GPU and the moment on the monotonic clock at which it was passed."""

    event: Event
    host_s: float
    error_s: float  # at most


def take_anchor(runtime: Runtime, clock: Clock) -> Anchor:
    """The tightest of a few marks, each enqueued and waited for; the GPU must be idle.

    The mark is passed after it was asked for and before the wait is over, so half of that
    span bounds the error of its middle.
    """
    best: Anchor | None = None
    for _ in range(_ANCHORS):
        before_s = clock.now_s()
        event = runtime.record(spin=True)
        runtime.synchronize(event)
        after_s = clock.now_s()
        anchor = Anchor(event, (before_s + after_s) / 2, (after_s - before_s) / 2)
        if best is None or anchor.error_s < best.error_s:
            best = anchor
    assert best is not None  # noqa: S101 - the loop runs
    return best


@dataclass(frozen=True)
class Timeline:
    """What samples are taken with: the GPU, the kernel, where it leaves its clock words."""

    runtime: Runtime
    clock: Clock
    start: Start
    words: Buffer
    before_each: Callable[[], None] | None = None  # enqueued before every sample, not timed

    def take(
        self, n_samples: int, repetitions: int, should_stop: Callable[[], bool]
    ) -> list[RawSample]:
        """Samples one after the other, without pause; fewer only when told to stop."""
        taken: list[RawSample] = []
        while len(taken) < n_samples:
            wanted = min(n_samples - len(taken), SLOTS)
            batch = self._take_batch(wanted, repetitions, should_stop)
            taken += batch
            if len(batch) < wanted:
                break
        return taken

    def _take_batch(
        self, n_samples: int, repetitions: int, should_stop: Callable[[], bool]
    ) -> list[RawSample]:
        runtime = self.runtime
        if should_stop():
            return []
        anchor = take_anchor(runtime, self.clock)
        marks: list[tuple[Event, Event]] = []
        ahead: deque[Event] = deque()
        for slot in range(n_samples):
            if should_stop():
                break
            if self.before_each is not None:
                self.before_each()
            begin = runtime.record()
            self.start(repetitions, slot)
            end = runtime.record()
            marks.append((begin, end))
            ahead.append(end)
            if len(ahead) > DEPTH:
                runtime.synchronize(ahead.popleft())
        if not marks:
            return []
        runtime.synchronize(marks[-1][1])
        passed_s = self.clock.now_s()
        # The last mark was passed by now: a meter that is read next covers all samples.
        host_s = min(anchor.host_s, passed_s - runtime.elapsed_s(anchor.event, marks[-1][1]))
        return self._samples(anchor.event, host_s, marks)

    def _samples(
        self, anchor: Event, host_s: float, marks: list[tuple[Event, Event]]
    ) -> list[RawSample]:
        """Samples between marks; ``host_s`` is when ``anchor`` was passed, on the host's clock."""
        runtime = self.runtime
        n_bytes = len(marks) * CLOCK_WORDS * WORD_BYTES
        words = runtime.read(self.words, n_bytes).view(np.uint64).reshape(-1, CLOCK_WORDS)
        samples = []
        for (begin, end), (cycles, nanoseconds) in zip(marks, words.tolist(), strict=True):
            duration_s = runtime.elapsed_s(begin, end)
            samples.append(
                RawSample(
                    duration_s=duration_s,
                    started_s=host_s + runtime.elapsed_s(anchor, begin),
                    clock_hz=clock_of(cycles, nanoseconds, duration_s),
                )
            )
        return samples


def clock_of(cycles: int, nanoseconds: int, duration_s: float) -> float | None:
    """The SM's clock in Hz by what the kernel counted; None where it counted nonsense.

    Both counts are of one span inside the sample, so it cannot be longer than the sample;
    where a counter was reset in between (the GPU lost power), it is.
    """
    if cycles <= 0 or nanoseconds <= 0:
        return None
    if nanoseconds * 1e-9 > duration_s * _TIMER_EXCESS + _TIMER_STEP_S:
        return None
    return cycles / nanoseconds * 1e9


CLOCK_TOLERANCE = 0.01  # of the trial's median clock
# A card at its power limit moves between neighbouring clocks, which are 15 MHz apart: work at its
# limit, not a disturbance. Where a step is a larger share of the clock, as on boards (102 MHz of
# 1.3 GHz), the next clock is another operating point.
_MOST_STEPS = 2
_FINE_STEP = 0.025  # of the median clock
# Of the samples; where more ran at another clock, the trial is disturbed. Those that count are
# at the median clock anyhow; energy windows, which judge no sample, are not.
REJECTED_SHARE = 0.5
# Between the first and the second half of a trial: a clock that changed for good, not work at a
# power limit. Samples at either clock would be half of a trial each.
_MOST_CHANGE = 0.05
_NO_CLOCK = "the kernel left no clock"


def judge_clocks(raw: Sequence[RawSample], step_hz: float | None = None) -> list[str | None]:
    """Why each sample does not count, as its clock is off the median of all; None if it counts.

    ``step_hz``: between two clocks of this GPU, where it is known. A sample without a clock counts
    only where none has one.
    """
    clocks_hz = [sample.clock_hz for sample in raw if sample.clock_hz is not None]
    if not clocks_hz:
        return [None] * len(raw)
    middle_hz = median_low(clocks_hz)  # low: the clock of a sample, not a value between two
    tolerance = clock_tolerance(middle_hz, step_hz)
    return [_reason(sample.clock_hz, middle_hz, tolerance) for sample in raw]


def off_clock_s(raw: Sequence[RawSample], step_hz: float | None = None) -> float:
    """By how much samples at another clock were longer or shorter than usual, in sum."""
    judged = list(zip(raw, judge_clocks(raw, step_hz), strict=True))
    usual = [sample.duration_s for sample, reason in judged if reason is None]
    if not usual:
        return 0.0
    usual_s = median_low(usual)
    return sum(abs(sample.duration_s - usual_s) for sample, reason in judged if reason)


def clock_tolerance(clock_hz: float, step_hz: float | None) -> float:
    """The tolerance of a sample's clock around ``clock_hz``, as a share of it."""
    if step_hz is None or step_hz > _FINE_STEP * clock_hz:
        return CLOCK_TOLERANCE
    # A tenth of a step more: the kernels' counts are not exact.
    return max(CLOCK_TOLERANCE, (_MOST_STEPS + 0.1) * step_hz / clock_hz)


def _reason(clock_hz: float | None, middle_hz: float, tolerance: float) -> str | None:
    if clock_hz is None:
        return _NO_CLOCK
    change = clock_hz / middle_hz - 1
    if abs(change) <= tolerance:
        return None
    return (
        f"SM clock {clock_hz / 1e6:.0f} MHz is {change:+.1%} off the trial's median "
        f"{middle_hz / 1e6:.0f} MHz"
    )


def describe_change(raw: Sequence[RawSample]) -> str | None:
    """Why a trial is disturbed: its clock changed for good in the middle; None if it did not."""
    clocks_hz = [sample.clock_hz for sample in raw if sample.clock_hz is not None]
    if len(clocks_hz) < 2:
        return None
    before_hz = median_low(clocks_hz[: len(clocks_hz) // 2])
    after_hz = median_low(clocks_hz[len(clocks_hz) // 2 :])
    if abs(after_hz - before_hz) <= _MOST_CHANGE * before_hz:
        return None
    verb = "fell" if after_hz < before_hz else "rose"
    return (
        f"the SM clock {verb} from {before_hz / 1e6:.0f} MHz to {after_hz / 1e6:.0f} MHz "
        "in the middle of the trial"
    )


def describe_drift(n_accepted: int, reasons: Sequence[str]) -> str | None:
    """Why a trial is disturbed: too much of it ran at other clocks; None if it is not."""
    n_off = sum(reason != _NO_CLOCK for reason in reasons)
    n_samples = n_accepted + len(reasons)
    if n_off <= REJECTED_SHARE * n_samples:
        return None
    return (
        f"the SM clock drifted: {n_off} of {n_samples} samples ran too far off its median to count"
    )
