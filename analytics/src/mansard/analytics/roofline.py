"""The measured ceilings of each machine and power mode, and where they meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from mansard.analytics.dataset import Dataset, machine_id
from mansard.analytics.levels import DRAM, DRAM_LEAST_MARGIN, DRAM_MARGIN, Level, memory_levels
from mansard.analytics.names import run_labels, shown_long
from mansard.analytics.plateau import estimate, members
from mansard.analytics.rates import TrialRate, trial_rates
from mansard.core.records import Manifest, PowerMode, Record, Source

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


class Ridge(Record, frozen=True, kw_only=True):
    """Where compute and memory ceilings meet, FLOP/byte; the interval is the corners'."""

    precision: str
    level: str
    value: float
    low: float | None
    high: float | None


class Roofline(Record, frozen=True, kw_only=True):
    """All ceilings of one run: one machine, one power mode, one plan.

    ``bandwidths`` holds every kernel at every level; ``bandwidth`` picks the roof.
    """

    run_id: str
    machine_id: str
    machine: str
    mode: str
    label: str
    source: Source  # "measured", or "simulated" where the machine is
    n_cpus: int
    levels: tuple[Level, ...]
    peaks: tuple[Ceiling, ...]
    bandwidths: tuple[Ceiling, ...]

    def peak(self, precision: str) -> Ceiling:
        """The compute ceiling of ``precision``; without a value where none was measured."""
        for ceiling in self.peaks:
            if ceiling.subject == precision:
                return ceiling
        return _missing(
            precision, None, "FLOP/s", f"no {precision} peak was measured in mode {self.mode}"
        )

    def bandwidth(self, level: str) -> Ceiling:
        """The roof of ``level``: its fastest kernel, since a roof must bound every mix.

        Fastest by the lower end of the interval: of several noisy rates the greatest is
        mostly the luckiest, and a wide interval must not make a roof.
        """
        measured = [c for c in self.bandwidths if c.subject == level and c.value is not None]
        if measured:
            return max(measured, key=lambda c: (c.low is not None, c.low or c.value or 0.0))
        without = [c for c in self.bandwidths if c.subject == level]
        if without:  # a kernel that was disturbed says more than one that was not run
            told = max(without, key=lambda c: c.n_disturbed)
            return _missing(level, None, "B/s", told.unknown["value"], told.n_disturbed)
        reason = (
            f"this machine has no level {level}"
            if self.levels
            else "the system reports no caches, so no working set can be placed in a level"
        )
        return _missing(level, None, "B/s", reason)

    def ridges(self) -> tuple[Ridge, ...]:
        """Ridge points of every measured precision and level."""
        return tuple(
            _ridge(peak, roof)
            for peak in self.peaks
            if peak.value is not None
            for roof in (self.bandwidth(level.name) for level in self.levels)
            if roof.value is not None
        )

    def ridge(self, precision: str, level: str = DRAM) -> Ridge | None:
        """One ridge point, or None where a ceiling is missing."""
        for ridge in self.ridges():
            if (ridge.precision, ridge.level) == (precision, level):
                return ridge
        return None


def rooflines(dataset: Dataset, rates: Sequence[TrialRate] | None = None) -> tuple[Roofline, ...]:
    """One roofline per run, sorted by machine, cores, clocks and label; runs are never mixed."""
    by_run: dict[str, list[TrialRate]] = {}
    for rate in trial_rates(dataset) if rates is None else rates:
        by_run.setdefault(rate.run_id, []).append(rate)
    labels = run_labels(dataset.manifests)
    found = [
        roofline(manifest, by_run.get(manifest.run_id, []), labels[manifest.run_id])
        for manifest in dataset.manifests
    ]
    clocks = {m.run_id: _clocks(m.mode_read_back) for m in dataset.manifests}
    return tuple(sorted(found, key=lambda r: (r.machine, r.n_cpus, clocks[r.run_id], r.label)))


def _clocks(mode: PowerMode) -> tuple[float, float, float]:
    return (mode.gpu_hz or 0.0, mode.cpu_hz or 0.0, mode.memory_hz or 0.0)


