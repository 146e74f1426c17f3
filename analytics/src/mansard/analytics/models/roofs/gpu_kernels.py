"""Each kernel and backend of a GPU beside its limit, its latencies, and what a launch takes.

The limit is taken at the SM count and the median SM clock of the trials themselves:
arithmetic SMs × FLOP per cycle and SM × f (core/hardware/peaks.py); main memory
2 × f_mem × bus / 8, on a Jetson never more than its GPU's port moves (docs/understand/model.md).

Latency is how long one dependent load takes from each level: one thread follows a random cycle
through the working set, so each load waits for the one before. A level's latency is the plateau of
its trials, those within 5 % of the fastest: in larger sets translation of addresses adds to it. An
L2 of two partitions has two latencies: of sets that one of them holds beside the SM ("near"), and
of sets that only both hold ("far"), some of whose loads are near as well.

What a launch takes is the time of an empty kernel, launched one by one or as a node of a graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from mansard.analytics.models.roofs.ceilings import (
    DRAM,
    Ceiling,
    Level,
    best_of,
    find_bandwidth,
    in_level,
    latency_levels,
)
from mansard.analytics.models.roofs.rates import TrialRate, estimate, members
from mansard.core.hardware import MODULES, Module, Unit, memory_bytes_per_s, sm_flop_per_cycle
from mansard.core.records import Gpu, Manifest, Record, with_known

# Of a limit; above it something was miscounted. What a Jetson's port moves is known to 2 %.
MOST_SHARE = 1.02
MOST_MEMORY_SHARE = 1.05


class KernelComparison(Record, frozen=True, kw_only=True):
    """One kernel of one backend: its rate, beside the best of its kind and its limit."""

    ceiling: Ceiling
    ratio: float | None  # to the best of its kind
    limit: float | None  # of the hardware at the clock and SM count measured, as the ceiling
    share: float | None  # of that limit
    clock_hz: float | None  # of the SMs, median over its trials

    @property
    def most_share(self) -> float:
        """The share above which something was miscounted."""
        return MOST_MEMORY_SHARE if self.ceiling.family == "stream" else MOST_SHARE


def compare_kernels(
    manifest: Manifest,
    rates: Sequence[TrialRate],
    candidates: Sequence[Ceiling],
    levels: Sequence[Level],
) -> tuple[KernelComparison, ...]:
    """A comparison for each candidate and each kernel from main memory; none without a GPU."""
    if manifest.gpu is None:
        return ()
    by_id = {rate.trial_id: rate for rate in rates}
    groups = [*_groups(candidates)]
    for level in levels:
        if level.name == DRAM:
            groups += _groups(_memory_candidates(level, rates))
    return tuple(
        _comparison(ceiling, best_of(group), manifest, by_id)
        for group in groups
        for ceiling in group
    )


def _groups(ceilings: Sequence[Ceiling]) -> list[list[Ceiling]]:
    """Those that do the same in another way, together."""
    groups: dict[tuple[str, ...], list[Ceiling]] = {}
    for ceiling in ceilings:
        kernel = (ceiling.kernel or "") if ceiling.family == "stream" else ""
        groups.setdefault((ceiling.family, ceiling.subject, kernel), []).append(ceiling)
    return list(groups.values())


def _memory_candidates(level: Level, rates: Sequence[TrialRate]) -> list[Ceiling]:
    streams = [
        rate
        for rate in rates
        if rate.family == "stream" and rate.scope == level.scope and rate.operands == "chaotic"
    ]
    kinds = sorted({(rate.memory == "zero-copy", rate.kernel, rate.backend) for rate in streams})
    candidates = []
    for zero_copy, kernel, backend in kinds:
        sweep = [
            rate
            for rate in streams
            if (rate.memory == "zero-copy", rate.kernel, rate.backend)
            == (zero_copy, kernel, backend)
        ]
        # Host memory that the GPU reads in place is no other way to the same: a kind of its own.
        name = f"{kernel}, zero-copy" if zero_copy else kernel
        ceiling = find_bandwidth(level, kernel, sweep)
        if ceiling.value is not None or ceiling.n_disturbed:
            candidates.append(with_known(ceiling, kernel=name, backend=backend))
    return candidates


def _comparison(
    ceiling: Ceiling, best: Ceiling, manifest: Manifest, by_id: Mapping[str, TrialRate]
) -> KernelComparison:
    trials = [by_id[trial_id] for trial_id in ceiling.trial_ids]
    clock_hz = measured_clock_hz(trials)
    gpu = manifest.gpu
    assert gpu is not None  # noqa: S101 - compare_kernels has looked
    if ceiling.family == "stream":
        limit, why_not = memory_limit(manifest, gpu, clock_hz)
    else:
        limit, why_not = _compute_limit(ceiling, gpu, trials, clock_hz)
    value, reasons = ceiling.value, {}
    if limit is None:
        reasons["limit"] = why_not
    if value is None:
        reasons |= dict.fromkeys(("ratio", "share"), ceiling.unknown["value"])
    elif limit is None:
        reasons["share"] = why_not
    if clock_hz is None:
        reasons["clock_hz"] = "no kernel measured the clock"
    return KernelComparison(
        ceiling=ceiling,
        ratio=None if value is None or best.value is None else value / best.value,
        limit=limit,
        share=None if value is None or limit is None else value / limit,
        clock_hz=clock_hz,
        unknown=reasons,
    )


def measured_clock_hz(rates: Sequence[TrialRate]) -> float | None:
    """The median over trials of the SM clock that their kernels measured, Hz."""
    clocks = [rate.clock_hz for rate in rates if rate.clock_hz is not None]
    return median(clocks) if clocks else None


def _compute_limit(
    ceiling: Ceiling, gpu: Gpu, trials: Sequence[TrialRate], clock_hz: float | None
) -> tuple[float | None, str]:
    unit: Unit = "tensor" if ceiling.family == "tensor" else "fma"
    per_cycle = sm_flop_per_cycle(gpu.sm, ceiling.subject, unit)
    n_sms = next((rate.n_sms for rate in trials if rate.n_sms is not None), gpu.n_sms)
    if per_cycle is None:
        return None, f"the {ceiling.name} FLOP/cycle of an sm_{gpu.sm} are unknown"
    if clock_hz is None:
        return None, "no kernel measured the clock"
    return n_sms * per_cycle * clock_hz, ""


def memory_limit(manifest: Manifest, gpu: Gpu, clock_hz: float | None) -> tuple[float | None, str]:
    """The most that main memory can move, bytes/s; where it is not known, why."""
    module = _module(manifest)
    if gpu.mig is not None:
        return None, "the share of the memory's bandwidth of a MIG slice is unknown"
    if gpu.is_integrated and module is None:
        return None, "CUDA does not tell the memory clock of an integrated GPU"
    bus_bits = module.memory_bus_bits if module else gpu.memory_bus_bits
    own_hz = module.highest_memory_hz if module else gpu.memory_hz
    memory_hz = manifest.mode_read_back.memory_hz or own_hz
    if bus_bits is None or memory_hz is None:
        return None, "the width or the clock of the memory bus is unknown"
    peak = memory_hz * 2 * bus_bits / 8
    port_bytes = module.memory_port_bytes if module else None
    if port_bytes is None or clock_hz is None:
        return peak, ""
    return min(peak, port_bytes * clock_hz), ""


def cpu_memory_limit(manifest: Manifest) -> float | None:
    """The most that the memory of a known module can move for its CPU, bytes/s; else None."""
    module = _module(manifest)
    if module is None:
        return None
    return memory_bytes_per_s(module, manifest.mode_read_back.memory_hz or module.highest_memory_hz)


def _module(manifest: Manifest) -> Module | None:
    board = manifest.machine.board
    return None if board is None or board.part_number is None else MODULES.get(board.part_number)


TOLERANCE = 0.05


class Latency(Record, frozen=True, kw_only=True):
    """Seconds of one load from one level, with the 95 % interval, and SM cycles."""

    level: str
    value_s: float | None
    low_s: float | None
    high_s: float | None
    cycles: float | None
    trial_ids: tuple[str, ...]
    n_disturbed: int


def find_latencies(gpu: Gpu | None, rates: Sequence[TrialRate]) -> tuple[Latency, ...]:
    """The latency of each level that a single thread sees; empty where none was measured."""
    loads = [rate for rate in rates if rate.family == "latency" and rate.memory != "zero-copy"]
    if gpu is None or not loads:
        return ()
    latencies = []
    for level in latency_levels(gpu):
        # Loads of the scope gpu go past L1; those through it miss it in larger sets.
        seen = [rate for rate in loads if level.scope != "sm" or rate.scope == "sm"]
        inside = [rate for rate in seen if in_level(level, rate.working_set_bytes)]
        latencies.append(_latency(level.name, inside))
    return tuple(latencies)


@dataclass(frozen=True)
class _SecondsOfOne:
    """Seconds of one load or one launch: the inverse of the trials' rates."""

    value_s: float
    low_s: float | None
    high_s: float | None
    trials: tuple[TrialRate, ...]
    unknown: dict[str, str]

    @staticmethod
    def of(calm: Sequence[TrialRate]) -> _SecondsOfOne:
        chosen = [calm[at] for at in members([rate.blocks for rate in calm], TOLERANCE)]
        rate = estimate([rate.blocks for rate in chosen])
        few = f"too few blocks ({rate.n_blocks}) to show their own spread"
        seconds = rate.inverse()
        return _SecondsOfOne(
            value_s=seconds.value,
            low_s=seconds.low,
            high_s=seconds.high,
            trials=tuple(chosen),
            unknown={} if rate.is_bounded else {"low_s": few, "high_s": few},
        )

    @property
    def trial_ids(self) -> tuple[str, ...]:
        return tuple(sorted(rate.trial_id for rate in self.trials))


