"""Published figures that are marked as doubtful: no model and no decision uses them.

Doubts are found each time tables are read, so that they cover earlier imports as well; the stored
file keeps its author's figures.

Limits are the most that the hardware of a device can do: rates, and times of known networks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from statistics import median
from typing import Any, Literal

from mansard.analytics.data.published.claims import ClaimedWork, above_roof, mode_peaks
from mansard.analytics.data.published.columns import TAILS
from mansard.analytics.data.published.importing import Imported
from mansard.analytics.data.published.modes import SLACK, fill_modes
from mansard.analytics.data.published.runs import METERS_SAY
from mansard.analytics.data.quantities import counted, quantity, seconds
from mansard.analytics.data.transients import LEAST_USUAL, MeanSpread, repeat_doubts, spread_doubt
from mansard.core.errors import InputError
from mansard.core.formats.tensorrt import host_bound, least_compute
from mansard.core.hardware import (
    MODULES,
    SETTINGS,
    Module,
    boards_called,
    memory_bytes_per_s,
    peak_flop_per_s,
)
from mansard.core.power_mode import nominal_w
from mansard.core.precision import PRECISIONS, rate_unit
from mansard.core.records import PublishedMode, PublishedRate, PublishedRun
from mansard.estimator.zoo.catalogue import CATALOG, Entry

JETSON_MOST_W = 300.0  # above the power supply of every developer kit
# What no kernel gains together: 2:4 sparsity doubles the dense rate, and Winograd's F(4x4, 3x3)
# does a multiplication for every four of the convolution.
_SPARSE, _WINOGRAD = 2, 4
_CPU_FLOP_PER_CYCLE = 128  # of a core, int8: twice what two vector units of 128 bits do
_CPU_CACHE_BYTES = 16 << 20
_LEAST_BITS = 4


def module_called(name: str) -> Module | None:
    """The module whose name a table's device has, or None."""
    return next((module for module in MODULES.values() if module.name == name), None)


@cache
def modules_called(device: str) -> tuple[Module, ...]:
    """The modules that a table's device may be; empty: it is none that is known."""
    exact = module_called(device)
    if exact is not None:
        return (exact,)
    return tuple({board.module.name: board.module for board in boards_called(device)}.values())


def unit_of(rate: PublishedRate) -> Literal["FLOP/s", "OP/s", "B/s"]:
    """The unit of a peak or a bandwidth."""
    return rate_unit(rate.subject) if rate.quantity == "peak" else "B/s"


def hardware_limit(
    rate: PublishedRate, module: Module | None, mode: PublishedMode | None = None
) -> float | None:
    """The limit of the hardware at the clocks of ``mode``, in ``unit_of``; at its highest clocks if
    the mode has none.

    ``mode``: that of the rate by default. None without a module, and where its hardware's limit is
    not known.
    """
    if module is None:
        return None
    mode = mode or rate.mode
    if rate.quantity == "peak" and rate.processor == "gpu":
        unit = "tensor" if rate.unit == "tensor core" else "fma"
        return _peak(module, mode, rate.subject, unit)
    if rate.quantity == "bandwidth" and rate.subject == "DRAM":
        return memory_bytes_per_s(module, mode.memory_hz or module.highest_memory_hz)
    return None


def _peak(module: Module, mode: PublishedMode, precision: str, unit: str) -> float | None:
    return peak_flop_per_s(
        module,
        n_sms=mode.n_sms or module.n_sms,
        gpu_hz=mode.gpu_hz or module.highest_gpu_hz,
        precision=precision,
        unit="tensor" if unit == "tensor" else "fma",
    )


def peaks(module: Module, mode: PublishedMode) -> Iterator[tuple[str, str, float]]:
    """Every known peak at the clocks of ``mode``: precision, "tensor" or "fma", FLOP/s."""
    for precision in PRECISIONS:
        for unit in ("fma", "tensor"):
            if (peak := _peak(module, mode, precision, unit)) is not None:
                yield precision, unit, peak


def without_clocks(mode: PublishedMode) -> PublishedMode:
    """``mode`` without clocks and SMs, so that limits are the module's highest."""
    left_out: dict[str, Any] = dict.fromkeys(SETTINGS)
    return PublishedMode(name=mode.name, **left_out, unknown=dict.fromkeys(SETTINGS, "left out"))


