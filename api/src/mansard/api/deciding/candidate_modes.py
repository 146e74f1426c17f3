"""The power modes of a device that a decision is about, and whether the device is this machine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mansard.analytics.decisions.modes import ModeFrame, join_modes, mode_frame, read_mode_table
from mansard.core.errors import UsageError
from mansard.core.hardware import KnownMode, boards_called, boards_with, find_mode
from mansard.core.records import MachineIdentity, PowerMode, PublishedMode
from mansard.core.text import printable
from mansard.device.identity import find_module, identify
from mansard.device.power_modes.custom_modes import is_settings, split_names
from mansard.device.power_modes.listing import find_highest, resolve
from mansard.device.power_modes.published_modes import is_another, modes_elsewhere, names_another
from mansard.device.power_modes.selection import choose_modes, names_grid
from mansard.device.system import SYSTEM_ROOT, board_root

_THIS_BOARD = "this board"


@dataclass(frozen=True, eq=False)
class CandidateModes:
    """Modes of one device.

    ``are_named``: the board knows them by these names. ``notes``: which names were joined with
    others, and why.
    """

    modes: ModeFrame
    are_named: bool
    notes: tuple[str, ...] = ()


def find_modes(
    text: str, board: Path | None, device: str | None = None, known: ModeFrame | None = None
) -> CandidateModes:
    """The modes that ``text`` names as rows of ``device``.

    ``text``: a table (CSV), or a grid (TOML) or anything else that ``bench --mode`` takes on
    ``board``. Without a board they are those of this machine, or, where ``device`` is another one,
    those of its name (``device.power_modes.published_modes``). ``known``: its modes that were
    measured or published; one that is asked for by another name is known by theirs
    (``core.hardware.mode_names``). Nothing is set. Raises UsageError, InputError, StorageError,
    DeviceError.
    """
    label = device or _THIS_BOARD
    boards = boards_called(label)
    if text.strip().lower().endswith(".csv"):
        table = read_mode_table(Path(text.strip()), label)
        if known is None:
            return CandidateModes(table, are_named=False)
        joined = join_modes(table, known, boards=boards, are_explicit=True)
        return CandidateModes(joined.modes, False, joined.notes)
    if known is None or known.is_empty():
        return _unknown_modes(text, board, device, ())
    if names_grid(text) or is_settings(text) or text.strip().lower() in {"", "all", "present"}:
        candidates = _unknown_modes(text, board, device, known["mode"].to_list())
        joined = join_modes(candidates.modes, known, boards=boards, are_explicit=False)
        return CandidateModes(joined.modes, candidates.are_named, joined.notes)
    return _named_modes(split_names(text), board, device, known)


def _named_modes(
    names: Sequence[str], board: Path | None, device: str | None, known: ModeFrame
) -> CandidateModes:
    """Each of ``names``: a known mode, else one of the board's."""
    taken = [KnownMode(name) for name in known["mode"].to_list()]
    boards = boards_with(boards_called(device or _THIS_BOARD), taken)
    frames, notes = [], list[str]()
    for name in names:
        match = find_mode(KnownMode(name), taken, boards)
        if match is not None:
            frames.append(known.filter(known["mode"] == match.name).head(1))
            notes += match.notes(name)
            continue
        candidates = _unknown_modes(name, board, device, known["mode"].to_list())
        joined = join_modes(candidates.modes, known, boards=boards, are_explicit=False)
        frames.append(joined.modes)
        notes += joined.notes
    modes = frames[0]
    for frame in frames[1:]:
        modes = modes.vstack(frame)
    return CandidateModes(
        modes.unique("mode", keep="first", maintain_order=True), True, tuple(notes)
    )


def _unknown_modes(
    text: str, board: Path | None, device: str | None, seen: Collection[str]
) -> CandidateModes:
    """Those of the board at hand, or of the table of the board that ``device`` is."""
    label = device or _THIS_BOARD
    if device is not None and is_elsewhere(device, board):
        candidates: Sequence[PowerMode | PublishedMode] = modes_elsewhere(text, device, seen)
        are_named = not (names_grid(text) or is_settings(text))
        return CandidateModes(mode_frame(candidates, label), are_named)
    root = board_root(board)
    machine = identify(root)
    candidates = choose_modes(text, root, machine)
    if machine.kind == "jetson":
        # A clock that a mode leaves uncapped is the highest there is.
        highest = find_highest(root, find_module(root))
        candidates = [resolve(mode, highest).mode for mode in candidates]
    return CandidateModes(mode_frame(candidates, label), are_named=True)


def is_elsewhere(device: str, board: Path | None) -> bool:
    """Whether ``device``, as a run or a table calls it, is not this machine.

    A ``board`` that was named is taken to be it: ``local_devices`` leaves others out.
    """
    return board is None and names_another(device, identify(SYSTEM_ROOT))


def local_devices(
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


def require_local(
    devices: Sequence[str], board: Path | None, machines: Mapping[str, MachineIdentity]
) -> tuple[str, ...]:
    """``local_devices``; raises UsageError where there is none."""
    local = local_devices(devices, board, machines)
    if devices and not local:
        names = ", ".join(map(printable, devices[:3]))
        raise UsageError(
            f"the runs are of {names}, and --board is {identify(board_root(board)).name}",
            fix="leave --board out, or name runs of that board",
        )
    return local


def elsewhere_note(device: str, board: Path | None) -> tuple[str, ...]:
    """That a command measures ``device``, where this machine is another one; else nothing."""
    if not is_elsewhere(device, board):
        return ()
    return (
        f"the command is for {printable(device)}, not for this machine: replace user@board with "
        "its address, or run it there",
    )
