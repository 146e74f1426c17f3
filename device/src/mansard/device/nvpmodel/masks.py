"""The GPU's gating masks that are in force, as the kernel tells them."""

from __future__ import annotations

from pathlib import Path

from mansard.device.nvpmodel.config import Config
from mansard.device.nvpmodel.paths import find_path
from mansard.device.system import below, read_text


def present_masks(root: Path, config: Config) -> dict[str, str | None]:
    """Each gating mask that ``config`` names, and what it is now; None where it is not told."""
    masks: dict[str, str | None] = {}
    for param in config.params:
        for argument in param.arguments:
            if argument.endswith("PG_MASK"):
                path = find_path(root, param, argument)
                masks[argument] = read_text(below(root, path)) if path is not None else None
    return masks
