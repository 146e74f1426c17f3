"""What the trials of a card say of its limits: figures with their targets, judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev

from mansard.core.caches import dram_low_bytes
from mansard.core.hardware import Unit, sm_flop_per_cycle
from mansard.core.records import Gpu, Trial

FP32_TARGET, DRAM_TARGET, TENSOR_TARGET = 0.97, 0.90, 0.90
TWIN_TARGET = 0.03  # Numba beside CUDA C++ on the same kernel
ENERGY_TARGET = 0.02  # coefficient of variation of repeated windows
_PEAK_CHAIN = 64  # FMA per element from which a chain waits for nothing but arithmetic


@dataclass(frozen=True)
class Figure:
    """One number with its target; ``value`` is None where it could not be had."""

    name: str
    value: float | None
    target: str
    holds: bool | None
    note: str

    @property
    def verdict(self) -> str:
        """In a word."""
        return {True: "holds", False: "DOES NOT HOLD", None: "not measured"}[self.holds]


def at_least(name: str, value: float | None, target: float, note: str) -> Figure:
    """A figure that must reach its target."""
    holds = None if value is None else value >= target
    return Figure(name, value, f"≥ {target:g}", holds, note)


def at_most(name: str, value: float | None, target: float, note: str) -> Figure:
    """A figure that must not exceed its target."""
    holds = None if value is None else value <= target
    return Figure(name, value, f"≤ {target:g}", holds, note)


def share_of_peak(trial: Trial, gpu: Gpu) -> float | None:
    """FLOP a cycle and SM over the limit, at the clock of each sample; None without a limit."""
    unit: Unit = "tensor" if trial.family == "tensor" else "fma"
    limit = sm_flop_per_cycle(gpu.sm, trial.precision, unit)
    if limit is None or trial.clock_hz is None or not trial.n_sms or not trial.seconds_s:
        return None
    pairs = zip(trial.seconds_s, trial.clock_hz, strict=True)
    return median(trial.work_flop / (s * hz) for s, hz in pairs) / (limit * trial.n_sms)


def card_figures(
    trials: Sequence[Trial], gpu: Gpu, memory_bytes_per_s: float | None
) -> tuple[Figure, ...]:
    """Every figure that the trials of a run give, by the limits of its card."""
    return (
        _fp32(trials, gpu),
        _memory(trials, gpu, memory_bytes_per_s),
        *_tensor(trials, gpu),
        *_twins(trials),
    )


def _chaotic(trials: Iterable[Trial], family: str) -> list[Trial]:
    return [
        one
        for one in trials
        if one.family == family and one.operands == "chaotic" and one.memory == "device"
    ]


def _best(trials: Sequence[Trial], gpu: Gpu) -> tuple[float | None, str]:
    """The largest share, and which trial reached it."""
    shares = [(share, one) for one in trials if (share := share_of_peak(one, gpu)) is not None]
    if not shares:
        return None, "no limit is known, or no trial counted its clock"
    share, one = max(shares, key=lambda pair: pair[0])
    clock_mhz = median(one.clock_hz or ()) / 1e6
    return share, f"{one.kernel} ({one.backend}) on {one.n_sms} SMs at {clock_mhz:.0f} MHz"


def _fp32(trials: Sequence[Trial], gpu: Gpu) -> Figure:
    chains = [
        one
        for one in _chaotic(trials, "fma")
        if one.precision == "fp32"
        and one.backend == "cupy"
        and (one.fma_per_element or 0) >= _PEAK_CHAIN
    ]
    return at_least("fp32 FMA, share of the limit", *_with_target(_best(chains, gpu), FP32_TARGET))


def _with_target(found: tuple[float | None, str], target: float) -> tuple[float | None, float, str]:
    value, note = found
    return value, target, note


def _memory(trials: Sequence[Trial], gpu: Gpu, limit: float | None) -> Figure:
    name = "read from memory, share of the limit"
    low = dram_low_bytes(gpu.l2_bytes or 0)
    rates = [
        one.traffic_bytes / median(one.seconds_s)
        for one in _chaotic(trials, "stream")
        if one.kernel == "read" and one.backend == "cupy" and one.scope == "gpu"
        if one.working_set_bytes > low and one.seconds_s
    ]
    if not rates or limit is None:
        return at_least(name, None, DRAM_TARGET, "no trial, or the memory's limit is not known")
    note = f"{max(rates) / 1e9:.1f} of {limit / 1e9:.1f} GB/s"
    return at_least(name, max(rates) / limit, DRAM_TARGET, note)


def _tensor(trials: Sequence[Trial], gpu: Gpu) -> Iterator[Figure]:
    tensor = _chaotic(trials, "tensor")
    precisions = list(dict.fromkeys(one.precision for one in tensor))
    for precision in precisions:
        if sm_flop_per_cycle(gpu.sm, precision, "tensor") is None:
            continue
        found = _best([one for one in tensor if one.precision == precision], gpu)
        name = f"tensor cores {precision}, share of the limit"
        yield at_least(name, *_with_target(found, TENSOR_TARGET))


def _twins(trials: Sequence[Trial]) -> Iterator[Figure]:
    """Numba's rate over that of CUDA C++, of each kernel that both have at one size."""
    rates = {}
    for one in trials:
        if one.operands == "chaotic" and one.memory == "device" and one.seconds_s:
            key = (one.kernel, one.precision, one.working_set_bytes, one.fma_per_element)
            rates[key, one.backend] = 1 / median(one.seconds_s)
    for (key, backend), rate in rates.items():
        beside = rates.get((key, "cupy"))
        if backend == "numba-cuda" and beside is not None:
            ratio = rate / beside
            note = f"its rate is {ratio:.3f} of that of CUDA C++"
            yield at_most(f"Numba {key[0]} {key[1]}, behind CuPy", 1 - ratio, TWIN_TARGET, note)


def energy_figure(joules_per_repetition: Sequence[float], reason: str) -> Figure:
    """How much the energy of one kernel varies from window to window."""
    name = "energy of repeated windows, coefficient of variation"
    if len(joules_per_repetition) < 3:
        return at_most(name, None, ENERGY_TARGET, reason or "fewer than three windows")
    share = stdev(joules_per_repetition) / mean(joules_per_repetition)
    return at_most(name, share, ENERGY_TARGET, f"{len(joules_per_repetition)} windows")
