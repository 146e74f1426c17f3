"""What the hardware of a published device can do at most: rates, and times of known networks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal

from mansard.core.hardware import (
    MODULES,
    SETTINGS,
    Module,
    boards_called,
    memory_bytes_per_s,
    peak_flop_per_s,
)
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
    """What it can do at the clocks of ``mode``, in ``unit_of``; at its highest where it says none.

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
    """A mode that says no clock and no SMs: limits are the module's highest then."""
    left_out: dict[str, Any] = dict.fromkeys(SETTINGS)
    return PublishedMode(name=mode.name, **left_out, unknown=dict.fromkeys(SETTINGS, "left out"))


def least_time_s(
    run: PublishedRun, modules: Sequence[Module], mode: PublishedMode
) -> tuple[float, str] | None:
    """The shortest time of a network of the zoo on any of ``modules``, and what bounds it.

    Its work at the highest rate of any format, with sparsity and Winograd; its weights once over
    the bus to memory, but for what a cache holds. None where the network or the device is unknown.
    """
    entry = _zoo_entry(run.network)
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


def _zoo_entry(network: str) -> Entry | None:
    return _by_plain_name().get(_plain(network))


@cache
def _by_plain_name() -> dict[str, Entry]:
    # The work of one with other dimensions, such as a sequence, depends on what they were.
    fixed = (entry for entry in CATALOG if [name for name, _ in entry.dims] == ["batch"])
    return {_plain(entry.name): entry for entry in fixed if entry.published_macs}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())
