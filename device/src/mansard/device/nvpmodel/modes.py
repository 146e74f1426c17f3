"""The power modes of nvpmodel.conf: caps of clocks, clusters and cores that are on, SMs."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from mansard.core.hardware import KnownMode, Module, boards_of, boards_with, find_mode
from mansard.core.power_mode import mode_number, plain_name
from mansard.core.records import CpuCluster, PowerMode
from mansard.device.identity import find_module, read_board
from mansard.device.nvpmodel.caps import (
    NOT_SET,
    UNCAPPED,
    Cap,
    ClockParams,
    clock_params,
    first_cpu,
    lowest,
    mode_sms,
    read_cap,
    soc_of_config,
)
from mansard.device.nvpmodel.config import read_config
from mansard.device.nvpmodel.fitting import Fit, WrittenMode, fit_to_module, read_highest_gpu_hz
from mansard.device.nvpmodel.sections import Config, ModeSection, Param, RefusedMode, mode_name
from mansard.device.system import SYSTEM_ROOT, below, parse_cpu_list, read_text
from mansard.device.topology import CPU_FOLDER, list_cpus, related_cpus

_ONLINE_PATH = re.compile(r"/sys/devices/system/cpu/cpu([0-9]{1,3})/online")
_CORE_NAME = re.compile(r"CORE_([0-9]{1,3})")
_MAX_CPU = 1023
# Clusters that do not follow one another. Source: NVIDIA's data sheet of TX2; its CPUs 1 and
# 2 are the Denver cores, as the modes without them in its nvpmodel.conf show too.
_SCATTERED = {"CPU_DENVER": (1, 2), "CPU_A57": (0, 3, 4, 5)}


class Group(msgspec.Struct, frozen=True):
    """CPUs that share a clock, and the parameters that set it."""

    cpus: tuple[int, ...]
    params: tuple[Param, ...]


class Cores(msgspec.Struct, frozen=True):
    """The CPUs of a board: all that a mode can switch, those that exist, and their groups."""

    cpus: tuple[int, ...]
    groups: tuple[Group, ...]
    switches: dict[tuple[str, str], int]  # (parameter, argument) -> the CPU it is for


def find_cores(config: Config, cpu_params: tuple[Param, ...], root: Path | None) -> Cores:
    """The board's CPUs by its configuration, and by the kernel where there is a ``root``.

    One configuration serves boards of several sizes: CPUs that the kernel does not have are
    left out, and without a kernel to ask those that no mode mentions.
    """
    switches = _switches(config)
    listed = {
        switches[key]
        for section in config.modes
        for setting in section.settings
        if (key := (setting.param, setting.argument)) in switches
    }
    firsts = [cpu for param in cpu_params if (cpu := first_cpu(param)) is not None]
    existing = set(existing_cpus(root)) if root is not None else set()
    cpus = tuple(sorted(existing or listed | set(firsts) | {0}))
    return Cores(cpus, _groups(cpu_params, cpus, root), switches)


def existing_cpus(root: Path) -> tuple[int, ...]:
    """The CPUs that the kernel has, on or off: by its list, and by their folders."""
    try:
        present = parse_cpu_list(read_text(below(root, f"{CPU_FOLDER}/present")) or "")
    except ValueError:
        present = ()
    return tuple(sorted({*present, *list_cpus(root)}))


def switched_on(section: ModeSection, cores: Cores) -> tuple[int, ...]:
    """The CPUs that a mode switches on by their own lines, whether or not they exist."""
    return tuple(
        sorted(
            cpu
            for setting in section.settings
            if (cpu := cores.switches.get((setting.param, setting.argument))) is not None
            and setting.value.strip() != "0"
        )
    )


def cpus_on(section: ModeSection, cores: Cores) -> tuple[int, ...]:
    """The CPUs that are on under a mode; one that it does not mention stays on."""
    off: set[int] = set()
    for setting in section.settings:
        cpu = cores.switches.get((setting.param, setting.argument))
        if cpu is not None:
            (off.discard if setting.value.strip() != "0" else off.add)(cpu)
    return tuple(cpu for cpu in cores.cpus if cpu not in off)


def clusters_on(section: ModeSection, cores: Cores, on: tuple[int, ...]) -> tuple[CpuCluster, ...]:
    """The clusters with a CPU that is on, with their caps."""
    clusters = []
    for group in cores.groups:
        cpus = tuple(cpu for cpu in group.cpus if cpu in on)
        if cpus:
            cap = _last_cap(section, group.params)
            clusters.append(
                CpuCluster(
                    cpus=cpus,
                    max_hz=cap.hz,
                    unknown={} if cap.hz is not None else {"max_hz": cap.why},
                )
            )
    return tuple(clusters)


def _last_cap(section: ModeSection, params: tuple[Param, ...]) -> Cap:
    # Cores of one policy that are set one by one: the kernel keeps the last value written.
    order = {setting.param: place for place, setting in enumerate(section.settings)}
    caps = [
        (order.get(param.name, -1), cap)
        for param in params
        if (cap := read_cap(section, param)).why != NOT_SET
    ]
    return max(caps, key=lambda pair: pair[0])[1] if caps else Cap(None, NOT_SET)


def _switches(config: Config) -> dict[tuple[str, str], int]:
    """(parameter, argument) -> the CPU that it switches on and off."""
    switches: dict[tuple[str, str], int] = {}
    for param in config.params:
        for argument, path in param.arguments.items():
            match = _ONLINE_PATH.fullmatch(path)
            if match is not None and int(match[1]) <= _MAX_CPU:
                switches[param.name, argument] = int(match[1])
    for section in config.modes:
        for setting in section.settings:
            match = _CORE_NAME.fullmatch(setting.argument)
            key = (setting.param, setting.argument)
            if setting.param == "CPU_ONLINE" and match is not None and key not in switches:
                switches[key] = int(match[1])  # a dump without its head
    return switches


def _groups(
    params: tuple[Param, ...], cpus: tuple[int, ...], root: Path | None
) -> tuple[Group, ...]:
    placed = {
        cpu: param for param in params if (cpu := first_cpu(param)) in cpus and cpu is not None
    }
    groups: dict[tuple[int, ...], list[Param]] = {}
    for cpu, param in sorted(placed.items()):
        policy = related_cpus(root, cpu) if root is not None else ()
        shared = policy or _by_order(param, cpu, sorted(placed), cpus)
        groups.setdefault(tuple(other for other in shared if other in cpus), []).append(param)
    seen = {cpu for shared in groups for cpu in shared}
    for cpu in cpus if groups else ():  # CPUs whose clock no parameter sets
        if cpu not in seen:
            policy = related_cpus(root, cpu) if root is not None else ()
            rest = tuple(
                other for other in cpus if other not in seen and (not policy or other in policy)
            )
            groups[rest or (cpu,)] = []
            seen.update(rest or (cpu,))
    return tuple(Group(shared, tuple(of_cluster)) for shared, of_cluster in groups.items())


def _by_order(param: Param, cpu: int, firsts: list[int], cpus: tuple[int, ...]) -> tuple[int, ...]:
    """The CPUs of a cluster up to the next one's first, or as the chip is known to be."""
    if param.name in _SCATTERED and len(firsts) > 1:
        return _SCATTERED[param.name]
    later = [first for first in firsts if first > cpu]
    return tuple(
        candidate for candidate in cpus if cpu <= candidate < (later[0] if later else _MAX_CPU + 1)
    )


