"""Numbers for clocks that a mode leaves uncapped: what they can reach, and who says so."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mansard.core.hardware import Module, active_sms
from mansard.core.records import CpuCluster, PowerMode
from mansard.device.clocks.nodes import Clocks, find_clocks
from mansard.device.jetson import read_gating_mask
from mansard.device.nvpmodel.caps import UNCAPPED
from mansard.device.nvpmodel.gating import NOT_GATED

_KERNEL = "the highest that the kernel lists"


class Highest(msgspec.Struct, frozen=True):
    """The highest frequency of a clock, and the source of the number."""

    hz: float
    source: str


class HighestClocks(msgspec.Struct, frozen=True, kw_only=True):
    """What each clock of a board can reach; None where nothing tells."""

    cpu: dict[int, Highest]  # by CPU
    gpu: Highest | None = None
    memory: Highest | None = None
    dla: Highest | None = None
    n_sms: int | None = None  # on at present; of modes that leave the gating alone


class Resolved(msgspec.Struct, frozen=True):
    """A mode with numbers in place of "uncapped"; ``notes``: field -> source of its number."""

    mode: PowerMode
    notes: dict[str, str]


def resolve(mode: PowerMode, highest: HighestClocks) -> Resolved:
    """``mode`` with its uncapped clocks at their highest; pure.

    A clock that is unknown for another reason stays unknown, and so does one of which
    nothing tells the highest frequency.
    """
    notes: dict[str, str] = {}
    unknown = dict(mode.unknown)
    clocks = {"gpu_hz": highest.gpu, "memory_hz": highest.memory, "dla_hz": highest.dla}
    numbers: dict[str, float] = {}
    for field, found in clocks.items():
        if unknown.get(field) == UNCAPPED and found is not None:
            numbers[field], notes[field] = found.hz, found.source
    clusters = tuple(_resolve_cluster(cluster, highest, notes) for cluster in mode.clusters)
    cpu_hz = [cluster.max_hz for cluster in clusters]
    if mode.cpu_hz is None and cpu_hz and None not in cpu_hz:
        numbers["cpu_hz"] = max(hz for hz in cpu_hz if hz is not None)
    if unknown.get("n_sms") == NOT_GATED and highest.n_sms is not None:
        numbers["n_sms"], notes["n_sms"] = highest.n_sms, "on at present"
    for field in numbers:
        del unknown[field]
    resolved = msgspec.structs.replace(mode, clusters=clusters, unknown=unknown, **numbers)
    return Resolved(resolved, notes)


def _resolve_cluster(
    cluster: CpuCluster, highest: HighestClocks, notes: dict[str, str]
) -> CpuCluster:
    found = highest.cpu.get(cluster.cpus[0]) if cluster.cpus else None
    if cluster.unknown.get("max_hz") != UNCAPPED or found is None:
        return cluster
    notes["cpu_hz"] = found.source
    return CpuCluster(cpus=cluster.cpus, max_hz=found.hz)


def find_highest(
    root: Path | None, module: Module | None, *, is_super: bool = False
) -> HighestClocks:
    """What the clocks can reach by the kernel's tables, else by the table of modules.

    ``is_super``: the board has a "Super" configuration, whose clocks are higher.
    """
    published = _of_module(module, is_super)
    if root is None:
        return published
    clocks = find_clocks(root)
    gpu = clocks.gpu.available_hz if clocks.gpu is not None else ()
    return HighestClocks(
        cpu={**published.cpu, **_of_kernel(clocks)},
        gpu=Highest(gpu[-1], _KERNEL) if gpu else published.gpu,
        memory=_memory(root, clocks) or published.memory,
        dla=published.dla,
        n_sms=active_sms(module, read_gating_mask(root)) if module is not None else None,
    )


def _of_kernel(clocks: Clocks) -> dict[int, Highest]:
    return {
        cpu: Highest(domain.available_hz[-1], _KERNEL)
        for domain in clocks.cpu
        if domain.available_hz
        for cpu in domain.cpus
    }


def _memory(root: Path, clocks: Clocks) -> Highest | None:
    if clocks.emc is None:
        return None
    domain, lock = clocks.emc.domain, clocks.emc.lock
    ceiling = domain.read_hz(root, lock.ceiling) if lock is not None else None
    top = max([*domain.available_hz, *([ceiling] if ceiling else [])], default=0.0)
    return Highest(top, _KERNEL) if top > 0 else None


def _of_module(module: Module | None, is_super: bool) -> HighestClocks:
    if module is None:
        return HighestClocks(cpu={})
    gpu_hz = module.highest_gpu_hz if is_super else module.gpu_hz
    memory_hz = module.highest_memory_hz if is_super else module.memory_hz
    return HighestClocks(
        cpu={
            cpu: Highest(cluster.max_hz, _note(module, "cpu_clusters"))
            for cluster in module.cpu_clusters
            for cpu in cluster.cpus
        },
        gpu=Highest(gpu_hz, _note(module, "gpu_hz")),
        memory=Highest(memory_hz, _note(module, "memory_hz")),
    )


def _note(module: Module, field: str) -> str:
    return f"the highest of {module.name}: {module.sources.get(field, 'no source given')}"
