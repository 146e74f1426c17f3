"""The power modes of nvpmodel.conf: caps of clocks, cores that are on, multiprocessors."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mansard.core.hardware import (
    NAMED_MODES,
    KnownMode,
    Module,
    NamedModes,
    boards_with,
    find_mode,
)
from mansard.core.power_mode import mode_number, plain_name
from mansard.core.records import CpuCluster, PowerMode
from mansard.device.jetson import find_module, read_board
from mansard.device.nvpmodel.caps import (
    UNCAPPED,
    Cap,
    ClockParams,
    clock_params,
    lowest,
    read_cap,
)
from mansard.device.nvpmodel.config import read_config
from mansard.device.nvpmodel.cores import (
    Cores,
    clusters_on,
    cpus_on,
    existing_cpus,
    find_cores,
    switched_on,
)
from mansard.device.nvpmodel.fitting import (
    Fit,
    WrittenMode,
    fit_to_module,
    read_highest_gpu_hz,
)
from mansard.device.nvpmodel.gating import mode_sms, soc_of_config
from mansard.device.nvpmodel.sections import (
    Config,
    ModeSection,
    Param,
    RefusedMode,
    mode_name,
)
from mansard.device.system import SYSTEM_ROOT

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
    fit: Fit = Fit()  # modes that the module cannot have, and what else is not its own

    def find(self, name: str) -> BoardMode | None:
        """The mode that ``name`` means here, in any spelling."""
        if mode_number(name) is not None:
            return None  # numbers differ between releases: what is set is named
        known = [KnownMode(one.mode.name) for one in self.modes]
        boards = boards_with(_boards_of(self.module), known)
        match = find_mode(KnownMode(name), known, boards)
        return next((one for one in self.modes if match and one.mode.name == match.name), None)

    @property
    def refused(self) -> tuple[RefusedMode, ...]:
        """The modes that are not offered: in doubt, or none of the module's."""
        return (*self.config.refused, *self.fit.refused)

    def why_refused(self, name: str) -> str:
        """Why the configuration's mode of that name is refused; empty for any other name."""
        found = (one for one in self.refused if plain_name(one.name) == plain_name(name))
        return next((f"{one.name} is refused: {one.why}" for one in found), "")

    def by_id(self, number: int) -> BoardMode | None:
        """The mode that the tool knows by this number."""
        return next((one for one in self.modes if one.id == number), None)


def _boards_of(module: Module | None) -> tuple[NamedModes, ...]:
    return tuple(board for board in NAMED_MODES if module is not None and board.module == module)


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
    default = next((one.mode.name for one in modes if one.id == config.default_id), None)
    return BoardModes(modes, default, config, soc, module, where)


def only_own(found: BoardModes, root: Path | None = None) -> BoardModes:
    """Without the modes that its module cannot have, by its table and the kernel under ``root``."""
    config, module = found.config, found.module
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
    refused = {one.id for one in fit.refused}
    modes = tuple(one for one in found.modes if one.id not in refused)
    default = next((one.mode.name for one in modes if one.mode.name == found.default), None)
    return msgspec.structs.replace(found, modes=modes, default=default, fit=fit)


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
    caps = [Cap(one.max_hz, one.unknown.get("max_hz", "")) for one in clusters]
    if not caps:
        caps = [read_cap(section, param) for param in clocks.cpus]
    open_ended = [cap for cap in caps if cap.hz is None]
    if not caps:
        return Cap(None, "the configuration has no clock of a CPU")
    if open_ended:
        return next((cap for cap in open_ended if cap.why == UNCAPPED), open_ended[0])
    return max(caps, key=lambda cap: cap.hz or 0)
