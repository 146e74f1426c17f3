"""One board or machine: its root folder, its power modes, and how it is put back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.reporter import SILENT, Reporter
from mansard.core.errors import MansardError, UsageError
from mansard.core.text import printable
from mansard.device.holding.restoring import Restored
from mansard.device.holding.restoring import restore as restore_machine
from mansard.device.identity import identify
from mansard.device.jetson import find_module, is_jetson
from mansard.device.nvpmodel.config import CONFIG_PATH
from mansard.device.power_modes.custom_modes import is_settings
from mansard.device.power_modes.elsewhere import modes_elsewhere, names_another
from mansard.device.power_modes.listing import (
    Listing,
    find_highest,
    list_board,
    list_config,
    resolve,
)
from mansard.device.power_modes.selection import (
    available_modes,
    choose_modes,
    mode_notes,
    names_grid,
)
from mansard.device.system import SYSTEM_ROOT

if TYPE_CHECKING:
    from mansard.analytics.decide.modes import ModeFrame
    from mansard.api.checks import Check
    from mansard.containers.fleet import Fleet
    from mansard.core.records import PowerMode, PublishedMode


_THIS_BOARD = "this board"


class AvailableModes(msgspec.Struct, frozen=True):
    """The power modes of a machine that is no Jetson: core counts, or those of its card.

    ``machine``: the processor, or the card, that they are modes of. ``notes``: what can be set
    beside them, and what that needs.
    """

    machine: str
    modes: tuple[PowerMode, ...]
    notes: tuple[str, ...]


def board_root(board: Path | None) -> Path:
    """The root folder of ``board``, this machine's by default; raises UsageError."""
    root = SYSTEM_ROOT if board is None else board
    if not root.is_dir():
        raise UsageError(f"{str(root)!r} is no folder", fix="give the root folder of a board")
    return root


def modes(board: Path | None = None, config: Path | None = None) -> Listing | AvailableModes:
    """The power modes with their clocks, and the peaks that follow from them.

    ``board``: the root folder of a board, this machine's by default. ``config``: an
    nvpmodel.conf, or a dump of ``nvpmodel -p --verbose``, to list instead. Peaks are modelled
    from the table of modules, not measured; nothing is set. Raises UsageError where both are
    given, DeviceError, InputError.
    """
    if board is not None and config is not None:
        raise UsageError("--board and --config exclude each other", fix="name one of them")
    if config is not None:
        return list_config(config)
    root = board or SYSTEM_ROOT
    if board is not None or _has_nvpmodel(root):
        return list_board(root)
    machine = identify(root)
    name = machine.accelerators[0] if machine.kind == "gpu" else machine.name
    return AvailableModes(name, available_modes(root, machine), mode_notes(root, machine))


def _has_nvpmodel(root: Path) -> bool:
    path = root.joinpath(*Path(CONFIG_PATH).parts[1:])
    return path.is_symlink() or path.exists() or is_jetson(root)


def find_modes(
    text: str, board: Path | None, device: str | None = None, seen: Collection[str] = ()
) -> tuple[ModeFrame, bool]:
    """The modes that ``text`` names as rows of ``device``, and whether the board names them so.

    ``text``: a table (CSV), or a grid (TOML) or anything else that ``bench --mode`` takes on
    ``board``. Without a board they are those of this machine, or, where ``device`` is another one,
    those that its name tells: see ``device.power_modes.elsewhere``, also of ``seen``. Nothing is
    set. Raises UsageError, InputError, StorageError, DeviceError.
    """
    from mansard.analytics.decide.modes import mode_frame, read_mode_table

    label = device or _THIS_BOARD
    if text.strip().lower().endswith(".csv"):
        return read_mode_table(Path(text.strip()), label), False
    if device is not None and is_elsewhere(device, board):
        found: Sequence[PowerMode | PublishedMode] = modes_elsewhere(text, device, seen)
        return mode_frame(found, label), not (names_grid(text) or is_settings(text))
    root = board_root(board)
    machine = identify(root)
    found = choose_modes(text, root, machine)
    if machine.kind == "jetson":
        # A clock that a mode leaves uncapped is the highest there is.
        highest = find_highest(root, find_module(root))
        found = [resolve(mode, highest).mode for mode in found]
    return mode_frame(found, label), True


def is_elsewhere(device: str, board: Path | None) -> bool:
    """Whether ``device``, as a run or a table calls it, is not this machine.

    A ``board`` that was named is taken to be it.
    """
    return board is None and names_another(device, identify(SYSTEM_ROOT))


def elsewhere_note(device: str, board: Path | None) -> tuple[str, ...]:
    """That a command measures ``device``, where this machine is another one; else nothing."""
    if not is_elsewhere(device, board):
        return ()
    return (
        f"the command is for {printable(device)}, not for this machine: run it there, or add "
        "--host user@board (not for a program)",
    )


def restore(board: Path | None = None, reporter: Reporter = SILENT) -> Restored | None:
    """Put clocks, cores and power mode back as an interrupted bench found them.

    A bench does so itself, whatever ends it but a power cut or SIGKILL. None where no run was
    cut off. Raises DeviceError where something could not be put back; nothing is forgotten then.
    """
    return restore_machine(board_root(board), on_step=lambda step: reporter.note(str(step)))


def restore_hosts(
    hosts: Sequence[str],
    hosts_file: Path | None = None,
    images: Path | None = None,
    reporter: Reporter = SILENT,
) -> Fleet[tuple[str, ...]]:
    """Have boards elsewhere put back: for each what that was, in lines, or an error.

    ``hosts``: user@board, or names in ``hosts_file``. ``images``: TOML file that adds images.
    A board that fails does not stop the others; ``check`` of the result raises its error.
    Raises UsageError and InputError for hosts that are not understood.
    """
    from mansard.api.targets import WantedImage, remote_target
    from mansard.containers.fleet import Fleet
    from mansard.containers.hosts import read_hosts

    restored: dict[str, tuple[str, ...]] = {}
    errors: dict[str, MansardError] = {}
    for host in read_hosts(hosts, hosts_file):
        try:
            with remote_target(host, WantedImage(table=images), reporter) as target:
                restored[host.name] = target.controller.put_back()
        except MansardError as error:
            errors[host.name] = error
    return Fleet(restored, errors)


def doctor(board: Path | None = None) -> tuple[Check, ...]:
    """What can be measured on a machine, what is missing, and what to do about it.

    Measuring is impossible if a check is ``broken``. Files that hold junk end no check. Raises
    UsageError where ``board`` is no folder.
    """
    from mansard.api import board_checks, checks
    from mansard.api.container_checks import check_containers
    from mansard.api.engine_checks import check_counters, check_engines

    root = board_root(board)
    machine = identify(root)
    on_board = machine.kind == "jetson"
    return (
        *checks.check_machine(root, machine),
        *(board_checks.check_release(machine) if on_board else ()),
        *checks.check_work(machine),
        *check_engines(machine),
        *(board_checks.check_modes(root) if on_board else ()),
        *board_checks.check_clocks(root, machine),
        *checks.check_meters(root, machine),
        *(board_checks.check_present(root, machine) if on_board else ()),
        *checks.check_state(root),
        *checks.check_accelerators(root, machine),
        *check_counters(root, machine),
        *check_containers(root, machine),
    )