def roofline(manifest: Manifest, rates: Sequence[TrialRate], label: str) -> Roofline:
    """The ceilings of one run from the rates of its trials."""
    mode = manifest.mode_read_back
    cpus = rates[0].cpus if rates else manifest.machine.cpus[: mode.n_cpus]
    levels = memory_levels(manifest.machine, cpus)
    return Roofline(
        run_id=manifest.run_id,
        machine_id=machine_id(manifest.machine),
        machine=manifest.machine.name,
        mode=mode.name,
        label=label,
        source=_source(manifest, rates),
        n_cpus=mode.n_cpus,
        levels=levels,
        peaks=_peaks(rates),
        bandwidths=tuple(
            _bandwidth(level, kernel, [rate for rate in rates if rate.kernel == kernel])
            for level in levels
            for kernel in STREAM_KERNELS
        ),
    )


def _source(manifest: Manifest, rates: Sequence[TrialRate]) -> Source:
    made_up = manifest.machine.is_simulated or any(rate.source == "simulated" for rate in rates)
    return "simulated" if made_up else "measured"


def in_level(level: Level, working_set_bytes: float, least: float | None = None) -> bool:
    """Whether a working set runs from ``level``; ``least`` replaces its lower end."""
    low = level.low_bytes if least is None else least
    return low < working_set_bytes and (
        level.high_bytes is None or working_set_bytes <= level.high_bytes
    )


def _peaks(rates: Sequence[TrialRate]) -> tuple[Ceiling, ...]:
    chains = [rate for rate in rates if rate.family == "fma"]
    precisions = sorted({rate.precision for rate in chains}, key=lambda name: (len(name), name))
    return tuple(_peak(name, [r for r in chains if r.precision == name]) for name in precisions)


def _peak(precision: str, chains: Sequence[TrialRate]) -> Ceiling:
    long = [rate for rate in chains if (rate.fma_per_element or 0) >= FMA_LEAST]
    if not long:
        reason = f"no {precision} chain of at least {FMA_LEAST} FMA per element was measured"
        return _missing(precision, "fma", "FLOP/s", reason)
    return _ceiling(precision, "fma", "FLOP/s", long, FMA_TOLERANCE)


def _bandwidth(level: Level, kernel: str, sweep: Sequence[TrialRate]) -> Ceiling:
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
        return _missing(level.name, kernel, "B/s", _why_empty(level, kernel, sweep))
    return _ceiling(level.name, kernel, "B/s", inside, STREAM_TOLERANCE)


def _why_empty(level: Level, kernel: str, sweep: Sequence[TrialRate]) -> str:
    if not sweep:
        return f"the kernel {kernel} was not measured"
    if level.high_bytes is None:
        return f"no {kernel} working set above {level.low_bytes:.0f} bytes was measured"
    if level.high_bytes <= level.low_bytes:
        return f"{level.name} is too small beside the caches below it for a set of its own"
    return (
        f"no {kernel} working set between {level.low_bytes:.0f} and "
        f"{level.high_bytes:.0f} bytes was measured"
    )


def _ceiling(
    subject: str, kernel: str, unit: Unit, trials: Sequence[TrialRate], tolerance: float
) -> Ceiling:
    calm = [rate for rate in trials if not rate.disturbances]
    n_disturbed = len(trials) - len(calm)
    if not calm:
        return _missing(subject, kernel, unit, _all_disturbed(trials), n_disturbed)
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


def _missing(
    subject: str, kernel: str | None, unit: Unit, reason: str, n_disturbed: int = 0
) -> Ceiling:
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


def _ridge(peak: Ceiling, roof: Ceiling) -> Ridge:
    assert peak.value  # noqa: S101 - the caller keeps measured ceilings only
    assert roof.value  # noqa: S101 - as above
    known = peak.low and peak.high and roof.low and roof.high
    reason = "one of its ceilings has no interval"
    return Ridge(
        precision=peak.subject,
        level=roof.subject,
        value=peak.value / roof.value,
        low=peak.low / roof.high if known else None,  # type: ignore[operator]
        high=peak.high / roof.low if known else None,  # type: ignore[operator]
        unknown={} if known else {"low": reason, "high": reason},
    )
