"""Where a compute and a memory ceiling meet.

Of the kernels that were run from one level of memory one makes its roof. A roof bounds every mix of
loads and stores, so it is the fastest kernel. Two kinds are left out:

- One that did not settle, where another did: its rate may be of a moment, not of the memory.
- One that is faster than the others allow. A kernel that loads r and stores s arrays takes between
  max(r·a, s·b) and r·a + s·b for each element, where a load takes a and a store b. With the same
  overlap its rate is at most (r + s)/(r' + s') · max(r'/r, s'/s) times the rate of a kernel that
  loads r' and stores s': a copy at most 2 times a read, 4/3 times a triad, 1 times a scale.
  LOOSE allows for another overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.machines import machine_id, processor_of
from mansard.analytics.data.names import processor_name, run_labels
from mansard.analytics.models.roofs.ceilings import (
    DRAM,
    STREAM_KERNELS,
    Ceiling,
    CeilingFamily,
    Level,
    best_of,
    find_bandwidth,
    find_candidates,
    find_peaks,
    gpu_levels,
    memory_levels,
    missing,
    settled_of,
)
from mansard.analytics.models.roofs.gpu_kernels import (
    KernelComparison,
    KernelLaunch,
    Latency,
    compare_kernels,
    find_latencies,
    find_launches,
    measured_clock_hz,
)
from mansard.analytics.models.roofs.rates import TrialRate, trial_rates
from mansard.core.hardware import sm_flop_per_cycle
from mansard.core.hardware.machine_names import machine_words
from mansard.core.precision import rate_unit
from mansard.core.records import Manifest, PowerMode, Processor, Record, Scope, Source

LOOSE = 1.25
# Arrays that are loaded and stored: docs/understand/measuring.md. Of other kernels nothing is
# known.
_LOADS_AND_STORES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"read": (1, 0), "copy": (1, 1), "scale": (1, 1), "triad": (2, 1)}
)
NOT_SETTLED = "did not settle as others did"
TOO_FAST = "is faster than the other kernels allow"


@dataclass(frozen=True)
class RoofChoice:
    """``roof``: the ceiling with the highest lower end; ``traffic``: the rate of networks' traffic.

    ``left_out``: kernels that would have made the roof, each with the reason why it does not.
    """

    roof: Ceiling
    traffic: Ceiling
    left_out: tuple[tuple[Ceiling, str], ...]


def choose_roof(ceilings: Sequence[Ceiling]) -> RoofChoice:
    """The roof of some ceilings, at least one, of one level; without a value where none has one.

    Most of what a network moves it reads: weights, and the inputs of each layer. So its traffic is
    priced at the rate of ``read`` where that counts, and is no faster than the roof.
    """
    measured = [ceiling for ceiling in ceilings if ceiling.value is not None]
    settled = settled_of(measured)
    fast = {id(candidate) for candidate in settled if _is_too_fast(candidate, settled)}
    counted = [candidate for candidate in settled if id(candidate) not in fast]
    roof = best_of(counted or ceilings)
    reads = [
        candidate
        for candidate in counted
        if candidate.kernel == "read" and _prices(candidate, roof)
    ]
    left_out = [
        (row, TOO_FAST if id(row) in fast else NOT_SETTLED)
        for row in measured
        if all(row is not one for one in counted) and best_of([roof, row]) is row
    ]
    return RoofChoice(roof, reads[0] if reads else roof, tuple(left_out))


def _prices(reads: Ceiling, roof: Ceiling) -> bool:
    """Whether reads are no faster than the roof, and known as well."""
    is_known = reads.low is not None or roof.low is None
    return is_known and _rate(reads) <= _rate(roof)


def _is_too_fast(kernel: Ceiling, others: Sequence[Ceiling]) -> bool:
    """Whether most of the other kernels, beyond noise, show that ``kernel`` cannot be that fast."""
    bounds = [
        other.high * bound
        for other in others
        if other is not kernel
        and other.high is not None  # without an interval it may itself be what is wrong
        and (bound := most_ratio(kernel.kernel, other.kernel)) is not None
    ]
    least = kernel.low or _rate(kernel)
    return 2 * sum(least > LOOSE * bound for bound in bounds) > len(bounds)


def most_ratio(kernel: str | None, other: str | None) -> float | None:
    """The most that the rate of ``kernel`` can be of that of ``other``; None: not bounded."""
    if kernel is None or other is None or not {kernel, other} <= _LOADS_AND_STORES.keys():
        return None
    loads, stores = _LOADS_AND_STORES[kernel]
    other_loads, other_stores = _LOADS_AND_STORES[other]
    if other_stores and not stores:
        return None  # nothing tells how fast loads are beside stores
    share = max(other_loads / loads, other_stores / stores if stores else 0.0)
    return (loads + stores) / (other_loads + other_stores) * share


def _rate(ceiling: Ceiling) -> float:
    return ceiling.value or 0.0


class Ridge(Record, frozen=True, kw_only=True):
    """Where compute and memory ceilings meet, FLOP/byte; the interval is the corners'.

    Of integers it is OP/byte.
    """

    precision: str
    family: CeilingFamily
    level: str
    value: float
    low: float | None
    high: float | None

    @property
    def name(self) -> str:
        """The peak it belongs to: fp16, fp16 tensor."""
        return f"{self.precision} tensor" if self.family == "tensor" else self.precision


def ridge_of(peak: Ceiling, roof: Ceiling) -> Ridge:
    """The ridge point of two ceilings that have values."""
    assert peak.value  # noqa: S101 - the caller keeps measured ceilings only
    assert roof.value  # noqa: S101 - as above
    known = peak.low and peak.high and roof.low and roof.high
    reason = "one of its ceilings has no interval"
    return Ridge(
        precision=peak.subject,
        family=peak.family,
        level=roof.subject,
        value=peak.value / roof.value,
        low=peak.low / roof.high if known else None,  # type: ignore[operator]
        high=peak.high / roof.low if known else None,  # type: ignore[operator]
        unknown={} if known else {"low": reason, "high": reason},
    )


# Which of the usual kernels show a level: stores of a GPU go past its L1, and it has no scale. Any
# other kernel shows the levels that it was run in.
_KERNELS: Mapping[Scope, tuple[str, ...]] = MappingProxyType(
    {"core": STREAM_KERNELS, "sm": ("read",), "gpu": ("read", "copy", "triad")}
)


class Roofline(Record, frozen=True, kw_only=True):
    """All ceilings of one run: one processor, one power mode, one plan.

    ``bandwidths`` holds every kernel at every level; ``bandwidth`` picks the roof. On a GPU
    ``kernel_comparisons`` and ``latencies`` say how its kernels stand beside their limits, and
    ``launches`` what it takes to start one.
    """

    run_id: str
    machine_id: str
    machine: str  # the processor that computed: a GPU's own name
    host: str  # the machine that it is in
    processor: Processor
    mode: str
    label: str
    source: Source  # "measured", or "simulated" where the machine is
    n_cpus: int | None  # None: published without it
    n_sms: int | None  # that were on
    clock_hz: float | None  # of the SMs, median over the trials
    levels: tuple[Level, ...]
    peaks: tuple[Ceiling, ...]
    bandwidths: tuple[Ceiling, ...]
    kernel_comparisons: tuple[KernelComparison, ...]
    latencies: tuple[Latency, ...]
    launches: tuple[KernelLaunch, ...]

    @property
    def full_name(self) -> str:
        """The processor, with the machine that it is in where that has another name."""
        is_named = self.machine.startswith(self.host)  # a Jetson's GPU has the board's name
        return self.machine if is_named else f"{self.machine} in {self.host}"

    def peak(self, precision: str, family: CeilingFamily = "fma") -> Ceiling:
        """The compute ceiling of ``precision``; without a value where none was measured."""
        for ceiling in self.peaks:
            if (ceiling.subject, ceiling.family) == (precision, family):
                return ceiling
        reason = f"no {precision} peak was measured in mode {self.mode}"
        return missing(precision, family, None, rate_unit(precision), reason)

    def bandwidth(self, level: str) -> Ceiling:
        """The roof of ``level``, which bounds every mix of loads and stores."""
        choice = self._choice(level)
        if choice is not None and choice.roof.value is not None:
            return choice.roof
        if choice is not None:
            # Without any value, a kernel that was disturbed says more than one not run.
            why = choice.roof.unknown["value"]
            return missing(level, "stream", None, "B/s", why, choice.roof.n_disturbed)
        reason = (
            f"this machine has no level {level}"
            if self.levels
            else "the system reports no caches, so no working set can be placed in a level"
        )
        return missing(level, "stream", None, "B/s", reason)

    def traffic_bandwidth(self, level: str = DRAM) -> Ceiling:
        """What the traffic of networks is priced at: loads, where they were measured alone."""
        choice = self._choice(level)
        is_known = choice is not None and choice.traffic.value is not None
        return choice.traffic if choice is not None and is_known else self.bandwidth(level)

    def left_out(self, level: str) -> tuple[tuple[Ceiling, str], ...]:
        """Kernels that do not make the roof of ``level`` though they were fastest, and why."""
        choice = self._choice(level)
        return () if choice is None else choice.left_out

    def _choice(self, level: str) -> RoofChoice | None:
        of_level = [c for c in self.bandwidths if c.subject == level]
        return choose_roof(of_level) if of_level else None

    def ridges(self) -> tuple[Ridge, ...]:
        """Ridge points of every measured precision and level."""
        return tuple(
            ridge_of(peak, roof)
            for peak in self.peaks
            if peak.value is not None
            for roof in (self.bandwidth(level.name) for level in self.levels)
            if roof.value is not None
        )

    def ridge(
        self, precision: str, level: str = DRAM, family: CeilingFamily = "fma"
    ) -> Ridge | None:
        """One ridge point, or None where a ceiling is missing."""
        for ridge in self.ridges():
            if (ridge.precision, ridge.level, ridge.family) == (precision, level, family):
                return ridge
        return None


def rooflines(dataset: Dataset, rates: Sequence[TrialRate] | None = None) -> tuple[Roofline, ...]:
    """One roofline per run, sorted by machine, cores, clocks and label; runs are never mixed."""
    by_run: dict[str, list[TrialRate]] = {}
    for rate in trial_rates(dataset) if rates is None else rates:
        by_run.setdefault(rate.run_id, []).append(rate)
    labels = run_labels(dataset.manifests)
    roofs = [
        roofline(manifest, by_run.get(manifest.run_id, []), labels[manifest.run_id])
        for manifest in dataset.manifests
    ]
    clocks = {m.run_id: _clocks(m.mode_read_back) for m in dataset.manifests}
    return tuple(sorted(roofs, key=lambda r: (r.machine, r.n_cpus or 0, clocks[r.run_id], r.label)))


def _clocks(mode: PowerMode) -> tuple[float, float, float]:
    return (mode.gpu_hz or 0.0, mode.cpu_hz or 0.0, mode.memory_hz or 0.0)


def roofline(manifest: Manifest, rates: Sequence[TrialRate], label: str) -> Roofline:
    """The ceilings of one run from the rates of its trials."""
    mode, gpu = manifest.mode_read_back, manifest.gpu
    processor = processor_of(manifest)
    rates = [_on_its_unit(rate, manifest) for rate in rates if rate.processor == processor]
    cpus = rates[0].cpus if rates else manifest.machine.cpus[: mode.n_cpus]
    n_sms, clock_hz, unknown = _state(manifest, rates)
    if gpu is None:
        levels = memory_levels(manifest.machine, cpus)
    else:
        levels = gpu_levels(gpu, n_sms or gpu.n_sms)
    candidates = find_candidates(rates)
    return Roofline(
        run_id=manifest.run_id,
        machine_id=machine_id(manifest.machine),
        machine=processor_name(manifest),
        host=machine_words(manifest.machine.name) if gpu is not None else processor_name(manifest),
        processor=processor,
        mode=mode.name,
        label=label,
        source=_source(manifest, rates),
        n_cpus=mode.n_cpus,
        n_sms=n_sms,
        clock_hz=clock_hz,
        levels=levels,
        peaks=find_peaks(candidates),
        bandwidths=_bandwidths(levels, rates),
        kernel_comparisons=compare_kernels(manifest, rates, candidates, levels),
        latencies=find_latencies(gpu, rates),
        launches=find_launches(rates),
        unknown=unknown,
    )


def _on_its_unit(rate: TrialRate, manifest: Manifest) -> TrialRate:
    """A library's matrix product in a precision without tensor cores runs on CUDA cores."""
    if rate.family != "tensor" or rate.precision not in {"fp32", "fp64"} or manifest.gpu is None:
        return rate
    has_tensor = sm_flop_per_cycle(manifest.gpu.sm, rate.precision, "tensor") is not None
    return rate if has_tensor else replace(rate, family="fma")