_NO_LIMIT = "modes of nvpmodel set clocks and cores; the watts in a name are a budget"


class BoardMode(msgspec.Struct, frozen=True):
    """A mode of the board; ``id`` is what the tool wants to hear, and no name for anything."""

    id: int
    mode: PowerMode
    section: ModeSection


class BoardModes(msgspec.Struct, frozen=True):
    """All modes of a board in the order of its configuration."""

    modes: tuple[BoardMode, ...]
    default: str | None  # by name
    config: Config
    soc: str | None  # tegra234
    module: Module | None
    where: str  # the configuration's file
    fit: Fit = Fit()  # modes that the module cannot have, and other differences

    def find(self, name: str) -> BoardMode | None:
        """The mode that ``name`` means here, in any spelling."""
        if mode_number(name) is not None:
            return None  # numbers differ between releases: what is set is named
        names = [KnownMode(mode.mode.name) for mode in self.modes]
        boards = boards_with(boards_of(self.module), names)
        match = find_mode(KnownMode(name), names, boards)
        return next((mode for mode in self.modes if match and mode.mode.name == match.name), None)

    @property
    def refused(self) -> tuple[RefusedMode, ...]:
        """The modes that are not offered: in doubt, or none of the module's."""
        return (*self.config.refused, *self.fit.refused)

    def why_refused(self, name: str) -> str:
        """Why the configuration's mode of that name is refused; empty for any other name."""
        named = (mode for mode in self.refused if plain_name(mode.name) == plain_name(name))
        return next((f"{mode.name} is refused: {mode.why}" for mode in named), "")

    def by_id(self, number: int) -> BoardMode | None:
        """The mode that the tool knows by this number."""
        return next((mode for mode in self.modes if mode.id == number), None)


