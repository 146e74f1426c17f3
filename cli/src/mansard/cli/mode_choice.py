"""The option --modes: the modes that a decision is about. Nothing is set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mansard.analytics.decide.modes import ModeFrame
    from mansard.core.records import PowerMode


def wanted_modes(text: str, board: Path | None, device: str) -> tuple[ModeFrame, bool]:
    """The modes of ``text`` as rows of ``device``, and whether the board knows them by name.

    ``text``: a table (CSV), or a grid (TOML) or anything else that ``bench --mode`` takes on
    ``board``, this machine by default. Raises UsageError, InputError, StorageError, DeviceError.
    """
    from mansard.analytics.decide.modes import mode_frame, read_mode_table

    if text.strip().lower().endswith(".csv"):
        return read_mode_table(Path(text.strip()), device), False
    return mode_frame(_board_modes(text, board), device), True


def _board_modes(text: str, board: Path | None) -> tuple[PowerMode, ...]:
    """The modes of a board; a clock that a mode leaves uncapped is the highest there is."""
    from mansard.cli.boards import board_root
    from mansard.device.choosing.choice import choose_modes
    from mansard.device.identity import identify
    from mansard.device.jetson import find_module
    from mansard.device.nvpmodel.resolve import find_highest, resolve

    root = board_root(board)
    machine = identify(root)
    modes = choose_modes(text, root, machine)
    if machine.kind != "jetson":
        return modes
    highest = find_highest(root, find_module(root))
    return tuple(resolve(mode, highest).mode for mode in modes)