def _state(
    manifest: Manifest, rates: Sequence[TrialRate]
) -> tuple[int | None, float | None, dict[str, str]]:
    """SMs that were on and their median clock in Hz, and why one of them is not known."""
    if manifest.gpu is None:
        return None, None, dict.fromkeys(("n_sms", "clock_hz"), "the kernels ran on the CPU")
    n_sms = next((rate.n_sms for rate in rates if rate.n_sms is not None), manifest.gpu.n_sms)
    clock_hz = measured_clock_hz(rates)
    return n_sms, clock_hz, {} if clock_hz else {"clock_hz": "no kernel measured the clock"}


def _bandwidths(levels: Sequence[Level], rates: Sequence[TrialRate]) -> tuple[Ceiling, ...]:
    # Host memory that a GPU reads in place is no level of its own memory.
    streams = [rate for rate in rates if rate.family == "stream" and rate.operands == "chaotic"]
    cached = [rate for rate in streams if rate.memory != "zero-copy"]
    others = sorted(
        {(rate.kernel, rate.scope) for rate in cached if rate.kernel not in STREAM_KERNELS}
    )
    return tuple(
        find_bandwidth(level, kernel, [rate for rate in cached if rate.kernel == kernel])
        for level in levels
        for kernel in (
            *_KERNELS[level.scope],
            *(kernel for kernel, scope in others if scope == level.scope),
        )
    )


def _source(manifest: Manifest, rates: Sequence[TrialRate]) -> Source:
    made_up = manifest.machine.is_simulated or any(rate.source == "simulated" for rate in rates)
    return "simulated" if made_up else "measured"