def read_modes(root: Path = SYSTEM_ROOT) -> BoardModes:
    """The modes of the board under ``root`` that its module can have.

    Raises DeviceError where it has no nvpmodel.conf, InputError where that holds no modes.
    """
    config, where = read_config(root)
    return only_own(board_modes(config, where, root, find_module(root)), root)


def board_modes(
    config: Config, where: str, root: Path | None = None, module: Module | None = None
) -> BoardModes:
    """The modes of a configuration; ``root`` tells CPUs and chip of the board it stands on."""
    soc = module.soc if module is not None else _soc_of_tree(root) or soc_of_config(config)
    clocks = clock_params(config)
    cores = find_cores(config, clocks.cpus, root)
    modes = tuple(
        BoardMode(
            section.id, _power_mode(section, clocks, cores, mode_sms(soc, module, section)), section
        )
        for section in config.modes
    )
    default = next((mode.mode.name for mode in modes if mode.id == config.default_id), None)
    return BoardModes(modes, default, config, soc, module, where)


def only_own(board: BoardModes, root: Path | None = None) -> BoardModes:
    """Without the modes that its module cannot have, by its table and the kernel under ``root``."""
    config, module = board.config, board.module
    clocks = clock_params(config)
    cores = find_cores(config, clocks.cpus, None)
    written = [
        WrittenMode(section, _power_mode(section, clocks, cores, ""), switched_on(section, cores))
        for section in config.modes
    ]
    cpus = existing_cpus(root) if root is not None else ()
    if not cpus and module is not None:
        cpus = tuple(cpu for cluster in module.cpu_clusters for cpu in cluster.cpus)
    highest_hz = read_highest_gpu_hz(root, clocks.gpu)
    fit = fit_to_module(written, module, soc_of_config(config), cpus, highest_hz)
    refused = {mode.id for mode in fit.refused}
    modes = tuple(mode for mode in board.modes if mode.id not in refused)
    default = next((mode.mode.name for mode in modes if mode.mode.name == board.default), None)
    return msgspec.structs.replace(board, modes=modes, default=default, fit=fit)


def _soc_of_tree(root: Path | None) -> str | None:
    return read_board(root).soc if root is not None else None


def _power_mode(
    section: ModeSection, clocks: ClockParams, cores: Cores, sms: int | str
) -> PowerMode:
    on = cpus_on(section, cores)
    clusters = clusters_on(section, cores, on)
    caps = {
        "cpu_hz": _cpu_cap(section, clocks, clusters),
        "gpu_hz": _cap(section, clocks.gpu, "the configuration has no clock of a GPU"),
        "memory_hz": _cap(section, clocks.emc, "the configuration has no clock of the memory"),
        "dla_hz": lowest(
            (read_cap(section, param) for param in clocks.dla),
            "the configuration has no clock of a DLA",
        ),
    }
    unknown = {name: cap.why for name, cap in caps.items() if cap.hz is None}
    if isinstance(sms, str):
        unknown["n_sms"] = sms
    return PowerMode(
        name=mode_name(section.name),
        kind="nvpmodel",
        n_cpus=len(on),
        clusters=clusters,
        cpu_hz=caps["cpu_hz"].hz,
        gpu_hz=caps["gpu_hz"].hz,
        memory_hz=caps["memory_hz"].hz,
        dla_hz=caps["dla_hz"].hz,
        n_sms=None if isinstance(sms, str) else sms,
        power_limit_w=None,
        unknown={**unknown, "power_limit_w": _NO_LIMIT},
    )


def _cap(section: ModeSection, param: Param | None, without: str) -> Cap:
    return Cap(None, without) if param is None else read_cap(section, param)


def _cpu_cap(section: ModeSection, clocks: ClockParams, clusters: tuple[CpuCluster, ...]) -> Cap:
    """The cap of the fastest cluster; unknown as soon as one of them is."""
    caps = [Cap(cluster.max_hz, cluster.unknown.get("max_hz", "")) for cluster in clusters]
    if not caps:
        caps = [read_cap(section, param) for param in clocks.cpus]
    open_ended = [cap for cap in caps if cap.hz is None]
    if not caps:
        return Cap(None, "the configuration has no clock of a CPU")
    if open_ended:
        return next((cap for cap in open_ended if cap.why == UNCAPPED), open_ended[0])
    return max(caps, key=lambda cap: cap.hz or 0)
