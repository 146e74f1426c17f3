"""What a run that was cut off has left: found by its journal, and put back."""

from __future__ import annotations

from pathlib import Path

from mansard.device.holding.acting import Actor, OnStep, Step, quietly
from mansard.device.holding.board_lock import board_lock
from mansard.device.holding.interrupts import Interrupts
from mansard.device.holding.journal_store import (
    clean_up,
    find_journal,
    find_torn,
    read_journal,
    remove_journal,
)
from mansard.device.holding.restoring import Restored, bring_back
from mansard.device.system import SYSTEM_ROOT


def restore(root: Path = SYSTEM_ROOT, *, on_step: OnStep = quietly) -> Restored | None:
    """Put back what a run that was cut off left; None if there is nothing to do.

    Raises DeviceError while a sweep is alive, or where something could not be put back.
    """
    if find_journal(root) is None and not find_torn(root):
        return None
    interrupts = Interrupts(restore_pending.__code__)
    interrupts.install()
    try:
        with board_lock(root):
            restored = restore_pending(Actor(root, on_step))
    finally:
        is_interrupted = interrupts.remove()
    if is_interrupted:
        raise KeyboardInterrupt
    return restored


def restore_pending(actor: Actor) -> Restored | None:
    """The same for one who has the lock."""
    restored = None
    while (path := find_journal(actor.root)) is not None:
        restored = bring_back(actor, read_journal(path), path.parent)
        actor.announce(Step("journal", str(path), "", "removed, the machine is as it was"))
        remove_journal(path)
    clean_up(actor.root)
    return restored
