"""CPUs and caches of a machine, and what a control group leaves of CPU time and memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import MappingProxyType

from mansard.core.hardware import Module
from mansard.core.records import Cache
from mansard.device.system import below, find_paths, glob, parse_cpu_list, read_int, read_text

# What a container may use: CPU time and memory, from the control groups we are in.
#
# Source: Documentation/admin-guide/cgroup-v2.rst of the Linux kernel. cpu.max holds
# a quota and a period in µs, or max; memory.max holds bytes, or max. A limit
# of any group above ours holds too. Version 1 keeps the quota in cpu.cfs_quota_us.

_CPU_MAX = re.compile(r"([0-9]{1,15}) ([0-9]{1,15})")


def cpu_quota(root: Path) -> float | None:
    """The CPU time that our control groups allow, in CPUs; None without a limit."""
    quotas = [_parse_cpu_max(read_text(group / "cpu.max")) for group in _groups(root)]
    quotas.append(_version_1_quota(root / "sys/fs/cgroup/cpu"))
    return min((quota for quota in quotas if quota is not None), default=None)


def memory_limit_bytes(root: Path) -> int | None:
    """The memory that our control groups allow, in bytes; None without a limit."""
    limits = [read_int(group / "memory.max") for group in _groups(root)]
    return min((limit for limit in limits if limit and limit > 0), default=None)


def available_memory_bytes(root: Path) -> int | None:
    """Bytes usable without swapping, by the kernel's count and the control group's limit.

    MemAvailable counts the page cache, which the kernel gives back; MemFree does not. None where
    the kernel does not say.
    """
    available = _bytes_of(read_text(root / "proc/meminfo"), "MemAvailable")
    limit, used = memory_limit_bytes(root), status_bytes(root, "VmRSS")
    if available is None or limit is None or used is None:
        return available
    return min(available, max(0, limit - used))


def status_bytes(root: Path, name: str) -> int | None:
    """A line of this process's status, such as VmRSS; None where the kernel does not say."""
    return _bytes_of(read_text(root / "proc/self/status"), name)


def _bytes_of(text: str | None, name: str) -> int | None:
    """The number of a line such as ``VmRSS:     1234 kB``."""
    for line in (text or "").splitlines():
        field, _, value = line.partition(":")
        if field == name:
            number = value.split()[0] if value.split() else ""
            return int(number) * 1024 if number.isdecimal() else None
    return None


def _groups(root: Path) -> Iterator[Path]:
    """Our group's folder and those above it, up to the top of what is mounted."""
    top = root / "sys/fs/cgroup"
    yield top
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        hierarchy, _, path = line.partition("::")
        if hierarchy == "0":
            group = top
            for name in Path(path.strip("/")).parts:
                group /= name
                yield group


def _parse_cpu_max(text: str | None) -> float | None:
    match = _CPU_MAX.fullmatch(text or "")
    if match is None or not int(match[2]):
        return None  # "max 100000", or no such file
    return int(match[1]) / int(match[2])


def _version_1_quota(folder: Path) -> float | None:
    quota_us, period_us = (
        read_int(folder / "cpu.cfs_quota_us"),
        read_int(folder / "cpu.cfs_period_us"),
    )
    if not quota_us or not period_us or quota_us < 0:
        return None
    return quota_us / period_us


CPU_FOLDER = "/sys/devices/system/cpu"
# Cache levels that a cluster's cores share, by kind of core; other levels are private.
# Sources: Arm's technical reference manuals of Cortex-A57 and A78AE (L3 of a DynamIQ
# cluster), NVIDIA's data sheets of TX2 and Xavier.
_CLUSTER_LEVELS = MappingProxyType(
    {"Cortex-A57": (2,), "Denver 2": (2,), "Carmel": (2,), "Cortex-A78AE": (3,)}
)
# Levels that all cores share. Sources: NVIDIA's data sheets of Xavier and Thor.
_COMMON_LEVELS = MappingProxyType({"Carmel": (3,), "Neoverse-V3AE": (3,)})
_Sharers = Callable[[int, int], tuple[int, ...]]  # of a CPU, at a level

_SIZE = re.compile(r"([0-9]{1,9})([KMG])")
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}


def physical_cores(root: Path, cpus: tuple[int, ...]) -> tuple[int, ...]:
    """One logical CPU for each physical core among ``cpus``: the lowest-numbered one.

    Two hardware threads of a core share its arithmetic units, so a second thread
    on a core measures contention, not another core. Where the kernel does not
    describe siblings every CPU counts as a core.
    """
    chosen: list[int] = []
    seen: set[int] = set()
    for cpu in sorted(cpus):
        if cpu in seen:
            continue
        chosen.append(cpu)
        seen.update(_siblings(root, cpu))
    return tuple(chosen)


