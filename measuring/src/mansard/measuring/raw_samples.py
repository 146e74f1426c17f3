"""One sample as it was read, where samples come from, and which of them count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol as Seam


@dataclass(frozen=True)
class RawSample:
    """What was read around one sample, over all its threads or the whole GPU.

    What a processor does not have is None: shares and switches of a GPU, a clock of CPUs.
    """

    duration_s: float  # from the first thread's start to the last thread's end
    started_s: float  # monotonic clock
    cpu_share: float | None = None  # least of all threads: CPU time over wall time
    n_switches: int | None = None  # involuntary context switches of all threads
    clock_hz: float | None = None  # of an SM, counted by the kernel itself
    waited_s: float | None = None  # that threads were ready and had no CPU, over all of them
    cpu_s: float | None = None  # that they ran on one, over all of them


class SampleSource(Seam):
    """Where samples come from: threads on real CPUs, a GPU, or a recording in a test."""

    def take(
        self, n_samples: int, repetitions: int, should_stop: Callable[[], bool]
    ) -> list[RawSample]:
        """Up to ``n_samples``; fewer only when told to stop."""


def rejection(sample: RawSample, cpu_share_min: float) -> str | None:
    """Why a sample of CPUs does not count; None if it does."""
    if sample.n_switches:
        return f"{sample.n_switches} involuntary context switches"
    if sample.cpu_share is not None and sample.cpu_share <= cpu_share_min:
        return f"CPU time is {sample.cpu_share:.3f} of wall time"
    if sample.waited_s is not None:
        waited_share = sample.waited_s / sample.duration_s
        if waited_share >= 1 - cpu_share_min:
            return (
                f"other processes used the CPU: threads waited {waited_share:.2g} s in each second"
            )
    return None


def waited_s(raw: Sequence[RawSample]) -> float:
    """How long samples of CPUs lasted without all of their threads running, at most."""
    return sum(_waited_s(sample) for sample in raw)


def _waited_s(sample: RawSample) -> float:
    if sample.waited_s is not None:  # over all threads: they may have waited at once
        return min(sample.waited_s, sample.duration_s)
    if sample.cpu_share is not None:
        return max(0.0, 1 - sample.cpu_share) * sample.duration_s
    return 0.0
