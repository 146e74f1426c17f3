"""How many of the GPU's multiprocessors are on, by the gating mask that is in force."""

from __future__ import annotations

from pathlib import Path

from mansard.core.errors import MansardError
from mansard.device.nvpmodel.config import Setting, Table
from mansard.device.nvpmodel.gating import mode_sms
from mansard.device.nvpmodel.masks import present_masks
from mansard.device.nvpmodel.modes import read_modes

_COUNTED = "TPC_PG_MASK"  # the mask that multiprocessors are counted by


def read_sms(root: Path) -> int | str:
    """Multiprocessors that are not gated, or the reason why that cannot be read."""
    try:
        modes = read_modes(root)
    except MansardError:
        return "the machine has no nvpmodel.conf that tells of the GPU's gating"
    masks = present_masks(root, modes.config)
    silent = [name for name, text in masks.items() if text is None]
    if silent and masks.get(_COUNTED) is None:
        return f"the GPU's gating mask {silent[-1]} cannot be read"
    known = (Setting("", name, text) for name, text in masks.items() if text is not None)
    return mode_sms(modes.soc, modes.module, Table(0, "present", tuple(known)))
