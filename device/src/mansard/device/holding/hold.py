"""Holding a machine: set to one mode after another, and put back however the work ends.

The order: lock, restore what an earlier run left, observe, write the journal to disk, and only
then touch anything; at the end restore, read everything back, and forget the journal. What
cannot be put back stays in the journal for ``mansard board restore``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from mansard.core.errors import DeniedError, DeviceError, MansardError, RebootRequired
from mansard.core.records import PowerMode
from mansard.device.cards import read_back
from mansard.device.clocks.readback import check_caps, check_writes, read_mode
from mansard.device.clocks.settings import find_clocks, read_setting, real_path
from mansard.device.clocks.steps import Write, clock_steps, core_steps, lock_steps
from mansard.device.conditions.mode_settings import SettingsInForce, find_mode_settings
from mansard.device.conditions.sources import find_throttling
from mansard.device.holding.acting import (
    STORE,
    Actor,
    MachineStep,
    OnStep,
    check_permissions,
    find_board_mode,
    is_needed,
    lock_by_tool,
    planned_steps,
    quietly,
    set_card,
    unlock_by_tool,
)
from mansard.device.holding.board_lock import board_lock
from mansard.device.holding.interrupts import Interrupts
from mansard.device.holding.journal import (
    Journal,
    extend,
    observe,
    remove_journal,
    with_card,
    write_journal,
)
from mansard.device.holding.restoring import (
    Restored,
    in_order,
    require_rights,
    restore_mode,
    restore_pending,
)
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.nvpmodel.tool import probe, query, reboot_modes
from mansard.device.system import SYSTEM_ROOT

_ROUNDING_S = 0.02  # after which a kernel that rounds has done so
_PATIENCE_S = 1.0  # the most that a kernel takes until a setting is what was written
_BEFORE_NEXT = "the former state, before the next mode"
SETTLE_S = 0.3  # after which a setting that something writes back has changed


def hold_machine(
    root: Path = SYSTEM_ROOT, *, on_step: OnStep = quietly, settle_s: float = SETTLE_S
) -> Hold:
    """A machine to hold in a ``with`` block; entering and leaving raise any MansardError.

    ``on_step`` is called before every single write and tool call.
    """
    return Hold(root, on_step, settle_s)


class Hold:
    """A machine that is held: made by ``hold_machine``, used in a ``with`` block."""

    def __init__(self, root: Path, on_step: OnStep, settle_s: float) -> None:
        self._root = root
        self._settle_s = settle_s
        self._interrupts = Interrupts(Hold.__exit__.__code__, restore_pending.__code__)
        self._actor = Actor(root, on_step, self._interrupts.shield)
        self._stack = contextlib.ExitStack()
        self._journal: Journal | None = None
        self._path: Path | None = None  # of the journal
        self._kept: set[Path] = set()  # files whose content is in it
        self._written: set[str] = set()  # clocks that the present mode holds
        self._is_mode_changed = False
        self._is_mode_partial = False  # nvpmodel stopped half-way: the board is in no mode
        self._settings: SettingsInForce | None = None  # as the present mode left them
        self._card_mode: PowerMode | None = None  # the present one, of a graphics card
        self.restored: Restored | None = None  # what an earlier run had left

    def __enter__(self) -> Hold:
        with contextlib.ExitStack() as stack:
            stack.enter_context(board_lock(self._root))
            self._interrupts.install()
            stack.callback(self._interrupts.remove)
            require_rights(self._root)
            self.restored = restore_pending(self._actor)
            self._begin_journal()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self._require_journal()
            # The journal on disk, not the one in memory: that is the one that counts.
            restore_pending(Actor(self._root, self._actor.announce))
        except DeviceError as left:
            if isinstance(error, MansardError):  # else its words would be lost
                raise DeviceError(
                    f"{left.what}; before that: {error}", where=left.where, fix=left.fix
                ) from left
            raise
        finally:
            is_interrupted = self._interrupts.remove()
            self._stack.close()
        if is_interrupted and error is None:
            raise KeyboardInterrupt

    @property
    def left_behind(self) -> tuple[str, ...]:
        """What an interrupted run had left and was put back first, in lines."""
        return self.restored.lines() if self.restored is not None else ()

    def steps(self, mode: PowerMode) -> tuple[MachineStep, ...]:
        """What ``set`` would do now."""
        return planned_steps(self._root, mode)

    def set(self, mode: PowerMode) -> PowerMode:
        """Bring the machine to ``mode`` and return what it is in, read back.

        Raises UsageError for what the machine does not have, RebootRequired, and DeviceError
        for what cannot be written or does not stay.
        """
        self._settings = self._card_mode = None
        if mode.kind == "card":
            found = self._set_card(mode)
            self._card_mode = mode
            return found
        clocks = find_clocks(self._root)
        check_permissions(self._root, lock_steps(self._root, mode, clocks))
        self._release(mode)
        on, off = core_steps(mode, find_clocks(self._root))
        self._write(on)
        self._look_again()
        is_set = mode.kind == "nvpmodel"
        if is_set:
            self._set_nvpmodel(mode)
        clocks = find_clocks(self._root)
        if is_needed(self._root, mode, clocks):
            self._lock_by_tool()
            clocks = find_clocks(self._root)
        writes = (*on, *clock_steps(self._root, mode, clocks, is_set=is_set), *off)
        self._write(writes[len(on) :])
        time.sleep(min(_ROUNDING_S, self._settle_s))
        check_writes(self._root, writes, clocks, patience_s=_PATIENCE_S)
        time.sleep(self._settle_s)
        check_writes(self._root, writes, clocks, is_settled=True)
        found = read_mode(self._root, mode)
        if is_set:
            check_caps(mode, found, clocks)
        self._settings = find_mode_settings(self._root)
        return found

    def changes(self) -> tuple[str, ...]:
        """What has changed since ``set``, in sentences; empty where the mode holds.

        It only reads files, and starts no tool, because it is called after every trial.
        """
        self._require_journal()
        if self._settings is not None:
            is_throttled = any(find_throttling(self._root, ()).read_alarms())
            return self._settings.losses(is_throttled=is_throttled)
        if self._card_mode is not None and self._journal is not None and self._journal.card:
            try:
                read_back(self._card_mode, self._journal.card)
            except DeviceError as error:
                return (error.what,)
        return ()

    def needing_reboot(self, modes: Sequence[PowerMode]) -> Mapping[str, str]:
        """Of the board's own ``modes`` those that its tool does not set now: name -> its words.

        Only modes that change the GPU's gating can need a reboot, and only trying tells: each of
        these is tried with the reboot declined.
        """
        names = {mode.name for mode in modes if mode.kind == "nvpmodel"}
        if not names:
            return {}
        board = read_modes(self._root)
        doubtful = names & reboot_modes(self._root, board, query(self._root).name).keys()
        outcomes = probe(self._root, [one for one in board.modes if one.mode.name in doubtful])
        return {name: found.text for name, found in outcomes.items() if found.kind == "reboot"}

    def _release(self, mode: PowerMode) -> None:
        """Undo the locks of the mode before, so that none of it is left in the next one."""
        journal = self._journal
        if journal is None or self._path is None:
            return
        left: list[str] = []
        if journal.stores:
            left += unlock_by_tool(self._actor, self._path.parent, _BEFORE_NEXT)
        if mode.kind == "clocks" and self._is_mode_changed and journal.nvpmodel is not None:
            is_forced = self._is_mode_partial
            left += restore_mode(self._actor, journal.nvpmodel, [], is_forced=is_forced)
            self._is_mode_partial = is_forced and bool(left)
        if left:
            raise DeviceError(f"the mode before cannot be undone: {'; '.join(left)}")
        locked = [file for file in journal.files if file.path in self._written]
        for file in in_order(self._root, locked):
            if read_setting(self._root, file.path) not in {None, file.content}:
                self._actor.write(file.path, file.content, _BEFORE_NEXT)
        self._written.clear()

    def _write(self, writes: tuple[Write, ...]) -> None:
        for write in writes:
            self._require_journalled(write.path)
            if not write.path.endswith("/online"):
                self._written.add(write.path)
            self._actor.write(write.path, write.value + "\n", write.why)

    def _require_journalled(self, path: str) -> None:
        """Nothing is touched that could not be restored."""
        if real_path(self._root, path) not in self._kept:
            raise DeviceError(
                "is not written, for what it holds now cannot be read and kept", where=path
            )

    def _look_again(self) -> None:
        """Keep what has come to light: the clocks of cores that were off."""
        if self._journal is not None:
            journal = extend(self._root, self._journal)
            if journal is not self._journal:
                self._write_journal(journal)

    def _lock_by_tool(self) -> None:
        if self._journal is None or self._path is None:
            raise DeviceError("is not held", where=str(self._root), fix="enter the hold first")
        if not self._journal.stores:
            self._write_journal(msgspec.structs.replace(self._journal, stores=(STORE,)))
        lock_by_tool(self._actor, self._path.parent)

    def _begin_journal(self) -> None:
        try:
            self._write_journal(observe(self._root))
        except BaseException:
            if self._path is not None:  # nothing was touched yet
                remove_journal(self._path)
            raise

    def _write_journal(self, journal: Journal) -> None:
        why = f"{len(journal.files)} settings in their former state"
        self._actor.announce(MachineStep("journal", "journal", "", why))
        with self._interrupts.shield():
            self._path = write_journal(self._root, journal)
            self._journal = journal
            # Links of cores that are off now led somewhere when they were looked at first.
            self._kept |= {real_path(self._root, file.path) for file in journal.files}

    def _require_journal(self) -> None:
        """A board whose folder was moved or removed would else count as put back."""
        if self._path is not None and not self._path.exists():
            raise DeviceError(
                "is missing, and with it the settings to restore",
                where=str(self._path),
                fix="if the board was moved, run 'mansard board restore' where it is now",
            )

    def _set_card(self, mode: PowerMode) -> PowerMode:
        before = self._journal
        if before is None:
            raise DeviceError("is not held", where=str(self._root), fix="enter the hold first")
        journal = with_card(before)
        if journal is not before:
            self._write_journal(journal)
        if journal.card is None:
            raise DeviceError("is not in the journal", where="the graphics card")
        try:
            return set_card(self._actor, mode, journal.card)
        except DeniedError:
            if journal is not before:  # a card that was never set is not to be put back
                self._write_journal(before)
            raise

    def _set_nvpmodel(self, mode: PowerMode) -> None:
        found = find_board_mode(self._root, mode)
        self._is_mode_changed = True
        self._is_mode_partial = True  # until the tool has ended
        outcome = self._actor.set_nvpmodel(found.id, mode.name, "set")
        if outcome.kind == "reboot":
            raise RebootRequired(
                f"power mode {mode.name} needs a reboot: {outcome.text}",
                fix=f"to measure it run 'sudo nvpmodel -m {found.id}' by hand, reboot, and bench "
                "with MODE=present",
            )
        self._is_mode_partial = outcome.kind == "partial"
        if self._is_mode_partial:
            raise DeviceError(
                f"nvpmodel stopped half-way to power mode {mode.name}, and the board is in neither "
                f"mode: {outcome.text}",
                fix="end what uses the GPU (a desktop, jtop, containers), or reboot",
            )
        if outcome.kind != "set":
            raise DeviceError(
                f"nvpmodel does not set power mode {mode.name}: {outcome.text}",
                fix="run as root (sudo), on the board itself rather than in a container",
            )
