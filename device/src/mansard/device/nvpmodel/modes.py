"""The power modes of a board: from its nvpmodel.conf to records with clocks in hertz."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mansard.core.hardware import Module
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
from mansard.device.nvpmodel.config import Config, Param, Table
from mansard.device.nvpmodel.config_file import read_config
from mansard.device.nvpmodel.cores import Cores, clusters_on, cpus_on, find_cores
from mansard.device.nvpmodel.gating import mode_sms, soc_of_config
from mansard.device.nvpmodel.sections import mode_name
from mansard.device.system import SYSTEM_ROOT

_NO_LIMIT = "modes of nvpmodel set clocks and cores; the watts in a name are a budget"


class BoardMode(msgspec.Struct, frozen=True):
    """A mode of the board; ``id`` is what the tool wants to hear, and no name for anything."""

    id: int
    mode: PowerMode
    table: Table


class BoardModes(msgspec.Struct, frozen=True):
    """All modes of a board in the order of its configuration."""

    modes: tuple[BoardMode, ...]
    default: str | None  # by name
    config: Config
    soc: str | None  # tegra234
    module: Module | None
    where: str  # the configuration's file

    def find(self, name: str) -> BoardMode | None:
        """The mode of that name, with or without NVIDIA's ``MODE_``, in any case of letters."""
        wanted = _plain(name)
        return next((one for one in self.modes if _plain(one.mode.name) == wanted), None)

    def by_id(self, number: int) -> BoardMode | None:
        """The mode that the tool knows by this number."""
        return next((one for one in self.modes if one.id == number), None)


def _plain(name: str) -> str:
    folded = name.casefold()
    return folded.removeprefix("mode_") or folded


def read_modes(root: Path = SYSTEM_ROOT) -> BoardModes:
    """The modes of the board under ``root``; raises DeviceError where it has no nvpmodel.conf,
    InputError where that holds no modes."""
    config, where = read_config(root)
    return board_modes(config, where, root, find_module(root))


def board_modes(
    config: Config, where: str, root: Path | None = None, module: Module | None = None
) -> BoardModes:
    """The modes of a configuration; ``root`` tells CPUs and chip of the board it stands on."""
    soc = module.soc if module is not None else _soc_of_tree(root) or soc_of_config(config)
    clocks = clock_params(config)
    cores = find_cores(config, clocks.cpus, root)
    modes = tuple(
        BoardMode(table.id, _power_mode(table, clocks, cores, mode_sms(soc, module, table)), table)
        for table in config.modes
    )
    default = next((one.mode.name for one in modes if one.id == config.default_id), None)
    return BoardModes(modes, default, config, soc, module, where)


def _soc_of_tree(root: Path | None) -> str | None:
    return read_board(root).soc if root is not None else None


def _power_mode(table: Table, clocks: ClockParams, cores: Cores, sms: int | str) -> PowerMode:
    on = cpus_on(table, cores)
    clusters = clusters_on(table, cores, on)
    caps = {
        "cpu_hz": _cpu_cap(table, clocks, clusters),
        "gpu_hz": _cap(table, clocks.gpu, "the configuration has no clock of a GPU"),
        "memory_hz": _cap(table, clocks.emc, "the configuration has no clock of the memory"),
        "dla_hz": lowest(
            (read_cap(table, param) for param in clocks.dla),
            "the configuration has no clock of a DLA",
        ),
    }
    unknown = {name: cap.why for name, cap in caps.items() if cap.hz is None}
    if isinstance(sms, str):
        unknown["n_sms"] = sms
    return PowerMode(
        name=mode_name(table.name),
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


def _cap(table: Table, param: Param | None, without: str) -> Cap:
    return Cap(None, without) if param is None else read_cap(table, param)


def _cpu_cap(table: Table, clocks: ClockParams, clusters: tuple[CpuCluster, ...]) -> Cap:
    """The cap of the fastest cluster; unknown as soon as one of them is."""
    caps = [Cap(one.max_hz, one.unknown.get("max_hz", "")) for one in clusters]
    if not caps:
        caps = [read_cap(table, param) for param in clocks.cpus]
    open_ended = [cap for cap in caps if cap.hz is None]
    if not caps:
        return Cap(None, "the configuration has no clock of a CPU")
    if open_ended:
        return next((cap for cap in open_ended if cap.why == UNCAPPED), open_ended[0])
    return max(caps, key=lambda cap: cap.hz or 0)
