"""The writes that bring clocks and cores to a mode, in an order that the kernel takes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mansard.core.errors import UsageError
from mansard.core.records import CpuCluster, PowerMode
from mansard.core.text import listed
from mansard.core.units import (
    Frequency,
    find_frequency,
    format_frequency,
    highest_up_to,
    nearest_first,
)
from mansard.device.clocks.domains import Domain, Emc
from mansard.device.clocks.settings import Clocks
from mansard.device.system import below, read_int
from mansard.device.topology import online_path

_MHZ = 1e6


def cpu_target(root: Path, mode: PowerMode, cluster: Domain, *, is_set: bool) -> float | None:
    """The clock of a cluster in ``mode``, in Hz; None leaves it alone. Raises UsageError.

    ``is_set``: nvpmodel has set the mode, so that the caps in force are the mode's own.
    """
    if mode.clusters and not any(set(capped.cpus) & set(cluster.cpus) for capped in mode.clusters):
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
    ceilings_hz = [ceiling for ceiling in (*ceilings, *emc.domain.available_hz[-1:]) if ceiling]
    return floor(emc.domain, min(ceilings_hz)) if ceilings_hz else None


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


def as_taken(root: Path, mode: PowerMode, clocks: Clocks) -> PowerMode:
    """A mode of nvpmodel with its caps as this board takes them; any other mode as it is.

    A clock runs at one of its steps: the highest up to the cap, or the lowest of all. A
    configuration that is shared by several modules has caps above the top of some of them. A clock
    without listed steps keeps its cap.
    """
    if mode.kind != "nvpmodel":
        return mode
    clusters = tuple(_cluster_taken(capped, clocks) for capped in mode.clusters)
    capped_hz = [capped.max_hz for capped in clusters if capped.max_hz is not None]
    tops_hz = [floor(domain, mode.cpu_hz) for domain in clocks.cpu if mode.cpu_hz is not None]
    emc = clocks.emc
    ceiling_hz = emc.domain.read_hz(root, emc.lock.ceiling) if emc and emc.lock else None
    memory_hz = min([hz for hz in (mode.memory_hz, ceiling_hz) if hz], default=None)
    return msgspec.structs.replace(
        mode,
        clusters=clusters,
        cpu_hz=max(capped_hz or tops_hz, default=mode.cpu_hz) if mode.cpu_hz is not None else None,
        gpu_hz=floored(clocks.gpu, mode.gpu_hz),
        memory_hz=floored(emc.domain if emc else None, memory_hz) if mode.memory_hz else None,
    )


def _cluster_taken(cluster: CpuCluster, clocks: Clocks) -> CpuCluster:
    # A cluster that is off shows no steps, but all clusters of a module have the same ones.
    domains = [
        domain for domain in clocks.cpu if set(domain.cpus) & set(cluster.cpus)
    ] or clocks.cpu[:1]
    return msgspec.structs.replace(
        cluster, max_hz=floored(domains[0] if domains else None, cluster.max_hz)
    )


def floored(domain: Domain | None, hz: float | None) -> float | None:
    """``hz`` rounded down to a step of its domain; unchanged if either is unknown."""
    return floor(domain, hz) if domain is not None and hz is not None else hz


def match(root: Path, domain: Domain, wanted_hz: float) -> float:
    """The available frequency that ``wanted_hz`` means; raises UsageError.

    A whole number of MHz stands for the entry that prints as it: 1190 MHz for 1190.4 MHz. Where
    the kernel does not say what is available it is tried, and found out by reading back.
    """
    available = domain.available_hz
    if not available or wanted_hz == domain.read_hz(root, domain.max_path):
        return wanted_hz
    if domain.is_continuous and available[0] <= wanted_hz <= available[-1]:
        return wanted_hz
    slack_hz = _MHZ if wanted_hz % _MHZ == 0 else domain.unit_hz
    nearest = find_frequency(Frequency(wanted_hz, slack_hz), available)
    if nearest is None:
        raise UsageError(
            f"{format_frequency(wanted_hz)} is not a frequency of {domain.name}",
            fix=f"available, nearest first: {nearest_first(wanted_hz, available)}",
        )
    return nearest


def _no_clock(what: str, wanted_hz: float) -> UsageError:
    return UsageError(
        f"this machine shows no {what} clock that could be set to {format_frequency(wanted_hz)}",
        fix="leave it out, or run as root: some clocks are shown to root alone",
    )


# The writes that bring a machine to a power mode, in an order the kernel accepts.
#
# Cores are switched on first and off last. A clock is raised by its maximum first and lowered by
# its minimum first, for the kernel refuses or clamps a minimum above the maximum.


class Write(msgspec.Struct, frozen=True):
    """One setting: the board's absolute path, what is written to it, and why."""

    path: str
    value: str
    why: str


def lock_steps(root: Path, mode: PowerMode, clocks: Clocks) -> tuple[Write, ...]:
    """The writes that bring the machine to ``mode``; raises UsageError.

    What nvpmodel itself does is not among them: for its modes these are the locks that follow.
    """
    on, off = core_steps(mode, clocks)
    return (*on, *clock_steps(root, mode, clocks), *off)