def _latency(level: str, inside: Sequence[TrialRate]) -> Latency:
    calm = [rate for rate in inside if not rate.disturbances]
    n_disturbed = len(inside) - len(calm)
    if not calm:
        reason = "all its trials were disturbed" if inside else f"no working set lies in {level}"
        names = ("value_s", "low_s", "high_s", "cycles")
        return Latency(
            level=level,
            value_s=None,
            low_s=None,
            high_s=None,
            cycles=None,
            trial_ids=(),
            n_disturbed=n_disturbed,
            unknown=dict.fromkeys(names, reason),
        )
    durations = _SecondsOfOne.of(calm)
    clock_hz = measured_clock_hz(durations.trials)
    unknown = dict(durations.unknown)
    if clock_hz is None:
        unknown["cycles"] = "the kernel did not measure the clock"
    return Latency(
        level=level,
        value_s=durations.value_s,
        low_s=durations.low_s,
        high_s=durations.high_s,
        cycles=None if clock_hz is None else clock_hz * durations.value_s,
        trial_ids=durations.trial_ids,
        n_disturbed=n_disturbed,
        unknown=unknown,
    )


class KernelLaunch(Record, frozen=True, kw_only=True):
    """What it takes to start an empty kernel, s; None where nothing undisturbed tells."""

    kernel: str  # "launch": one by one; "graph": as a node of a CUDA graph
    value_s: float | None
    low_s: float | None
    high_s: float | None
    trial_ids: tuple[str, ...]
    n_disturbed: int
    stable: bool | None


