"""Checks of what is kept on disk: an unfinished sweep, its lock, and room for the next."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mansard.cli.check import Check, missing, ok, warning

_ENOUGH_BYTES = 1 << 30  # a whole sweep with raw samples needs some 100 MB


def check_state(root: Path) -> Iterator[Check]:
    """The journal, the lock, the folder of the journal, and the disk of the runs."""
    yield _check_journal(root)
    yield _check_folder(root)
    yield _check_disk()


def _check_journal(root: Path) -> Check:
    from mansard.core.errors import DeviceError
    from mansard.device.holding.board_lock import board_lock
    from mansard.device.holding.journal import find_journal

    try:
        with board_lock(root):
            path = find_journal(root)
    except DeviceError as error:
        return warning("sweeps", error.what, error.fix or "wait until it has ended")
    if path is not None:
        return warning(
            "sweeps",
            f"one was cut off, and the machine is still as it left it: {path}",
            "run 'mansard restore'",
        )
    return ok("sweeps", "none running, none cut off")


def _check_folder(root: Path) -> Check:
    from mansard.device.holding.journal import journal_folders

    folders = journal_folders(root)
    writable = next((folder for folder in folders if _can_be_made(folder)), None)
    if writable is None:
        return missing(
            "journal",
            f"neither {' nor '.join(map(str, folders))} can be written: nothing can be set",
            "run as root (sudo), or set XDG_STATE_HOME to a folder that you may write",
        )
    return ok("journal", f"kept in {writable}")


def _check_disk() -> Check:
    here = Path.cwd()
    free_bytes = shutil.disk_usage(here).free
    if free_bytes < _ENOUGH_BYTES:
        return warning(
            "disk",
            f"{free_bytes / 1e6:.0f} MB free in {here}",
            "free some space, or run where there is more: raw samples are kept",
        )
    return ok("disk", f"{free_bytes / 1e9:.1f} GB free in {here}")


def _can_be_made(folder: Path) -> bool:
    for place in (folder, *folder.parents):
        if os.path.lexists(place):
            return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    return False
