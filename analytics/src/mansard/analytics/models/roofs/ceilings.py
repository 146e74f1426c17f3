"""The limits of a machine from the rates of its trials: peaks and bandwidths.

A trial that something disturbed is in no ceiling; where all that belong to one were
disturbed, the ceiling is unknown, and the reason says so. One that did not settle counts only
where no other that belongs there did. A peak is of one precision, on CUDA cores or on tensor
cores. Of several kernels and backends the best is the roof; all of them are kept as candidates.
Trials with constant operands are left out: they show what values cost, and in ceilings of
power-limited modes they would stand above what real data reach.

A bandwidth is of the working sets that run from one level of memory, by the sizes of the caches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from mansard.analytics.data.names import display_text
from mansard.analytics.models.roofs.rates import TrialRate, estimate, members
from mansard.core.caches import DRAM_MARGIN as GPU_DRAM_MARGIN
from mansard.core.caches import (
    LevelWindow,
    gpu_level_windows,
    latency_windows,
    level_windows,
    scope_of,
)
from mansard.core.precision import rate_unit
from mansard.core.records import Gpu, MachineIdentity, Record, Scope, Source

# STREAM's rule is arrays of four times the last caches; three are enough for one
# pass over a set that an LRU-like cache cannot keep, two are used where no larger
# set was measured. On a GPU both are larger by the same factor (core/caches.py).
DRAM_MARGIN = 3.0
DRAM_LEAST_MARGIN = 2.0
DRAM = "DRAM"


class Level(Record, frozen=True, kw_only=True):
    """One level of memory as one mode sees it. Bytes over all instances in use.

    Working sets w with low_bytes < w <= high_bytes run from this level; for DRAM
    there is no upper end.
    """

    name: str
    scope: Scope  # of the trials that show it
    capacity_bytes: int | None
    low_bytes: float
    high_bytes: float | None


def memory_levels(machine: MachineIdentity, cpus: Sequence[int]) -> tuple[Level, ...]:
    """The caches in use, from the nearest, and DRAM; capacities in bytes.

    Empty where the system reports no caches: nothing then says which working set
    runs from where.
    """
    if not machine.caches:
        return ()
    windows = level_windows(machine.caches, cpus)
    below = float(windows[-1].capacity_bytes)
    return (*(_cache(window, "core") for window in windows), _dram(DRAM_MARGIN * below, "core"))


def gpu_levels(gpu: Gpu, n_sms: int) -> tuple[Level, ...]:
    """The levels of a GPU with ``n_sms`` SMs on: L1 of all SMs together, L2, DRAM.

    Empty where the size of the L2 is not known.
    """
    if gpu.l2_bytes is None:
        return ()
    return _of_windows(gpu_level_windows(gpu, n_sms), gpu.l2_bytes)


def latency_levels(gpu: Gpu) -> tuple[Level, ...]:
    """The levels that a single thread's loads go through; empty as those of ``gpu_levels``.

    The L2 of a card may be two of them, near and far (core/caches.py).
    """
    if gpu.l2_bytes is None:
        return ()
    return _of_windows(latency_windows(gpu), gpu.l2_bytes)


def _of_windows(windows: Sequence[LevelWindow], l2_bytes: int) -> tuple[Level, ...]:
    caches = (_cache(window, scope_of(window.level)) for window in windows)
    return (*caches, _dram(GPU_DRAM_MARGIN * l2_bytes, "gpu"))


def _cache(window: LevelWindow, scope: Scope) -> Level:
    return Level(
        name=window.name,
        scope=scope,
        capacity_bytes=window.capacity_bytes,
        low_bytes=window.low_bytes,
        high_bytes=window.high_bytes,
    )


def _dram(low_bytes: float, scope: Scope) -> Level:
    return Level(
        name=DRAM,
        scope=scope,
        capacity_bytes=None,
        low_bytes=low_bytes,
        high_bytes=None,
        unknown={
            "capacity_bytes": "the roof does not need the size of main memory",
            "high_bytes": "main memory is the last level",
        },
    )


def in_level(level: Level, working_set_bytes: float, least: float | None = None) -> bool:
    """Whether a working set runs from ``level``; ``least`` replaces its lower end."""
    low = level.low_bytes if least is None else least
    return low < working_set_bytes and (
        level.high_bytes is None or working_set_bytes <= level.high_bytes
    )


STREAM_TOLERANCE = 0.05  # block medians of memory kernels are stopped at 3 %
# The streams that every plan has, in their usual order; others follow by their names.
STREAM_KERNELS = ("read", "copy", "scale", "triad")
STORING_KERNELS = STREAM_KERNELS[1:]

RateUnit = Literal["FLOP/s", "OP/s", "B/s"]
CeilingFamily = Literal["fma", "tensor", "stream"]


class Ceiling(Record, frozen=True, kw_only=True):
    """One limit of the machine: FLOP/s of a precision, or bytes/s of a memory level.

    Of integers it is OP/s.
    """

    subject: str  # a precision, or a level
    family: CeilingFamily  # fma: on CUDA cores or the CPU; tensor: on tensor cores
    kernel: str | None
    backend: str | None
    unit: RateUnit
    value: float | None
    low: float | None  # 95 % interval
    high: float | None
    n_blocks: int
    trial_ids: tuple[str, ...]
    sets_bytes: tuple[int, int] | None  # the least and the greatest working set of these trials
    n_disturbed: int  # trials that belong here and were left out
    stable: bool | None
    source: Source | None
    # Of the trials that were left out, where none is left: their rate, and its 95 % interval.
    disturbed: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """What it limits, in a word or two: fp16, fp16 tensor, DRAM."""
        return f"{self.subject} tensor" if self.family == "tensor" else self.subject


def best_of(ceilings: Sequence[Ceiling]) -> Ceiling:
    """The highest of ceilings of one kind; if none has a value, the one with the best reason.

    Highest by the lower end of the interval: of several noisy rates the greatest is mostly
    the luckiest, and a wide interval must not make a roof.
    """
    measured = [c for c in ceilings if c.value is not None]
    if measured:
        return max(measured, key=lambda c: (c.low is not None, c.low or c.value or 0.0))
    return max(ceilings, key=lambda c: c.n_disturbed)


def settled_of(ceilings: Sequence[Ceiling]) -> list[Ceiling]:
    """Those with a value that rest on settled trials alone; where there is none, all of them."""
    measured = [ceiling for ceiling in ceilings if ceiling.value is not None]
    return [row for row in measured if row.stable is not False] or measured


def find_bandwidth(level: Level, kernel: str, sweep: Sequence[TrialRate]) -> Ceiling:
    """The bandwidth of one kernel from one memory level, from its sweep over working sets.

    Only trials of the level's scope count; of several backends the best one does.
    """
    of_level = [rate for rate in sweep if rate.scope == level.scope]
    backends = sorted({rate.backend for rate in of_level})
    if not backends:
        return missing(level.name, "stream", kernel, "B/s", _why_empty(level, kernel, of_level))
    ceilings = [
        _bandwidth(level, kernel, [rate for rate in of_level if rate.backend == backend])
        for backend in backends
    ]
    return best_of(settled_of(ceilings) or ceilings)


def _bandwidth(level: Level, kernel: str, sweep: Sequence[TrialRate]) -> Ceiling:
    starts = [level.low_bytes]
    if level.name == DRAM:
        # The level's lower end is put at DRAM_MARGIN times the last capacity, or in step.
        starts.append(level.low_bytes * DRAM_LEAST_MARGIN / DRAM_MARGIN)
    inside: list[TrialRate] = []
    for start in starts:
        inside = [rate for rate in sweep if in_level(level, rate.working_set_bytes, start)]
        if any(not rate.disturbances for rate in inside):
            break
    if not inside:
        return missing(level.name, "stream", kernel, "B/s", _why_empty(level, kernel, sweep))
    return ceiling_of(level.name, "stream", "B/s", inside, STREAM_TOLERANCE)


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


def ceiling_of(
    subject: str,
    family: CeilingFamily,
    unit: RateUnit,
    trials: Sequence[TrialRate],
    tolerance: float,
) -> Ceiling:
    """The plateau of ``trials``, which are of one kernel and one backend; at least one."""
    kernel, backend = trials[0].kernel, trials[0].backend
    calm = [rate for rate in trials if not rate.disturbances]
    n_disturbed = len(trials) - len(calm)
    if not calm:
        reason = _all_disturbed(trials)
        rough = estimate([rate.blocks for rate in trials])
        known = (value for value in (rough.value, rough.low, rough.high) if value is not None)
        without = missing(subject, family, kernel, unit, reason, n_disturbed)
        return replace(without, disturbed=tuple(known))
    # What did not settle may stand anywhere, twice as high as the memory or the units allow.
    counted = [rate for rate in calm if not rate.unstable] or calm
    chosen = [counted[at] for at in members([rate.blocks for rate in counted], tolerance)]
    estimated = estimate([rate.blocks for rate in chosen])
    sizes = [rate.working_set_bytes for rate in chosen]
    reason = f"too few blocks ({estimated.n_blocks}) to show their own spread"
    return Ceiling(
        subject=subject,
        family=family,
        kernel=kernel,
        backend=backend,
        unit=unit,
        value=estimated.value,
        low=estimated.low,
        high=estimated.high,
        n_blocks=estimated.n_blocks,
        trial_ids=tuple(sorted(rate.trial_id for rate in chosen)),
        sets_bytes=(min(sizes), max(sizes)),
        n_disturbed=n_disturbed,
        stable=not any(rate.unstable for rate in chosen),
        source="simulated" if any(rate.source == "simulated" for rate in chosen) else "measured",
        unknown={} if estimated.low is not None else {"low": reason, "high": reason},
    )


def _all_disturbed(trials: Sequence[TrialRate]) -> str:
    reasons = Counter(reason for rate in trials for reason in rate.disturbances)
    # The commonest; of equally common ones the first by name, so that rows' order is no matter.
    commonest = min(reasons, key=lambda reason: (-reasons[reason], reason))
    which = "its only trial was" if len(trials) == 1 else f"all {len(trials)} trials were"
    return f"{which} disturbed: {display_text(commonest)}"


def missing(
    subject: str,
    family: CeilingFamily,
    kernel: str | None,
    unit: RateUnit,
    reason: str,
    n_disturbed: int = 0,
) -> Ceiling:
    """A ceiling without a value, and the reason."""
    names = ["value", "low", "high", "sets_bytes", "stable", "source", "backend"]
    return Ceiling(
        subject=subject,
        family=family,
        kernel=kernel,
        backend=None,
        unit=unit,
        value=None,
        low=None,
        high=None,
        n_blocks=0,
        trial_ids=(),
        sets_bytes=None,
        n_disturbed=n_disturbed,
        stable=None,
        source=None,
        unknown=dict.fromkeys([*names, *([] if kernel else ["kernel"])], reason),
    )


FMA_LEAST = 64  # from here on the loads and stores around the chain cost nothing visible
TOLERANCE = 0.03  # the flatness asked of the kernel
_FAMILIES: tuple[CeilingFamily, ...] = ("fma", "tensor")


def find_candidates(rates: Sequence[TrialRate]) -> tuple[Ceiling, ...]:
    """A compute ceiling for each family, precision, kernel and backend that was run.

    In the order fma before tensor, narrow precisions' names first.
    """
    chosen = [rate for rate in rates if rate.operands == "chaotic"]
    candidates = []
    for family in _FAMILIES:
        kinds = {(r.precision, r.backend, r.kernel) for r in chosen if r.family == family}
        for precision, backend, kernel in sorted(kinds, key=lambda kind: (len(kind[0]), kind)):
            trials = [
                rate
                for rate in chosen
                if (rate.precision, rate.backend, rate.kernel) == (precision, backend, kernel)
                and rate.family == family
            ]
            candidates.append(_candidate(family, trials))
    return tuple(candidates)


def find_peaks(candidates: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """The best candidate of each family and precision, in their order."""
    kinds = dict.fromkeys((c.family, c.subject) for c in candidates)
    return tuple(
        best_of([c for c in candidates if (c.family, c.subject) == kind]) for kind in kinds
    )


def _candidate(family: CeilingFamily, trials: Sequence[TrialRate]) -> Ceiling:
    precision, kernel = trials[0].precision, trials[0].kernel
    # A matrix product has no chain: all of it counts.
    long = [r for r in trials if r.fma_per_element is None or r.fma_per_element >= FMA_LEAST]
    if not long:
        reason = f"no {precision} chain of at least {FMA_LEAST} FMA per element gave a rate"
        return missing(precision, family, kernel, rate_unit(precision), reason)
    return ceiling_of(precision, family, rate_unit(precision), long, TOLERANCE)
