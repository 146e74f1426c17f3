"""How many of the GPU's multiprocessors are on, by the gating mask that is in force."""

from __future__ import annotations

from pathlib import Path

from mansard.core.errors import MansardError
from mansard.device.clocks.settings import read_setting
from mansard.device.nvpmodel.config import Setting, Table
from mansard.device.nvpmodel.gating import mode_sms
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.nvpmodel.paths import find_path

_COUNTED = "TPC_PG_MASK"  # the mask that multiprocessors are counted by


def read_sms(root: Path) -> int | str:
    """Multiprocessors that are not gated, or the reason why that cannot be read."""
    try:
        modes = read_modes(root)
    except MansardError:
        return "the machine has no nvpmodel.conf that tells of the GPU's gating"
    masks, missing = [], ""
    for param in modes.config.params:
        for argument in param.arguments:
            if argument.endswith("PG_MASK"):
                path = find_path(root, param, argument)
                text = read_setting(root, path) if path is not None else None
                if text is not None:
                    masks.append(Setting(param.name, argument, text.strip()))
                else:
                    missing = f"the GPU's gating mask {argument} cannot be read"
    if missing and not any(mask.argument == _COUNTED for mask in masks):
        return missing
    return mode_sms(modes.soc, modes.module, Table(0, "present", tuple(masks)))