def least_time_s(
    run: PublishedRun, modules: Sequence[Module], mode: PublishedMode
) -> tuple[float, str] | None:
    """The shortest time of a network of the zoo on any of ``modules``, and what bounds it.

    Its work at the highest rate of any format, with sparsity and Winograd; its weights once over
    the bus to memory, but for what a cache holds. None where the network or the device is unknown.
    """
    entry = _by_plain_name().get(_plain(run.network))
    if entry is None or not modules:
        return None
    return min(_least_on(run, entry, module, mode) for module in modules)


def _least_on(
    run: PublishedRun, entry: Entry, module: Module, mode: PublishedMode
) -> tuple[float, str]:
    flop = 2.0 * (entry.published_macs or 0.0) * (run.batch or 1)
    if run.processor == "cpu":
        cores = mode.n_cpus or module.n_cpus
        clock_hz = mode.cpu_hz or max(cluster.max_hz for cluster in module.cpu_clusters)
        peak, cache_bytes = cores * clock_hz * _CPU_FLOP_PER_CYCLE, _CPU_CACHE_BYTES
    else:
        peak = _SPARSE * max(value for _, _, value in peaks(module, mode))
        cache_bytes = module.l2_bytes or 0
    work_s = flop / _WINOGRAD / peak
    precision = PRECISIONS.get(run.precision or "")
    bits = precision.n_bits if precision else _LEAST_BITS
    moved_bytes = max((entry.published_parameters or 0) * bits / 8 - cache_bytes, 0.0)
    memory_hz = mode.memory_hz or module.highest_memory_hz
    memory_s = moved_bytes / memory_bytes_per_s(module, memory_hz)
    if work_s >= memory_s:
        return work_s, f"its {flop / 1e9:.3g} GFLOP at the highest rate of {module.name}"
    return memory_s, (
        f"its {moved_bytes / 1e6:.3g} MB of weights over the memory of {module.name} at "
        f"{memory_hz / 1e6:.0f} MHz"
    )


@cache
def _by_plain_name() -> dict[str, Entry]:
    # The work of one with other dimensions, such as a sequence, depends on what they were.
    fixed = (entry for entry in CATALOG if [name for name, _ in entry.dims] == ["batch"])
    return {_plain(entry.name): entry for entry in fixed if entry.published_macs}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


ModeOf = Callable[[PublishedRun], PublishedMode]
_WITH_DLAS = 4  # data sheets of AGX Orin: 275 TOP/s of GPU and DLAs with sparsity, 85 dense of it


# Times of networks.


def time_doubts(runs: Sequence[PublishedRun], mode_of: ModeOf) -> dict[int, str]:
    """Why times of ``runs`` are doubtful, by their position. ``mode_of``: with filled settings."""
    doubts: dict[int, str] = {}
    usual = _usual_shares(runs)
    for at, run in enumerate(runs):
        share = usual.get((run.device, run.citation))
        why = _doubt_of_one(run, mode_of(run), share) if run.latency_s is not None else None
        if why is not None:
            doubts[at] = why
    timed = (at for at, run in enumerate(runs) if run.latency_s is not None and at not in doubts)
    for group in _repeats(runs, timed):
        times_s = [run.latency_s for at in group if (run := runs[at]).latency_s is not None]
        if len(group) > 1:
            doubts |= {group[place]: why for place, why in repeat_doubts(times_s).items()}
    return doubts


def _usual_shares(runs: Sequence[PublishedRun]) -> dict[tuple[str, str], float]:
    """What deviations of one author's times on one device usually are of their times."""
    shares: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        if run.latency_s is not None and (spread_s := run.figures.get("deviation_s")) is not None:
            shares.setdefault((run.device, run.citation), []).append(spread_s / run.latency_s)
    return {key: median(its) for key, its in shares.items() if len(its) >= LEAST_USUAL}


def power_doubts(runs: Sequence[PublishedRun]) -> dict[int, str]:
    """Why powers of ``runs`` are doubtful, by their position.

    They differ from those of other repeats, or exceed MOST_NOMINAL times what the mode is named
    after.
    """
    read = [at for at, run in enumerate(runs) if run.power_w is not None and run.remark is None]
    doubts = {at: why for at in read if (why := _nominal_doubt(runs[at])) is not None}
    for group in _repeats(runs, [at for at in read if at not in doubts]):
        powers_w = [power_w for at in group if (power_w := runs[at].power_w) is not None]
        if len(group) == 1:
            continue
        reasons = repeat_doubts(powers_w, lambda power_w: quantity(power_w, "W"))
        doubts |= {group[place]: why for place, why in reasons.items()}
    return doubts


