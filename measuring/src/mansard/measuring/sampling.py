"""One trial: samples in blocks, disturbed ones rejected, until their medians settle.

A *repetition* is the work done once; of a kernel, one pass over its working set. A *sample* is
so many repetitions in a row that it lasts about two milliseconds. A *block* is some samples in
a row; blocks lie apart in time. A *trial* is one kernel at one size: its blocks.

When to stop is decided by distribution-free statistics of block medians. Samples close in time
share their disturbances, so they are no independent draws; the medians of blocks that lie apart
in time nearly are. Their own median is bracketed by order statistics, which needs no assumption
about the shape of the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import comb
from statistics import median
from typing import Literal, TypeAlias

from mansard.core.clock import SYSTEM_CLOCK, Clock
from mansard.core.errors import MeasurementError
from mansard.measuring.metering import UNMETERED, Metered
from mansard.measuring.protocol import Protocol
from mansard.measuring.raw_samples import RawSample, SampleSource, rejection

# Of all samples of a trial so far: why each does not count; None: it does.
Judge: TypeAlias = Callable[[Sequence[RawSample]], list[str | None]]

CONFIDENCE = 0.95
_MAX_REPETITIONS = 2**40
_PAUSE_S = 0.02  # between blocks: long enough for another guest's burst to have passed
_WARM_UP_MAX_S = 0.3
_WARM_UP_SAMPLES = 5
_WARM_UP_CHANGE = 0.01  # warm once two medians in a row agree to this


@dataclass(frozen=True)
class Samples:
    """The samples of one trial. All seconds are of one repetition.

    With ``stability`` "stable" there are at least the protocol's accepted samples and
    blocks, and ``stability_interval`` is below its limit. Otherwise ``stability_reason``
    says what is missing; ``seconds_s`` may then even be empty.
    """

    repetitions_per_sample: int
    seconds_s: tuple[float, ...]
    block: tuple[int, ...]
    rejected_s: tuple[float, ...]
    rejected_reason: tuple[str, ...]
    stability: Literal["stable", "unstable"]
    stability_interval: float | None  # relative half width of the interval of block medians
    stability_reason: str | None  # None when stable
    interrupted: bool  # told to stop before the protocol was through
    vector_bytes: int | None = None  # of the variant that ran, where there are several
    clock_hz: tuple[float, ...] | None = None  # of an SM during each accepted sample
    disturbances: tuple[str, ...] = ()  # why the trial is kept but never averaged in
    energy: Metered = UNMETERED
    cpu_s: tuple[float, ...] | None = None  # of each sample, accepted or not; None: not of all


@dataclass
class _Collected:
    """The samples of a trial so far; with every block it is judged anew which of them count."""

    raw: list[RawSample] = field(default_factory=list)
    block: list[int] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)  # why a sample does not count
    n_blocks: int = 0

    def add(self, raw: list[RawSample], judge: Judge) -> None:
        self.raw += raw
        self.block += [self.n_blocks] * len(raw)
        self.reasons = judge(self.raw)
        self.n_blocks += 1

    def accepted(self) -> list[tuple[RawSample, int]]:
        """Samples that count, each with its block."""
        judged = zip(self.raw, self.block, self.reasons, strict=True)
        return [(sample, block) for sample, block, reason in judged if reason is None]

    def rejected(self) -> list[tuple[RawSample, str]]:
        """Samples that do not count, each with its reason."""
        judged = zip(self.raw, self.reasons, strict=True)
        return [(sample, reason) for sample, reason in judged if reason is not None]


def collect(
    source: SampleSource,
    protocol: Protocol,
    interval_max: float,
    should_stop: Callable[[], bool] = lambda: False,
    clock: Clock = SYSTEM_CLOCK,
    judge: Judge | None = None,
    *,
    repetitions: int | None = None,
) -> Samples:
    """Calibrate, warm up, and take blocks until they agree or the time is up.

    ``repetitions``: of a sample, if the source is warm already; then calibration and warm-up are
    skipped. ``judge``: returns for each sample so far the reason to reject it, or None; by default
    each sample is judged alone, by ``rejection``.
    """
    judge = judge or partial(_judge_each, cpu_share_min=protocol.cpu_share_min)
    deadline_s = clock.now_s() + protocol.time_cap_s
    if repetitions is None:
        repetitions = calibrate(source, protocol.sample_s, should_stop)
        _warm_up(source, repetitions, should_stop, clock)
    per_block = protocol.n_per_block
    collected = _Collected()
    problem: str | None = "not begun"
    interval = None
    while problem is not None and not should_stop():
        # The first sample of a block finds caches and clocks as the pause left them. One that
        # is a block by itself is so long that this does not show.
        n_dropped = 1 if per_block > 1 else 0
        raw = source.take(per_block + n_dropped, repetitions, should_stop)[n_dropped:]
        collected.add(raw, judge)
        accepted = collected.accepted()
        medians = block_medians([one.duration_s for one, _ in accepted], [b for _, b in accepted])
        interval = relative_half_width(medians)
        problem = _missing(len(accepted), len(medians), interval, protocol, interval_max)
        if clock.now_s() >= deadline_s:
            break
        if problem is not None:
            clock.sleep(_PAUSE_S)
    accepted, rejected = collected.accepted(), collected.rejected()
    clocks_hz = tuple(one.clock_hz for one, _ in accepted if one.clock_hz is not None)
    cpu_s = tuple(one.cpu_s / repetitions for one in collected.raw if one.cpu_s is not None)
    return Samples(
        repetitions_per_sample=repetitions,
        seconds_s=tuple(one.duration_s / repetitions for one, _ in accepted),
        block=tuple(block for _, block in accepted),
        rejected_s=tuple(one.duration_s / repetitions for one, _ in rejected),
        rejected_reason=tuple(reason for _, reason in rejected),
        stability="stable" if problem is None else "unstable",
        stability_interval=interval,
        stability_reason=problem,
        interrupted=problem is not None and should_stop(),
        # All or none: a clock for each sample that counts.
        clock_hz=clocks_hz if clocks_hz and len(clocks_hz) == len(accepted) else None,
        cpu_s=cpu_s if cpu_s and len(cpu_s) == len(collected.raw) else None,
    )


def _judge_each(raw: Sequence[RawSample], cpu_share_min: float) -> list[str | None]:
    return [rejection(sample, cpu_share_min) for sample in raw]


def calibrate(source: SampleSource, sample_s: float, should_stop: Callable[[], bool]) -> int:
    """How many repetitions make a sample last about ``sample_s``; at least one.

    The shortest of a few samples decides, for disturbances only lengthen them.
    Raises MeasurementError when no number of repetitions takes any time.
    """
    repetitions = 1
    while repetitions <= _MAX_REPETITIONS:
        raw = source.take(3, repetitions, should_stop)
        if not raw:
            return repetitions  # told to stop
        shortest_s = min(sample.duration_s for sample in raw)
        if shortest_s >= sample_s / 8:
            return max(1, round(repetitions * sample_s / shortest_s))
        # Short samples tell little about the long run: approach in steps.
        repetitions = min(64 * repetitions, int(repetitions * sample_s / (shortest_s + 1e-9)) + 1)
    raise MeasurementError("the kernel's time is 0", fix="report this: it was optimised away")


def _warm_up(
    source: SampleSource, repetitions: int, should_stop: Callable[[], bool], clock: Clock
) -> None:
    end_s = clock.now_s() + _WARM_UP_MAX_S
    before_s: float | None = None
    while clock.now_s() < end_s and not should_stop():
        raw = source.take(_WARM_UP_SAMPLES, repetitions, should_stop)
        if not raw:
            return
        now_s = median(sample.duration_s for sample in raw)
        if before_s is not None and abs(now_s - before_s) <= _WARM_UP_CHANGE * before_s:
            return
        before_s = now_s


def _missing(
    n_accepted: int,
    n_blocks: int,
    interval: float | None,
    protocol: Protocol,
    interval_max: float,
) -> str | None:
    """What the protocol still asks for; None when it is satisfied."""
    if n_accepted == 0:
        return "every sample was disturbed by other work on this machine"
    if n_accepted < protocol.n_accepted_min or n_blocks < protocol.n_blocks_min:
        return (
            f"undisturbed samples: {n_accepted} of {protocol.n_accepted_min} that are needed, "
            f"in {n_blocks} of {protocol.n_blocks_min} blocks"
        )
    if interval is None:
        return f"{n_blocks} blocks are too few for an interval"
    if interval > interval_max:
        return f"block medians differ: half-width {interval:.1%} (limit {interval_max:.1%})"
    return None


def block_medians(seconds_s: Sequence[float], blocks: Sequence[int]) -> tuple[float, ...]:
    """The median of each block that has samples, in the order the blocks first appear."""
    by_block: dict[int, list[float]] = {}
    for value, block in zip(seconds_s, blocks, strict=True):
        by_block.setdefault(block, []).append(value)
    return tuple(median(values) for values in by_block.values())


def interval_rank(n_values: int, confidence: float = CONFIDENCE) -> int | None:
    """The rank k for which [x(k), x(n+1-k)] holds the median with at least ``confidence``.

    The number of values below the median is binomial(n, 1/2), so the interval misses
    with probability 2·P(fewer than k below). None where even the extremes miss too
    often, which is below six values at 95 %.
    """
    missed, rank = 0, 0
    while rank < n_values:
        missed += 2 * comb(n_values, rank)
        if missed / 2**n_values > 1 - confidence:  # a float holds no 2**1024
            break
        rank += 1
    return rank or None


def median_interval(
    values: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Lower and upper end of the interval of the median; None for too few values."""
    rank = interval_rank(len(values), confidence)
    if rank is None:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[-rank]


def relative_half_width(values: Sequence[float], confidence: float = CONFIDENCE) -> float | None:
    """Half the width of the interval over the median; None for too few values."""
    interval = median_interval(values, confidence)
    if interval is None:
        return None
    low, high = interval
    return (high - low) / 2 / median(values)
