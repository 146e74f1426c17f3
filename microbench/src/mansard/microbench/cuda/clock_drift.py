"""Which samples of a GPU count: those that ran at the trial's own SM clock."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

from mansard.measuring.raw_samples import RawSample

CLOCK_TOLERANCE = 0.01  # of the trial's median clock
# Of the samples; where more ran at another clock, the trial is disturbed. Those that count are
# at the median clock anyhow; energy windows, which judge no sample, are not.
REJECTED_SHARE = 0.5
_NO_CLOCK = "the kernel left no clock"


def judge_clocks(raw: Sequence[RawSample]) -> list[str | None]:
    """Why each sample does not count: its clock lies off the median of all; None if it does.

    A sample without a clock counts only where none has one.
    """
    known = [sample.clock_hz for sample in raw if sample.clock_hz is not None]
    if not known:
        return [None] * len(raw)
    middle_hz = median_low(known)  # the clock of a sample: between two clocks lies none
    return [_reason(sample.clock_hz, middle_hz) for sample in raw]


def _reason(clock_hz: float | None, middle_hz: float) -> str | None:
    if clock_hz is None:
        return _NO_CLOCK
    change = clock_hz / middle_hz - 1
    if abs(change) <= CLOCK_TOLERANCE:
        return None
    return (
        f"SM clock {clock_hz / 1e6:.0f} MHz is {change:+.1%} off the trial's median "
        f"{middle_hz / 1e6:.0f} MHz"
    )


def describe_drift(n_accepted: int, reasons: Sequence[str]) -> str | None:
    """Why a trial is disturbed: too much of it ran at other clocks; None if it is not."""
    n_off = sum(reason != _NO_CLOCK for reason in reasons)
    n_samples = n_accepted + len(reasons)
    if n_off <= REJECTED_SHARE * n_samples:
        return None
    return (
        f"the SM clock drifted: {n_off} of {n_samples} samples ran more than "
        f"{CLOCK_TOLERANCE:.0%} off its median"
    )