# Meters at the wall show up to 1.5 times what the module draws.
MOST_NOMINAL = 2.0


def _nominal_doubt(run: PublishedRun) -> str | None:
    """That a power is not that of its mode, if it is far above what the mode is named after."""
    nominal = nominal_w(run.mode.name)
    if run.power_w is None or not 0 < nominal < math.inf or run.power_w <= MOST_NOMINAL * nominal:
        return None
    return (
        f"{quantity(run.power_w, 'W')} is over {MOST_NOMINAL:g} times the nominal power of "
        f"{run.mode.name}: the unit or the mode is wrong"
    )


def _repeats(runs: Sequence[PublishedRun], places: Iterable[int]) -> Collection[list[int]]:
    """``places`` in ``runs``, those of one setting together."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for at in places:
        groups.setdefault(_setting(runs[at]), []).append(at)
    return groups.values()


def _setting(run: PublishedRun) -> tuple[object, ...]:
    # How often a tool repeated something is no other way to time it.
    method = re.sub(r"\d+ queries", "queries", run.method or "")
    key = (run.device, run.processor, run.citation, run.mode.name, run.network, run.batch)
    return (*key, run.precision, run.phase, method)


def _spread(run: PublishedRun) -> MeanSpread | None:
    """What a table says beside a mean; a tool that gives all of its queries gives their median."""
    tails = {name: value for tail in TAILS if (value := run.figures.get(name := f"{tail}_s"))}
    deviation_s = run.figures.get("deviation_s")
    if run.figures.get("samples") or (deviation_s is None and not tails):
        return None
    return MeanSpread(run.latency_s or 0.0, deviation_s, tails)


def _doubt_of_one(run: PublishedRun, mode: PublishedMode, usual: float | None) -> str | None:
    time_s, enqueue_s = run.latency_s or 0.0, run.figures.get("enqueue_s")
    if enqueue_s is not None and (why := host_bound(enqueue_s, time_s)) is not None:
        least_s = run.figures.get("least_s")
        gpu_note = f"; {least_compute(least_s)}" if least_s else ""
        return f"{run.remark or why}{gpu_note}"
    if (spread := _spread(run)) is not None and (why := spread_doubt(spread, usual)) is not None:
        return why
    claim = _claim_doubt(run, modules_called(run.device), mode)
    if claim is not None:
        return claim
    least = least_time_s(run, modules_called(run.device), mode)
    if least is not None and time_s * SLACK < least[0]:
        return (
            f"{seconds(time_s)} is less than the {seconds(least[0])} that {least[1]} need in mode "
            f"{mode.name}: its clocks were not those of the mode"
        )
    return None


def _claim_doubt(run: PublishedRun, modules: Sequence[Module], mode: PublishedMode) -> str | None:
    """Why a network of the zoo cannot have run in its precision at the clocks of its mode.

    Of several modules that the device may be, each has to say so; the fastest one's words count.
    """
    entry = _by_plain_name().get(_plain(run.network))
    if entry is None or run.processor != "gpu" or run.precision is None or run.latency_s is None:
        return None
    if run.phase != "inference":
        return None
    work = ClaimedWork(
        {run.precision: 2.0 * (entry.published_macs or 0.0) * (run.batch or 1)}, None
    )
    peaks = [mode_peaks(module, mode.n_sms, mode.gpu_hz) for module in modules]
    claims = [above_roof(run.latency_s, work, its) for its in peaks]
    refused = [claim for claim in claims if claim is not None and claim.is_refused]
    if not refused or len(refused) < len(claims):
        return None
    return min(refused, key=lambda claim: claim.ratio).text


# Rates.


def rate_doubt(
    rate: PublishedRate, mode: PublishedMode, modules: Sequence[Module] | None = None
) -> str | None:
    """Why a rate is doubtful, with the likely cause; None if it is plausible.

    ``modules``: those that the device may be, by its name where None.
    """
    if modules is None:
        modules = modules_called(rate.device)
    limits = [(hardware_limit(rate, module, mode), module) for module in modules]
    known = [(limit, module) for limit, module in limits if limit is not None]
    if not known or len(known) < len(limits):
        return None
    limit, module = max(known, key=lambda pair: pair[0])
    if rate.value <= SLACK * limit:
        return None
    return (
        f"{rate.subject} {rate.quantity} of {_text(rate, rate.value)} in mode {mode.name} is above "
        f"the {_text(rate, limit)} that {module.name} can do: {_cause(rate, mode, module, limit)}"
    )


def _cause(rate: PublishedRate, mode: PublishedMode, module: Module, limit: float) -> str:
    """What may be the reason, and by how much the rate is above or below each limit."""
    causes: list[str] = []
    shares = [f"{rate.value / limit:.3g} times the limit"]
    highest = hardware_limit(rate, module, without_clocks(mode)) or limit
    if highest > limit and rate.value <= SLACK * highest:
        clock = "memory" if rate.quantity == "bandwidth" else "GPU"
        causes.append(f"its {clock} clock was higher")
        shares.append(f"{rate.value / highest:.2g} of it at the highest clocks")
    if rate.quantity == "peak":
        if rate.unit == "tensor core" and rate.value <= 2 * SLACK * limit:
            causes.append("it counts with sparsity, twice the dense rate")
        elif rate.subject == "int8" and rate.value <= _WITH_DLAS * limit:
            causes.append("it counts sparsity and the DLAs, as data sheets do")
        other = [
            (f"{precision.upper()} of {'tensor' if unit == 'tensor' else 'CUDA'} cores", peak)
            for precision, unit, peak in sorted(peaks(module, mode), key=lambda row: row[2])
            if SLACK * peak >= rate.value and (precision, unit) != (rate.subject, _family(rate))
        ]
        for name, peak in other[:1]:
            causes.append(f"it is {name}")
            shares.append(f"{rate.value / peak:.2g} of the {name.split()[0]} peak")
    elif rate.value > SLACK * highest:
        causes.append("a cache was measured")
    why = f"{' or '.join(causes)}, or the unit is wrong" if causes else "the unit is wrong"
    return f"{why} ({', '.join(shares)})"


def _family(rate: PublishedRate) -> str:
    return "tensor" if rate.unit == "tensor core" else "fma"


def _text(rate: PublishedRate, value: float) -> str:
    return quantity(value, unit_of(rate))


# What an import says and refuses.


def doubt_notes(imported: Imported, module: Module | None = None) -> Iterator[str]:
    """A line for each figure of a table that no model uses. ``module``: that the user named."""
    rows = imported.rates or imported.runs
    if not rows:
        return
    modes: Mapping[str, PublishedMode] = {row.mode.name: row.mode for row in rows}
    modes = fill_modes(rows[0].device, rows[0].processor, modes).modes
    modules = (module,) if module is not None and not modules_called(rows[0].device) else None
    for rate in imported.rates:
        if (why := rate_doubt(rate, modes[rate.mode.name], modules)) is not None:
            yield f"line {rate.row}: {why}; {_UNUSED}"
    for at, why in time_doubts(imported.runs, lambda run: modes[run.mode.name]).items():
        yield f"line {imported.runs[at].row}: {why}; {_UNUSED}"
    for at, why in power_doubts(imported.runs).items():
        yield f"line {imported.runs[at].row}: its power: {why}; {_UNUSED}"
    for run in imported.runs:
        if run.remark is not None and METERS_SAY in run.remark:
            yield f"line {run.row}: {run.remark}"
    groups = _repeats(imported.runs, range(len(imported.runs)))
    n_lone = sum(len(group) == 1 for group in groups)
    if 0 < n_lone < len(groups):
        yield (
            f"{counted(n_lone, 'network')} in a mode with one repeat, where others have several:"
            " it may be the first after a switch of the mode"
        )


_UNUSED = "kept, but not used for predictions"


def check_possible(imported: Imported, where: str, module: Module | None) -> None:
    """Raises InputError for a run that its module cannot do in any mode."""
    for run in imported.runs:
        modules = (module,) if module is not None else modules_called(run.device)
        if not modules:
            continue
        least = least_time_s(run, modules, without_clocks(run.mode))
        if run.latency_s is not None and least is not None and run.latency_s * SLACK < least[0]:
            raise InputError(
                f"{run.network} took {run.latency_s * 1e3:.4g} ms, which is impossible: "
                f"{least[1]} need {least[0] * 1e3:.3g} ms",
                where=f"{where}, line {run.row}",
                fix="correct it, the unit, or --module",
            )
        if run.power_w is not None and run.power_w > JETSON_MOST_W:
            raise InputError(
                f"its power is {run.power_w:.4g} W, which is impossible: no {modules[0].name} has "
                f"more than {JETSON_MOST_W:.0f} W",
                where=f"{where}, line {run.row}",
                fix="correct it, the unit, or --module",
            )
