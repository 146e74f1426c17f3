"""One board or machine: its root folder, its power modes, and how it is put back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.core.errors import MansardError, UsageError
from mansard.core.hardware import KnownMode, boards_called, boards_with, find_mode
from mansard.core.text import printable
from mansard.device.holding.restoring import Restored
from mansard.device.holding.restoring import restore as restore_machine
from mansard.device.identity import find_module, identify, is_jetson
from mansard.device.nvpmodel.config import CONFIG_PATH
from mansard.device.power_modes.custom_modes import is_settings, split_names
from mansard.device.power_modes.listing import (
    Listing,
    find_highest,
    list_board,
    list_config,
    resolve,
)
from mansard.device.power_modes.published_modes import is_another, modes_elsewhere, names_another
from mansard.device.power_modes.selection import (
    available_modes,
    choose_modes,
    mode_notes,
    names_grid,
)
from mansard.device.system import SYSTEM_ROOT, board_root
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.analytics.decisions.modes import ModeFrame
    from mansard.api.checks import Check
    from mansard.containers.fleet import Fleet
    from mansard.core.records import MachineIdentity, PowerMode, PublishedMode


_THIS_BOARD = "this board"


class AvailableModes(msgspec.Struct, frozen=True):
    """The power modes of a machine that is no Jetson: core counts, or those of its card.

    ``machine``: the processor, or the card, that they are modes of. ``notes``: what can be set
    beside them, and what that needs.
    """

    machine: str
    modes: tuple[PowerMode, ...]
    notes: tuple[str, ...]


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


@dataclass(frozen=True, eq=False)
class FoundModes:
    """Modes of one device.

    ``are_named``: the board knows them by these names. ``notes``: which names were joined with
    others, and why.
    """

    modes: ModeFrame
    are_named: bool
    notes: tuple[str, ...] = ()


def find_modes(
    text: str, board: Path | None, device: str | None = None, known: ModeFrame | None = None
) -> FoundModes:
    """The modes that ``text`` names as rows of ``device``.

    ``text``: a table (CSV), or a grid (TOML) or anything else that ``bench --mode`` takes on
    ``board``. Without a board they are those of this machine, or, where ``device`` is another one,
    those of its name (``device.power_modes.published_modes``). ``known``: its modes that were
    measured or published; one that is asked for by another name is known by theirs
    (``core.hardware.mode_names``). Nothing is set. Raises UsageError, InputError, StorageError,
    DeviceError.
    """
    from mansard.analytics.decisions.modes import join_modes, read_mode_table

    label = device or _THIS_BOARD
    boards = boards_called(label)
    if text.strip().lower().endswith(".csv"):
        table = read_mode_table(Path(text.strip()), label)
        if known is None:
            return FoundModes(table, are_named=False)
        joined = join_modes(table, known, boards=boards, are_explicit=True)
        return FoundModes(joined.modes, False, joined.notes)
    if known is None or known.is_empty():
        return _unknown_modes(text, board, device, ())
    if names_grid(text) or is_settings(text) or text.strip().lower() in {"", "all", "present"}:
        found = _unknown_modes(text, board, device, known["mode"].to_list())
        joined = join_modes(found.modes, known, boards=boards, are_explicit=False)
        return FoundModes(joined.modes, found.are_named, joined.notes)
    return _named_modes(split_names(text), board, device, known)


def _named_modes(
    names: Sequence[str], board: Path | None, device: str | None, known: ModeFrame
) -> FoundModes:
    """Each of ``names``: a known mode, else one of the board's."""
    from mansard.analytics.decisions.modes import join_modes

    taken = [KnownMode(name) for name in known["mode"].to_list()]
    boards = boards_with(boards_called(device or _THIS_BOARD), taken)
    frames, notes = [], list[str]()
    for name in names:
        match = find_mode(KnownMode(name), taken, boards)
        if match is not None:
            frames.append(known.filter(known["mode"] == match.name).head(1))
            notes += match.notes(name)
            continue
        found = _unknown_modes(name, board, device, known["mode"].to_list())
        joined = join_modes(found.modes, known, boards=boards, are_explicit=False)
        frames.append(joined.modes)
        notes += joined.notes
    modes = frames[0]
    for frame in frames[1:]:
        modes = modes.vstack(frame)
    return FoundModes(modes.unique("mode", keep="first", maintain_order=True), True, tuple(notes))


def _unknown_modes(
    text: str, board: Path | None, device: str | None, seen: Collection[str]
) -> FoundModes:
    """Those of the board at hand, or of the table of the board that ``device`` is."""
    from mansard.analytics.decisions.modes import mode_frame

    label = device or _THIS_BOARD
    if device is not None and is_elsewhere(device, board):
        found: Sequence[PowerMode | PublishedMode] = modes_elsewhere(text, device, seen)
        are_named = not (names_grid(text) or is_settings(text))
        return FoundModes(mode_frame(found, label), are_named)
    root = board_root(board)
    machine = identify(root)
    found = choose_modes(text, root, machine)
    if machine.kind == "jetson":
        # A clock that a mode leaves uncapped is the highest there is.
        highest = find_highest(root, find_module(root))
        found = [resolve(mode, highest).mode for mode in found]
    return FoundModes(mode_frame(found, label), are_named=True)


def is_elsewhere(device: str, board: Path | None) -> bool:
    """Whether ``device``, as a run or a table calls it, is not this machine.

    A ``board`` that was named is taken to be it: ``own_devices`` leaves others out.
    """
    return board is None and names_another(device, identify(SYSTEM_ROOT))


def own_devices(
    devices: Sequence[str], board: Path | None, machines: Mapping[str, MachineIdentity]
) -> tuple[str, ...]:
    """Those of ``devices`` that the machine at ``board`` may be; all without a board.

    ``machines``: of those that were measured. A table's device whose name tells no board may be
    any.
    """
    if board is None:
        return tuple(devices)
    at_hand = identify(board_root(board))
    return tuple(device for device in devices if not _is_other(device, machines, at_hand))


def _is_other(
    device: str, machines: Mapping[str, MachineIdentity], at_hand: MachineIdentity
) -> bool:
    if device in machines:
        return is_another(machines[device], at_hand)
    return bool(boards_called(device)) and names_another(device, at_hand)


def require_own(
    devices: Sequence[str], board: Path | None, machines: Mapping[str, MachineIdentity]
) -> tuple[str, ...]:
    """``own_devices``; raises UsageError where there is none."""
    own = own_devices(devices, board, machines)
    if devices and not own:
        names = ", ".join(map(printable, devices[:3]))
        raise UsageError(
            f"the runs are of {names}, and --board is {identify(board_root(board)).name}",
            fix="leave --board out, or name runs of that board",
        )
    return own


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
    from mansard.containers.fleet import Fleet
    from mansard.containers.hosts import read_hosts
    from mansard.sweeps.targets import WantedImage, remote_target

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
    from mansard.api.checks import check_containers, check_counters, check_engines

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
