"""The modes of a board as ``board modes`` lists them: caps in the tables' steps, and checked."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from mansard.core.errors import MansardError
from mansard.core.hardware import (
    MODULES,
    SETTINGS,
    KnownMode,
    Module,
    active_sms,
    lower_settings,
    memory_bytes_per_s,
    memory_roof_bytes_per_s,
    peak_flop_per_s,
)
from mansard.core.records import CpuCluster, PowerMode
from mansard.core.records.base import Record
from mansard.core.units import format_frequency
from mansard.device.clocks.settings import Clocks, find_clocks
from mansard.device.clocks.steps import as_taken
from mansard.device.identity import is_simulated, read_gating_mask
from mansard.device.nvpmodel.caps import NOT_GATED, UNCAPPED, full_module
from mansard.device.nvpmodel.config import load_config
from mansard.device.nvpmodel.modes import BoardModes, board_modes, only_own, read_modes
from mansard.device.nvpmodel.tool import query, reboot_modes


class ModePeaks(Record, frozen=True, kw_only=True):
    """Peaks of a mode at its caps, with its multiprocessors that are on.

    ``memory_bytes_per_s`` is what the memory's pins carry, ``memory_roof_bytes_per_s`` what
    the GPU reaches of it in the mode (``core.hardware.peaks`` has the formulas).
    """

    cuda_cores: int | None
    fp32_flop_per_s: float | None
    fp16_tensor_flop_per_s: float | None
    memory_bytes_per_s: float | None
    memory_roof_bytes_per_s: float | None


def predict(mode: PowerMode, chip: Module | None, module: Module | None) -> ModePeaks:
    """The peaks of ``mode``, whose clocks are resolved where they can be.

    ``chip``: any module of the same chip, enough for what a multiprocessor does in a cycle;
    ``module``: the very one, needed for its memory. Either may be unknown.
    """
    unknown: dict[str, str] = {}
    gpu_hz, memory_hz, n_sms = mode.gpu_hz, mode.memory_hz, mode.n_sms
    cores = _cores_per_sm(chip)
    peaks: dict[str, float | None] = dict.fromkeys(_PEAKS)
    if chip is not None and n_sms is not None and gpu_hz is not None:
        peaks["fp32_flop_per_s"] = peak_flop_per_s(chip, n_sms=n_sms, gpu_hz=gpu_hz)
        peaks["fp16_tensor_flop_per_s"] = peak_flop_per_s(
            chip, n_sms=n_sms, gpu_hz=gpu_hz, precision="fp16", unit="tensor"
        )
    if module is not None and memory_hz is not None:
        peaks["memory_bytes_per_s"] = memory_bytes_per_s(module, memory_hz)
        if gpu_hz is not None:
            peaks["memory_roof_bytes_per_s"] = memory_roof_bytes_per_s(
                module, memory_hz=memory_hz, gpu_hz=gpu_hz
            )
    for field, value in peaks.items():
        if value is None:
            unknown[field] = _reason(field, mode, chip, module)
    n_cores = None if cores is None or n_sms is None else n_sms * cores
    if n_cores is None:
        unknown["cuda_cores"] = mode.unknown.get("n_sms", _NO_CHIP)
    return ModePeaks(cuda_cores=n_cores, unknown=unknown, **peaks)


_NEEDED = {"gpu_hz": "GPU's clock", "memory_hz": "memory's clock", "n_sms": "number of SMs"}
_NO_CHIP = "the chip is not in the table of modules"
_PEAKS = (
    "fp32_flop_per_s",
    "fp16_tensor_flop_per_s",
    "memory_bytes_per_s",
    "memory_roof_bytes_per_s",
)


def _cores_per_sm(chip: Module | None) -> int | None:
    # One multiply-add, 2 FLOP, a core and cycle.
    peak = peak_flop_per_s(chip, n_sms=1, gpu_hz=1.0) if chip is not None else None
    return None if peak is None else round(peak / 2)


def _reason(field: str, mode: PowerMode, chip: Module | None, module: Module | None) -> str:
    """Why a peak is unknown: the first thing that it needs and that is missing."""
    is_memory = field.startswith("memory")
    if is_memory and module is None:
        return "the module is unknown, and with it the width of its memory"
    if chip is None:
        return _NO_CHIP
    needed = {"fp32_flop_per_s": ("n_sms", "gpu_hz"), "fp16_tensor_flop_per_s": ("n_sms", "gpu_hz")}
    for name in needed.get(field, ("memory_hz", "gpu_hz")):
        if getattr(mode, name) is None:
            why = mode.unknown[name]
            return f"the {_NEEDED[name]} is {why}" if why == UNCAPPED else why
    if field == "memory_roof_bytes_per_s":
        return "the GPU's port to memory was not recorded for this module"
    return "this chip has no such unit" if "tensor" in field else "unknown for this chip"


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
    for field, clock in clocks.items():
        if unknown.get(field) == UNCAPPED and clock is not None:
            numbers[field], notes[field] = clock.hz, clock.source
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
    clock = highest.cpu.get(cluster.cpus[0]) if cluster.cpus else None
    if cluster.unknown.get("max_hz") != UNCAPPED or clock is None:
        return cluster
    notes["cpu_hz"] = clock.source
    return CpuCluster(cpus=cluster.cpus, max_hz=clock.hz)


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


_PART_IN_NAME = re.compile(r"(p[0-9]{4})[_-]([0-9]{4})(?![0-9])")


class ListedMode(msgspec.Struct, frozen=True, kw_only=True):
    """One mode with what follows from it. ``id`` is for information: it names nothing."""

    id: int
    mode: PowerMode  # caps as the configuration has them
    resolved: PowerMode  # as this board takes them; uncapped clocks at their highest
    resolved_from: dict[str, str]  # field -> source of the number
    modelled: ModePeaks
    is_default: bool
    is_present: bool
    may_need_reboot: str | None  # why; None: no reason to think so


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The modes of one board; ``notes`` says what could not be found out, and why."""

    where: str
    is_simulated: bool
    soc: str | None
    module: str | None
    default: str | None
    present: str | None
    modes: tuple[ListedMode, ...]
    notes: tuple[str, ...]
    ignored: tuple[str, ...]  # lines of the configuration that are no part of it


