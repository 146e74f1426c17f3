"""From a configuration's paths to files under the root, nowhere else."""

from __future__ import annotations

from pathlib import Path

from mansard.core.errors import InputError
from mansard.device.nvpmodel.config import KNEXT, Param
from mansard.device.system import below


def find_path(root: Path, param: Param, argument: str) -> str | None:
    """The board's path of an argument that exists under ``root``; None where none does.

    The path for the newer kernel comes first: where both exist nvpmodel's own choice is not
    documented, and the older one is then a link kept for old tools. Paths that lead out of
    /sys are never looked at (``below``): nothing of a board is set elsewhere.
    """
    for name in (f"{argument}{KNEXT}", argument):
        path = param.arguments.get(name)
        if path is not None and _exists(root, path):
            return path
    return None


def _exists(root: Path, path: str) -> bool:
    try:
        return below(root, path).exists()
    except (InputError, OSError, ValueError):  # no path of the kernel's, or no path at all
        return False
