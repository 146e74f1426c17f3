"""Everything ``mansard modes`` shows of a board, put together."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from mansard.core.errors import MansardError
from mansard.core.hardware import MODULES, Module
from mansard.core.records import PowerMode
from mansard.device.identity import is_simulated
from mansard.device.nvpmodel.config_file import load_config
from mansard.device.nvpmodel.gating import full_module
from mansard.device.nvpmodel.modes import BoardModes, board_modes, read_modes
from mansard.device.nvpmodel.predict import Prediction, predict
from mansard.device.nvpmodel.reboot import reboot_modes
from mansard.device.nvpmodel.resolve import find_highest, resolve
from mansard.device.nvpmodel.tool import query

_PART_IN_NAME = re.compile(r"(p[0-9]{4})[_-]([0-9]{4})(?![0-9])")


class ListedMode(msgspec.Struct, frozen=True, kw_only=True):
    """One mode with what follows from it. ``id`` is for information: it names nothing."""

    id: int
    mode: PowerMode  # caps as the configuration has them
    resolved: PowerMode  # uncapped clocks at their highest
    resolved_from: dict[str, str]  # field -> source of the number
    modelled: Prediction
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
        if modes.find(present) is None:
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
    modes = board_modes(load_config(path), str(path), None, module)
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
    found = modes.find(present) if present is not None else None
    listed = []
    for one in modes.modes:
        resolved = resolve(one.mode, highest)
        listed.append(
            ListedMode(
                id=one.id,
                mode=one.mode,
                resolved=resolved.mode,
                resolved_from=resolved.notes,
                modelled=predict(resolved.mode, _chip(modes), modes.module),
                is_default=one.mode.name == modes.default,
                is_present=one is found,
                may_need_reboot=reboot.get(one.mode.name),
            )
        )
    return Listing(
        where=modes.where,
        is_simulated=root is not None and is_simulated(root),
        soc=modes.soc,
        module=modes.module.name if modes.module is not None else None,
        default=modes.default,
        present=present,
        modes=tuple(listed),
        notes=notes,
        ignored=modes.config.ignored,
    )


def _chip(modes: BoardModes) -> Module | None:
    return modes.module or full_module(modes.soc)


def _is_super(modes: BoardModes) -> bool:
    # The configuration of a "Super" board has a mode of that name.
    return any(one.mode.name.endswith("_SUPER") for one in modes.modes)