def core_steps(mode: PowerMode, clocks: Clocks) -> tuple[tuple[Write, ...], tuple[Write, ...]]:
    """The cores to switch on, and those to switch off; raises UsageError.

    nvpmodel switches cores itself. Those it will switch on are on before, for only then can
    their clocks be read and kept.
    """
    if mode.kind not in {"clocks", "nvpmodel"}:
        return (), ()
    wanted = _wanted_cpus(mode, clocks)
    on = tuple(
        Write(online_path(cpu), "1", f"core {cpu} on")
        for cpu, is_on in clocks.online.items()
        if cpu in wanted and not is_on
    )
    if mode.kind == "nvpmodel":
        return on, ()
    off = tuple(
        Write(online_path(cpu), "0", f"core {cpu} off")
        for cpu, is_on in reversed(clocks.online.items())
        if cpu not in wanted and is_on
    )
    return on, off


def _wanted_cpus(mode: PowerMode, clocks: Clocks) -> frozenset[int]:
    present = frozenset(clocks.online)
    named = frozenset(cpu for cluster in mode.clusters for cpu in cluster.cpus)
    if not named:
        on = [cpu for cpu, is_on in clocks.online.items() if is_on]
        if len(on) == mode.n_cpus or not present:
            return frozenset(on)
        named = frozenset(sorted(present)[: mode.n_cpus])
    if named and named <= present and len(named) == mode.n_cpus:
        return named
    if missing := sorted(named - present):
        what = f"wants core {listed([str(cpu) for cpu in missing])} on, which this machine lacks"
    elif len(named) < mode.n_cpus <= len(present):
        what = f"wants {mode.n_cpus} cores on, and names the clusters of {len(named)} of them"
    else:
        what = f"asks for {mode.n_cpus} cores, {len(present)} are there"
    numbers = f"{min(present)} to {max(present)}" if present else "none"
    raise UsageError(f"{mode.name}: {what}", fix=f"its cores are {numbers}: choose among them")


def clock_steps(
    root: Path, mode: PowerMode, clocks: Clocks, *, is_set: bool = False
) -> tuple[Write, ...]:
    """The writes to the clocks alone; raises UsageError. See ``lock_steps``.

    ``is_set``: nvpmodel has set the mode, so that the caps in force are the mode's own.
    """
    if mode.kind not in {"nvpmodel", "clocks", "cores"}:
        return ()
    is_capped = mode.kind == "nvpmodel"  # the tool has, or will have, set the maximum by then
    writes: list[Write] = []
    for cluster in clocks.cpu:
        hz = cpu_target(root, mode, cluster, is_set=is_set)
        if hz is not None and mode.kind == "cores":
            writes += _cap_only(root, cluster, hz)
        elif hz is not None:
            writes += _hold(root, cluster, hz, is_capped=is_capped)
    if mode.kind == "cores":
        return tuple(writes)
    gpu_hz = gpu_target(root, mode, clocks.gpu, is_set=is_set)
    if gpu_hz is not None and clocks.gpu is not None:
        writes += _hold(root, clocks.gpu, gpu_hz, is_capped=is_capped)
    emc_hz = emc_target(root, mode, clocks.emc, is_set=is_set)
    if emc_hz is not None and clocks.emc is not None:
        writes += _hold_emc(root, clocks.emc, emc_hz, is_capped=is_capped)
    if mode.kind == "clocks" and mode.dla_hz is not None:
        for dla in clocks.dla:
            writes += _cap_only(root, dla, match(root, dla, mode.dla_hz))
    return tuple(writes)


def _hold(root: Path, domain: Domain, hz: float, *, is_capped: bool) -> list[Write]:
    """Minimum and maximum to the same frequency."""
    name = f"{domain.name} held at {format_frequency(hz)}"
    value = str(round(hz / domain.unit_hz))
    maximum = Write(domain.max_path or "", value, f"{name}: maximum")
    if domain.min_path is None:
        return [maximum]
    minimum = Write(domain.min_path, value, f"{name}: minimum")
    ceiling_hz = domain.read_hz(root, domain.max_path)
    is_raised = is_capped or ceiling_hz is None or hz >= ceiling_hz
    return [maximum, minimum] if is_raised else [minimum, maximum]


def _cap_only(root: Path, domain: Domain, hz: float) -> list[Write]:
    """The maximum alone; a minimum that lies above it is lowered first."""
    value = str(round(hz / domain.unit_hz))
    writes = [Write(domain.max_path or "", value, f"{domain.name} up to {format_frequency(hz)}")]
    floor_hz = domain.read_hz(root, domain.min_path)
    if domain.min_path is not None and floor_hz is not None and floor_hz > hz:
        writes.insert(0, Write(domain.min_path, value, f"{domain.name}: its minimum is above"))
    return writes


def _hold_emc(root: Path, emc: Emc, hz: float, *, is_capped: bool) -> list[Write]:
    writes: list[Write] = []
    value, name = str(round(hz)), f"emc held at {format_frequency(hz)}"
    cap_hz = emc.cap_hz(root)
    is_low = cap_hz is not None and cap_hz < hz and not is_capped
    if emc.cap_path is not None and (is_low or not emc.can_be_held):
        writes.append(Write(emc.cap_path, value, f"emc up to {format_frequency(hz)}: cap"))
    if emc.lock is not None:
        # The switch is written first: while it is unchanged, the rate is untouched.
        first, *others = emc.lock.switches
        writes.append(Write(first, "1", f"{name}: lock"))
        writes += [
            Write(path, "1", f"{name}: on") for path in others if read_int(below(root, path)) == 0
        ]
        writes.append(Write(emc.lock.rate, value, f"{name}: rate"))
    elif emc.domain.max_path is not None:
        writes += _hold(root, emc.domain, hz, is_capped=is_capped)
    return writes
