"""The modes of a device that is not this machine: NVIDIA's named modes, and clocks as written.

What can be set is read from a board, and this is none: a clock may be any up to the highest of the
modules that the device's name means, and any at all where it means none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mansard.core.errors import UsageError
from mansard.core.hardware import (
    KnownMode,
    NamedMode,
    NamedModes,
    boards_called,
    boards_with,
)
from mansard.core.power_mode import custom_name
from mansard.core.records import MachineIdentity, PublishedMode
from mansard.core.text import printable
from mansard.device.power_modes.custom_modes import is_settings, split_names, split_pairs
from mansard.device.power_modes.grid import grid_points, read_grid
from mansard.device.power_modes.selection import names_grid
from mansard.device.power_modes.settable import ValueTable, read_amount

_KEYS = ("gpu", "emc", "cpu", "cores")
_FIELDS = {"gpu": "gpu_hz", "emc": "memory_hz", "cpu": "cpu_hz", "cores": "n_cpus"}
_HIGHEST_HZ, _MOST_CORES = 10e9, 999.0  # where no module is known; none reaches them
_NOT_SET = "not named"


def names_another(device: str, machine: MachineIdentity) -> bool:
    """Whether ``device``, as a run or a table calls it, is not ``machine``."""
    boards = boards_called(device)
    if machine.kind == "jetson":
        module = machine.board.module if machine.board is not None else None
        if boards and module is not None:
            return module not in {board.module.name for board in boards}
        return bool(boards) or machine.name.casefold() not in device.casefold()
    names = [name.casefold() for name in (machine.name, *machine.accelerators)]
    called = device.casefold()
    return bool(boards) or not any(name in called or called in name for name in names)


def is_another(measured: MachineIdentity, machine: MachineIdentity) -> bool:
    """Whether what was measured on ``measured`` says nothing of the modes of ``machine``.

    Two boards with one module have the same modes; so have two machines with one processor.
    """
    if (measured.kind == "jetson") != (machine.kind == "jetson"):
        return True
    if measured.board is not None and machine.board is not None:
        modules = (measured.board.module, machine.board.module)
        if None not in modules:
            return modules[0] != modules[1]
    return measured.name != machine.name


def modes_elsewhere(
    text: str, device: str, seen: Collection[str] = ()
) -> tuple[PublishedMode, ...]:
    """The modes that ``text`` names of ``device``.

    Names and ``all`` are of NVIDIA's table; a grid (TOML) and settings are taken as written.
    ``seen``: names of modes that the device has; of several boards that it may be, those count
    that have them all. Raises UsageError, InputError, StorageError.
    """
    boards = boards_called(device)
    boards = boards_with(boards, map(KnownMode, seen))
    choices = _Choices(boards)
    if names_grid(text):
        grid = read_grid(Path(text.strip()), choices)
        points = [
            dict(zip(grid.axes, values, strict=True)) for values in grid_points(grid, choices)
        ]
        return tuple(_mode(values) for values in points)
    if is_settings(text):
        parts = [part for part in text.split(";") if part.strip()]
        modes = [_mode(_amounts(part, choices)) for part in parts]
        return tuple({mode.name: mode for mode in modes}.values())
    named = _named_modes(device, boards)
    if text.strip().lower() == "all":
        return tuple(map(_published, named.values()))
    return tuple(_published(_find(name, device, boards[0])) for name in split_names(text))


def _highest_cpu_hz(board: NamedModes) -> float:
    return board.cpu_hz or max(cluster.max_hz for cluster in board.module.cpu_clusters)


class _Choices:
    """What a grid may set on a device of which its modules are all that is known."""

    keys = _KEYS

    def __init__(self, boards: Sequence[NamedModes]) -> None:
        self._highest = {
            "gpu": max(
                (board.gpu_hz or board.module.highest_gpu_hz for board in boards),
                default=_HIGHEST_HZ,
            ),
            "emc": max((board.memory_hz for board in boards), default=_HIGHEST_HZ),
            "cpu": max(map(_highest_cpu_hz, boards), default=_HIGHEST_HZ),
            "cores": max((float(board.module.n_cpus) for board in boards), default=_MOST_CORES),
        }

    def table(self, key: str) -> ValueTable:
        """Everything up to the highest."""
        if key == "cores":
            steps = tuple(map(float, range(1, int(self._highest[key]) + 1)))
            return ValueTable(steps, unit="cores")
        return ValueTable((1e6, self._highest[key]), is_continuous=True)

    def reachable_hz(self, cpu_hz: float, n_cpus: int | None) -> float:
        """``cpu_hz``: which cores reach it is not known."""
        del n_cpus
        return cpu_hz


def _amounts(text: str, choices: _Choices) -> dict[str, float]:
    """The settings of ``gpu=612MHz,cores=4``; raises UsageError."""
    amounts = {}
    for key, value in split_pairs(text, _KEYS).items():
        table = choices.table(key)
        amounts[key] = table.require(key, read_amount(key, value, table.unit))
    return amounts


def _mode(values: Mapping[str, float]) -> PublishedMode:
    n_cpus = int(values["cores"]) if "cores" in values else None
    clocks = {f"{key}_hz": values.get(key) for key in ("gpu", "emc", "cpu")}
    settings = {_FIELDS[key]: value for key, value in values.items() if key != "cores"}
    return _of_settings(custom_name(n_cpus, **clocks), {**settings, "n_cpus": n_cpus})


def _published(mode: NamedMode) -> PublishedMode:
    settings = {name: getattr(mode, name) for name in (*_FIELDS.values(), "n_sms")}
    return _of_settings(mode.name, settings)


def _of_settings(name: str, settings: Mapping[str, float | None]) -> PublishedMode:
    fields = (*_FIELDS.values(), "n_sms", "power_limit_w")
    values = {field: settings.get(field) for field in fields}
    unknown = {field: _NOT_SET for field, value in values.items() if value is None}
    return PublishedMode(name=name, **values, unknown=unknown)  # type: ignore[arg-type]


def _named_modes(device: str, boards: Sequence[NamedModes]) -> dict[str, NamedMode]:
    """By name, those of the one table that all boards share; raises UsageError."""
    fix = "give them with --mode: a table (CSV), a grid (TOML), or clocks; or plan on the device"
    if not boards:
        raise UsageError(
            f"unknown power modes: {printable(device)} is not this machine, and no table here has "
            "its modes",
            fix=fix,
        )
    tables = {tuple(map(board.uncapped, board.modes)) for board in boards}
    if len(tables) > 1:
        names = ", ".join(dict.fromkeys(board.board for board in boards))
        raise UsageError(
            f"{printable(device)} may be one of several boards whose modes differ: {names}", fix=fix
        )
    return {mode.name: mode for mode in tables.pop()}


def _find(name: str, device: str, board: NamedModes) -> NamedMode:
    named = board.find(name)
    if named is None:
        names = ", ".join(mode.name for mode in board.modes)
        raise UsageError(f"{printable(device)} has no mode {name!r}", fix=f"it has {names}")
    return named
