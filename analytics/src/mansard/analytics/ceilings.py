"""The limits of a machine from the rates of its trials: peaks and bandwidths.

A trial that something disturbed is in no ceiling; where all that belong to one were
disturbed, the ceiling is unknown, and the reason says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from mansard.analytics.levels import DRAM, DRAM_LEAST_MARGIN, DRAM_MARGIN, Level, in_level
from mansard.analytics.names import shown_long
from mansard.analytics.plateau import estimate, members
from mansard.analytics.rates import TrialRate
from mansard.core.records import Record, Source

FMA_LEAST = 64  # from here on the loads and stores around the chain cost nothing visible
FMA_TOLERANCE = 0.03  # the flatness asked of the kernel
STREAM_TOLERANCE = 0.05  # block medians of memory kernels are stopped at 3 %
STREAM_KERNELS = ("read", "copy", "scale", "triad")

Unit = Literal["FLOP/s", "B/s"]


class Ceiling(Record, frozen=True, kw_only=True):
    """One limit of the machine: FLOP/s of a precision, or bytes/s of a memory level."""

    subject: str  # a precision, or a level
    kernel: str | None
    unit: Unit
    value: float | None
    low: float | None  # 95 % interval
    high: float | None
    n_blocks: int
    trial_ids: tuple[str, ...]
    n_disturbed: int  # trials that belong here and were left out
    stable: bool | None
    source: Source | None


def find_peaks(rates: Sequence[TrialRate]) -> tuple[Ceiling, ...]:
    """The compute ceiling of each precision that was run, narrow ones first."""
    chains = [rate for rate in rates if rate.family == "fma"]
    precisions = sorted({rate.precision for rate in chains}, key=lambda name: (len(name), name))
    return tuple(_peak(name, [r for r in chains if r.precision == name]) for name in precisions)


def _peak(precision: str, chains: Sequence[TrialRate]) -> Ceiling:
    long = [rate for rate in chains if (rate.fma_per_element or 0) >= FMA_LEAST]
    if not long:
        reason = f"no {precision} chain of at least {FMA_LEAST} FMA per element gave a rate"
        return missing(precision, "fma", "FLOP/s", reason)
    return _ceiling(precision, "fma", "FLOP/s", long, FMA_TOLERANCE)


def find_bandwidth(level: Level, kernel: str, sweep: Sequence[TrialRate]) -> Ceiling:
    """The bandwidth of one kernel from one memory level, from its sweep over working sets."""
    starts = [level.low_bytes]
    if level.name == DRAM:
        # memory_levels puts DRAM's lower end at DRAM_MARGIN times the last capacity.
        starts.append(level.low_bytes * DRAM_LEAST_MARGIN / DRAM_MARGIN)
    inside: list[TrialRate] = []
    for start in starts:
        inside = [rate for rate in sweep if in_level(level, rate.working_set_bytes, start)]
        if any(not rate.disturbances for rate in inside):
            break
    if not inside:
        return missing(level.name, kernel, "B/s", _why_empty(level, kernel, sweep))
    return _ceiling(level.name, kernel, "B/s", inside, STREAM_TOLERANCE)


def _why_empty(level: Level, kernel: str, sweep: Sequence[TrialRate]) -> str:
    if not sweep:
        return f"the kernel {kernel} was not measured"
    if level.high_bytes is None:
        return f"no {kernel} working set above {level.low_bytes:.0f} bytes gave a rate"
    if level.high_bytes <= level.low_bytes:
        return f"{level.name} is too small beside the caches below it for a set of its own"
    return (
        f"no {kernel} working set between {level.low_bytes:.0f} and "
        f"{level.high_bytes:.0f} bytes gave a rate"
    )


def _ceiling(
    subject: str, kernel: str, unit: Unit, trials: Sequence[TrialRate], tolerance: float
) -> Ceiling:
    calm = [rate for rate in trials if not rate.disturbances]
    n_disturbed = len(trials) - len(calm)
    if not calm:
        return missing(subject, kernel, unit, _all_disturbed(trials), n_disturbed)
    chosen = [calm[at] for at in members([rate.blocks for rate in calm], tolerance)]
    found = estimate([rate.blocks for rate in chosen])
    reason = f"too few blocks ({found.n_blocks}) to show their own spread"
    return Ceiling(
        subject=subject,
        kernel=kernel,
        unit=unit,
        value=found.value,
        low=found.low,
        high=found.high,
        n_blocks=found.n_blocks,
        trial_ids=tuple(sorted(rate.trial_id for rate in chosen)),
        n_disturbed=n_disturbed,
        stable=not any(rate.unstable for rate in chosen),
        source="simulated" if any(rate.source == "simulated" for rate in chosen) else "measured",
        unknown={} if found.low is not None else {"low": reason, "high": reason},
    )


def _all_disturbed(trials: Sequence[TrialRate]) -> str:
    reasons = Counter(reason for rate in trials for reason in rate.disturbances)
    # The commonest; of equally common ones the first by name, so that rows' order is no matter.
    commonest = min(reasons, key=lambda reason: (-reasons[reason], reason))
    which = "its only trial was" if len(trials) == 1 else f"all {len(trials)} trials were"
    return f"{which} disturbed: {shown_long(commonest)}"


def missing(
    subject: str, kernel: str | None, unit: Unit, reason: str, n_disturbed: int = 0
) -> Ceiling:
    """A ceiling without a value, and the reason."""
    names = ["value", "low", "high", "stable", "source", *([] if kernel else ["kernel"])]
    return Ceiling(
        subject=subject,
        kernel=kernel,
        unit=unit,
        value=None,
        low=None,
        high=None,
        n_blocks=0,
        trial_ids=(),
        n_disturbed=n_disturbed,
        stable=None,
        source=None,
        unknown=dict.fromkeys(names, reason),
    )
