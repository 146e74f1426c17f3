"""What setting a power mode would do, and whether it may: nothing here touches the machine."""

from __future__ import annotations

import os
from pathlib import Path

from mansard.core.errors import DeviceError, UsageError
from mansard.core.records import PowerMode
from mansard.device.clocks.settings import Clocks, find_clocks
from mansard.device.clocks.steps import Write, core_steps, lock_steps
from mansard.device.holding.acting import (
    MachineStep,
    is_needed,
    nvpmodel_step,
    planned_card_steps,
    planned_tool_steps,
)
from mansard.device.nvpmodel.modes import BoardMode, read_modes
from mansard.device.system import below, is_there


def planned_steps(
    root: Path, mode: PowerMode, clocks: Clocks | None = None
) -> tuple[MachineStep, ...]:
    """What setting ``mode`` would do now; nothing is touched. Raises UsageError.

    Finding the clocks takes a while: a caller with many modes passes them in.
    """
    if mode.kind == "card":
        return planned_card_steps(mode)
    clocks = clocks or find_clocks(root)
    writes = lock_steps(root, mode, clocks)
    steps = [MachineStep("write", write.path, write.value, write.why) for write in writes]
    if mode.kind == "nvpmodel":
        found = find_board_mode(root, mode)
        on, _ = core_steps(mode, clocks)
        tools = planned_tool_steps(root) if is_needed(root, mode, clocks) else ()
        steps[len(on) : len(on)] = (nvpmodel_step(root, found.id, mode.name, "set"), *tools)
    return tuple(steps)


def find_board_mode(root: Path, mode: PowerMode) -> BoardMode:
    """The mode of the board that is meant, by name and clocks; raises UsageError."""
    modes = read_modes(root)
    found = modes.find(mode.name)
    if found is None or found.mode != mode:
        names = ", ".join(one.mode.name for one in modes.modes)
        what = "has no power mode" if found is None else "means something else by power mode"
        raise UsageError(f"this board {what} {mode.name}", fix=f"it has {names}")
    return found


def check_permissions(root: Path, writes: tuple[Write, ...]) -> None:
    """Raises DeviceError before anything is touched, if one of the files cannot be written."""
    for write in writes:
        path = below(root, write.path)
        if is_there(path) and not os.access(path, os.W_OK):
            raise DeviceError(
                "cannot be written: permission denied",
                where=write.path,
                fix="run as root (sudo), on the board itself rather than in a container",
            )
