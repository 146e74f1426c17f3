"""At which frequency each clock is to be held in a power mode."""

from __future__ import annotations

from pathlib import Path

from mansard.core.errors import UsageError
from mansard.core.frequency import (
    Frequency,
    find_frequency,
    format_frequency,
    highest_up_to,
    nearest_first,
)
from mansard.core.records import PowerMode
from mansard.device.clocks.domain import Domain
from mansard.device.clocks.emc import Emc

_MHZ = 1e6


def cpu_target(root: Path, mode: PowerMode, cluster: Domain, *, is_set: bool) -> float | None:
    """The clock of a cluster in ``mode``, in Hz; None leaves it alone. Raises UsageError.

    ``is_set``: nvpmodel has set the mode, so that the caps in force are the mode's own.
    """
    if mode.clusters and not any(set(one.cpus) & set(cluster.cpus) for one in mode.clusters):
        return None  # it is off in this mode
    named = _cluster_cap(mode, cluster)
    if mode.kind == "nvpmodel":
        return _cap(root, cluster, named, is_set=is_set)
    if named is not None:
        return match(root, cluster, named)
    if mode.clusters or mode.cpu_hz is None:
        return None
    # One figure for all: it is the fastest cluster's, and the others get as near as they can.
    tops = cluster.available_hz
    return match(root, cluster, min(mode.cpu_hz, tops[-1]) if tops else mode.cpu_hz)


def _cluster_cap(mode: PowerMode, cluster: Domain) -> float | None:
    for wanted in mode.clusters:
        if set(wanted.cpus) & set(cluster.cpus):
            return wanted.max_hz
    return None


def gpu_target(root: Path, mode: PowerMode, gpu: Domain | None, *, is_set: bool) -> float | None:
    """The GPU's clock in ``mode``, in Hz; None leaves it alone. Raises UsageError."""
    if mode.kind == "nvpmodel":
        return _cap(root, gpu, mode.gpu_hz, is_set=is_set) if gpu is not None else None
    if mode.gpu_hz is None:
        return None
    if gpu is None:
        raise _no_clock("GPU", mode.gpu_hz)
    return match(root, gpu, mode.gpu_hz)


def emc_target(root: Path, mode: PowerMode, emc: Emc | None, *, is_set: bool) -> float | None:
    """The memory clock in ``mode``, in Hz; None leaves it alone. Raises UsageError."""
    if mode.kind == "nvpmodel":
        return _emc_cap(root, mode, emc, is_set=is_set) if emc is not None else None
    if mode.memory_hz is None:
        return None
    if emc is None:
        raise _no_clock("memory", mode.memory_hz)
    return match(root, emc.domain, mode.memory_hz)


def _emc_cap(root: Path, mode: PowerMode, emc: Emc, *, is_set: bool) -> float | None:
    if is_set:
        top_hz = emc.top_hz(root)
        return floor(emc.domain, top_hz) if top_hz is not None else None
    ceilings = [emc.lock and emc.domain.read_hz(root, emc.lock.ceiling), mode.memory_hz]
    known = [ceiling for ceiling in (*ceilings, *emc.domain.available_hz[-1:]) if ceiling]
    return floor(emc.domain, min(known)) if known else None


def _cap(root: Path, domain: Domain, cap_hz: float | None, *, is_set: bool) -> float | None:
    """The highest available frequency up to a cap; without one the highest of all."""
    ceiling = domain.read_hz(root, domain.max_path) if is_set else cap_hz
    if ceiling is None:
        return domain.available_hz[-1] if domain.available_hz else None
    return floor(domain, ceiling)


def floor(domain: Domain, ceiling_hz: float) -> float:
    """The highest available frequency up to a ceiling, or the lowest if all are above it."""
    if not domain.available_hz:
        return ceiling_hz
    return highest_up_to(ceiling_hz, domain.available_hz, is_continuous=domain.is_continuous)


def match(root: Path, domain: Domain, wanted_hz: float) -> float:
    """The available frequency that ``wanted_hz`` stands for; raises UsageError.

    A whole number of MHz stands for the entry that prints as it: 1190 MHz for 1190.4 MHz. Where
    the kernel does not say what is available it is tried, and found out by reading back.
    """
    available = domain.available_hz
    if not available or wanted_hz == domain.read_hz(root, domain.max_path):
        return wanted_hz
    if domain.is_continuous and available[0] <= wanted_hz <= available[-1]:
        return wanted_hz
    slack_hz = _MHZ if wanted_hz % _MHZ == 0 else domain.unit_hz
    found = find_frequency(Frequency(wanted_hz, slack_hz), available)
    if found is None:
        raise UsageError(
            f"{format_frequency(wanted_hz)} is no frequency of {domain.name}",
            fix=f"available, nearest first: {nearest_first(wanted_hz, available)}",
        )
    return found


def _no_clock(what: str, wanted_hz: float) -> UsageError:
    return UsageError(
        f"this machine shows no {what} clock that could be set to {format_frequency(wanted_hz)}",
        fix="leave it out, or run as root: some clocks are shown to root alone",
    )
