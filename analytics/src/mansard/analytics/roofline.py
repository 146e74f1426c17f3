"""The measured ceilings of each machine and power mode, and where they meet."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.ceilings import (
    STREAM_KERNELS,
    Ceiling,
    find_bandwidth,
    find_peaks,
    missing,
)
from mansard.analytics.dataset import Dataset, machine_id
from mansard.analytics.levels import DRAM, Level, memory_levels
from mansard.analytics.names import run_labels
from mansard.analytics.rates import TrialRate, trial_rates
from mansard.core.records import Manifest, PowerMode, Record, Source


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
        return missing(
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
            return missing(level, None, "B/s", told.unknown["value"], told.n_disturbed)
        reason = (
            f"this machine has no level {level}"
            if self.levels
            else "the system reports no caches, so no working set can be placed in a level"
        )
        return missing(level, None, "B/s", reason)

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
        peaks=find_peaks(rates),
        bandwidths=tuple(
            find_bandwidth(level, kernel, [rate for rate in rates if rate.kernel == kernel])
            for level in levels
            for kernel in STREAM_KERNELS
        ),
    )


def _source(manifest: Manifest, rates: Sequence[TrialRate]) -> Source:
    made_up = manifest.machine.is_simulated or any(rate.source == "simulated" for rate in rates)
    return "simulated" if made_up else "measured"


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
