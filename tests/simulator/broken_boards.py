"""Five simulated boards with one fault each, for ``mansard doctor``."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from mansard.device.system import run_tool
from mansard.simulator.create import create_board
from mansard.simulator.faults import set_fault

_NO_PROCESS = 2**22 - 1  # the highest number of a process, so hardly ever one


class BrokenBoard(msgspec.Struct, frozen=True):
    """One board, and in words what is wrong with it."""

    root: Path
    fault: str


def five_broken_boards(folder: Path) -> tuple[BrokenBoard, ...]:
    """Five boards below ``folder``, each broken in another way; raises StorageError."""
    return (
        _without_meter(folder / "1"),
        _without_nvpmodel(folder / "2"),
        _with_junk(folder / "3"),
        _with_a_stray_mode(folder / "4"),
        _with_pending_journal(folder / "5"),
    )


def _without_meter(folder: Path) -> BrokenBoard:
    root = create_board("orin-nano-super", folder)
    # A carrier board without the chip: driver, bus and hwmon all know nothing of it.
    for device in sorted((root / "sys/bus/i2c/drivers/ina3221").iterdir()):
        shutil.rmtree(device.resolve())
    for link in [path for path in root.rglob("*") if path.is_symlink() and not path.exists()]:
        link.unlink()
    return BrokenBoard(root, "there is no power monitor")


def _without_nvpmodel(folder: Path) -> BrokenBoard:
    root = create_board("agx-orin", folder)
    set_fault(root, "nvpmodel_missing", value=True)
    return BrokenBoard(root, "nvpmodel is not installed")


def _with_junk(folder: Path) -> BrokenBoard:
    root = create_board("xavier-nx", folder)
    set_fault(root, "junk_conf", value=True)
    return BrokenBoard(root, "nvpmodel.conf is cut and holds junk")


def _with_a_stray_mode(folder: Path) -> BrokenBoard:
    root = create_board("thor", folder)
    (root / "var/lib/nvpmodel/status").write_text("pmode:0009\n")
    return BrokenBoard(root, "the board says that it is in a power mode that its file has not")


def _with_pending_journal(folder: Path) -> BrokenBoard:
    from mansard.device.holding.journal import observe, write_journal

    root = create_board("agx-orin", folder)
    # As a sweep leaves it that lost its power: what was found is on disk, another mode is set.
    found = msgspec.structs.replace(observe(root), pid=_NO_PROCESS)
    write_journal(root, found)
    run_tool([root / "usr/sbin/nvpmodel", "-m", "1"])
    return BrokenBoard(root, "a sweep was cut off: its journal is pending, its mode still set")