def _siblings(root: Path, cpu: int) -> tuple[int, ...]:
    folder = _cpu_folder(root, cpu) / "topology"
    text = read_text(folder / "thread_siblings_list")
    return _cpu_list(text) or (cpu,)


def present_cpus(root: Path) -> tuple[int, ...]:
    """Logical CPUs that the machine has, whether or not they are on; empty if not told."""
    return _cpu_list(read_text(root / CPU_FOLDER[1:] / "present"))


def online_cpus(root: Path) -> tuple[int, ...]:
    """Logical CPUs that are on; empty where the kernel does not say."""
    return _cpu_list(read_text(root / CPU_FOLDER[1:] / "online"))


def list_cpus(root: Path) -> tuple[int, ...]:
    """The CPUs that the kernel has, on or off."""
    folders = find_paths(root, f"{CPU_FOLDER}/cpu[0-9]*")
    numbers = [folder.rpartition("/cpu")[2] for folder in folders]
    return tuple(sorted(int(number) for number in numbers if number.isdecimal()))


def related_cpus(root: Path, cpu: int) -> tuple[int, ...]:
    """The CPUs that share a clock with ``cpu``, itself among them; empty where it is not said."""
    # related_cpus also names those that are off; affected_cpus only those that are on.
    text = read_text(below(root, f"{CPU_FOLDER}/cpu{cpu}/cpufreq/related_cpus")) or ""
    try:
        cpus = parse_cpu_list(text.replace(" ", ","))
    except ValueError:
        return ()
    return tuple(sorted(cpus)) if cpu in cpus else ()


def online_path(cpu: int) -> str:
    """The file that switches a CPU on and off."""
    return f"{CPU_FOLDER}/cpu{cpu}/online"


def data_caches(
    root: Path, cpus: tuple[int, ...], module: Module | None = None
) -> tuple[Cache, ...]:
    """The data and unified caches of ``cpus``, nearest first; empty where none is described.

    Sizes are those of the first CPU that the kernel describes; ``n_instances`` counts the
    distinct instances over all of ``cpus``. On a machine with unlike clusters (big and
    little cores) this describes that CPU's cluster. The kernel describes only cores that
    are on, so for a known ``module`` its clusters say which CPUs share a cache: the answer
    must not depend on the power mode.
    """
    for cpu in cpus:
        indices = glob(_cpu_folder(root, cpu) / "cache", "index[0-9]*")
        caches = [
            cache
            for folder in indices
            if (cache := _read_cache(folder, cpu, cpus, _sharing(root, folder.name, module)))
        ]
        if caches:
            return tuple(sorted(caches, key=lambda cache: cache.level))
    return ()


def _read_cache(folder: Path, first: int, cpus: tuple[int, ...], sharers: _Sharers) -> Cache | None:
    level = read_int(folder / "level")
    size_bytes = _parse_size(read_text(folder / "size"))
    if level is None or size_bytes is None or read_text(folder / "type") == "Instruction":
        return None
    line_bytes = read_int(folder / "coherency_line_size") or None  # 0 is no size
    return Cache(
        level=level,
        size_bytes=size_bytes,
        line_bytes=line_bytes,
        shared_cpus=sharers(first, level),
        n_instances=len({sharers(cpu, level) for cpu in cpus}),
        unknown={} if line_bytes else {"line_bytes": f"{folder}/coherency_line_size has none"},
    )


def _sharing(root: Path, index: str, module: Module | None) -> _Sharers:
    if module is not None:
        return partial(_module_sharers, module)

    def by_kernel(cpu: int, _level: int) -> tuple[int, ...]:
        text = read_text(_cpu_folder(root, cpu) / "cache" / index / "shared_cpu_list")
        return _cpu_list(text) or (cpu,)

    return by_kernel


def _module_sharers(module: Module, cpu: int, level: int) -> tuple[int, ...]:
    for cluster in module.cpu_clusters:
        if cpu in cluster.cpus:
            if level in _CLUSTER_LEVELS.get(cluster.core, ()):
                return cluster.cpus
            if level in _COMMON_LEVELS.get(cluster.core, ()):
                return tuple(sorted(cpu for other in module.cpu_clusters for cpu in other.cpus))
    return (cpu,)


def _cpu_list(text: str | None) -> tuple[int, ...]:
    try:
        return parse_cpu_list(text or "")
    except ValueError:
        return ()


def _parse_size(text: str | None) -> int | None:
    # The kernel writes "32K"; a few virtual machines report "0K", which is no size.
    match = _SIZE.fullmatch(text or "")
    return (int(match[1]) * _UNITS[match[2]] or None) if match else None


def _cpu_folder(root: Path, cpu: int) -> Path:
    return root / CPU_FOLDER[1:] / f"cpu{cpu}"
