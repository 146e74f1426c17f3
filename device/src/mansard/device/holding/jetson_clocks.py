"""The board's own jetson_clocks, for what only it can hold: a memory clock without known files.

It locks every clock at its highest and keeps what was before in a file of its own (--store),
from which it restores. Facts gathered: --restore needs an earlier --store; a store over an
older file is asked about; exit codes are not always 0 on success for --show.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mansard.core.errors import DeviceError, MansardError
from mansard.core.records import PowerMode
from mansard.core.text import printable
from mansard.device.clocks.nodes import Clocks
from mansard.device.holding.acting import Actor, Step, tool_step
from mansard.device.system import find_tool

STORE = "jetson_clocks.store"  # beside the journal, which names it
_NAME = "jetson_clocks"
_WHY_STORE, _WHY_LOCK = "keep what it will change", "lock the memory clock, which shows no files"


def is_needed(root: Path, mode: PowerMode, clocks: Clocks) -> bool:
    """Whether the memory of one of the board's modes can be locked by its tool alone."""
    emc = clocks.emc
    is_held = emc is not None and emc.can_be_held
    return mode.kind == "nvpmodel" and not is_held and find_tool(root, _NAME) is not None


def planned_tool_steps(root: Path) -> tuple[Step, ...]:
    """What ``lock_by_tool`` would do."""
    return (
        tool_step(root, _NAME, f"--store {STORE}", _WHY_STORE),
        tool_step(root, _NAME, "", _WHY_LOCK),
    )


def lock_by_tool(actor: Actor, folder: Path) -> None:
    """Lock all clocks at their highest; raises DeviceError. The journal names the store already."""
    store = folder / STORE
    if not store.exists():
        _run(actor, ("--store", str(store)), _WHY_STORE)
    _run(actor, (), _WHY_LOCK)


def unlock_by_tool(actor: Actor, folder: Path, why: str) -> list[str]:
    """Have the tool restore what it stored; what went wrong. Nothing stored is nothing locked."""
    store = folder / STORE
    try:
        status = store.lstat()
    except OSError:
        return []
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in {0, os.geteuid()}:
        return [f"{store} is not yours, and not restored from"]
    try:
        _run(actor, ("--restore", str(store)), why)
    except MansardError as error:
        return [str(error)]
    return []


def _run(actor: Actor, arguments: tuple[str, ...], why: str) -> None:
    done = actor.run_tool(_NAME, arguments, why)
    if done.exit_code:
        raise DeviceError(
            f"{' '.join((_NAME, *arguments))} failed: {printable(done.output.strip(), 300)}",
            where=str(actor.root),
            fix="run it by hand as root to see what is wrong",
        )