ONE_BY_ONE = "launch"


def find_launches(rates: Sequence[TrialRate]) -> tuple[KernelLaunch, ...]:
    """One for each kernel of the family that was run, launches one by one first."""
    of_family = [rate for rate in rates if rate.family == "launch"]
    kernels = {rate.kernel for rate in of_family}
    return tuple(
        _launch(kernel, [rate for rate in of_family if rate.kernel == kernel])
        for kernel in sorted(kernels, key=lambda name: (name != ONE_BY_ONE, name))
    )


def _launch(kernel: str, trials: Sequence[TrialRate]) -> KernelLaunch:
    calm = [rate for rate in trials if not rate.disturbances]
    n_disturbed = len(trials) - len(calm)
    if not calm:
        names = ("value_s", "low_s", "high_s", "stable")
        return KernelLaunch(
            kernel=kernel,
            value_s=None,
            low_s=None,
            high_s=None,
            trial_ids=(),
            n_disturbed=n_disturbed,
            stable=None,
            unknown=dict.fromkeys(names, "all its trials were disturbed"),
        )
    durations = _SecondsOfOne.of([rate for rate in calm if not rate.unstable] or calm)
    return KernelLaunch(
        kernel=kernel,
        value_s=durations.value_s,
        low_s=durations.low_s,
        high_s=durations.high_s,
        trial_ids=durations.trial_ids,
        n_disturbed=n_disturbed,
        stable=not any(rate.unstable for rate in durations.trials),
        unknown=durations.unknown,
    )