def list_board(root: Path) -> Listing:
    """The modes of the board under ``root``; raises DeviceError or InputError."""
    modes = read_modes(root)
    notes: tuple[str, ...] = ()
    present: str | None = None
    try:
        now = query(root)
        present = now.name
        if modes.find(present) is None and not modes.why_refused(present):
            notes = (f"the present mode {present} is not in {modes.where}",)
    except MansardError as error:
        notes = (error.what,)
    return _listing(modes, root, present, notes)


def list_config(path: Path) -> Listing:
    """The modes of a configuration file or dump without its board; raises as ``load_config``.

    NVIDIA's files carry the part number of their module in their name.
    """
    match = _PART_IN_NAME.search(path.name)
    module = MODULES.get(f"{match[1]}-{match[2]}") if match else None
    modes = only_own(board_modes(load_config(path), str(path), None, module))
    notes = (
        f"taken for the modes of {module.name}, whose part number is in the file's name"
        if module is not None
        else "the file's name holds no part number: what depends on the module is unknown",
    )
    return _listing(modes, None, None, notes)


def _listing(
    modes: BoardModes, root: Path | None, present: str | None, notes: tuple[str, ...]
) -> Listing:
    highest = find_highest(root, modes.module, is_super=_is_super(modes))
    reboot = reboot_modes(root, modes, present) if root is not None else {}
    current = modes.find(present) if present is not None else None
    listed = []
    clocks = find_clocks(root) if root is not None else None
    for mode in modes.modes:
        taken = as_taken(root, mode.mode, clocks) if root is not None and clocks else mode.mode
        resolved = resolve(taken, highest)
        notes = (*notes, *_roundings(mode.mode, taken))
        listed.append(
            ListedMode(
                id=mode.id,
                mode=mode.mode,
                resolved=resolved.mode,
                resolved_from=resolved.notes,
                modelled=predict(resolved.mode, _chip(modes), modes.module),
                is_default=mode.mode.name == modes.default,
                is_present=mode is current,
                may_need_reboot=reboot.get(mode.mode.name),
            )
        )
    known = [
        KnownMode(one.mode.name, {name: getattr(one.resolved, name) for name in SETTINGS})
        for one in listed
    ]
    notes = (*notes, *(lower.text for lower in lower_settings(known)))
    return Listing(
        where=modes.where,
        is_simulated=root is not None and is_simulated(root),
        soc=modes.soc,
        module=modes.module.name if modes.module is not None else None,
        default=modes.default,
        present=present,
        modes=tuple(listed),
        notes=(*notes, *modes.fit.notes, *(modes.why_refused(mode.name) for mode in modes.refused)),
        ignored=modes.config.ignored,
    )


_CAPS = {"cpu_hz": "CPU", "gpu_hz": "GPU", "memory_hz": "EMC"}


def _roundings(mode: PowerMode, taken: PowerMode) -> tuple[str, ...]:
    """The caps that this board rounds to its own steps; empty where all are steps."""
    changes = [
        f"{name} {format_frequency(asked_hz)} → {format_frequency(given_hz)}"
        for field, name in _CAPS.items()
        if (asked_hz := getattr(mode, field)) != (given_hz := getattr(taken, field))
        and asked_hz is not None
        and given_hz is not None
    ]
    if not changes:
        return ()
    return (f"{mode.name}: this board takes caps at its own steps: {', '.join(changes)}",)


def _chip(modes: BoardModes) -> Module | None:
    return modes.module or full_module(modes.soc)


def _is_super(modes: BoardModes) -> bool:
    # The configuration of a "Super" board has a mode of that name.
    return any(mode.mode.name.endswith("_SUPER") for mode in modes.modes)
