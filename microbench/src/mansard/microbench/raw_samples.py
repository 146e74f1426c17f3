"""One sample as it was read, where samples come from, and which of them count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol as Seam


@dataclass(frozen=True)
class RawSample:
    """What was read around one sample, over all its threads."""

    duration_s: float  # from the first thread's start to the last thread's end
    cpu_share: float  # least of all threads: CPU time over wall time
    n_switches: int  # involuntary context switches of all threads
    started_s: float  # monotonic clock


class SampleSource(Seam):
    """Where samples come from: threads on real CPUs, or a recording in a test."""

    def take(
        self, n_samples: int, repetitions: int, should_stop: Callable[[], bool]
    ) -> list[RawSample]:
        """Up to ``n_samples``; fewer only when told to stop."""


def rejection(sample: RawSample, cpu_share_min: float) -> str | None:
    """Why a sample does not count; None if it does."""
    if sample.n_switches > 0:
        return f"{sample.n_switches} involuntary context switches"
    if sample.cpu_share <= cpu_share_min:
        return f"CPU time is {sample.cpu_share:.3f} of wall time"
    return None
