"""Brings a machine back to what its journal says, and proves it by reading everything back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from mansard.core.errors import DeniedError, DeviceError, MansardError
from mansard.device.clocks.domains import LOCKS
from mansard.device.clocks.settings import find_clocks, is_setting, known_settings, read_setting
from mansard.device.holding.acting import (
    Actor,
    MachineStep,
    OnStep,
    quietly,
    restore_card,
    unlock_by_tool,
    wait_for_tools,
)
from mansard.device.holding.board_lock import board_lock
from mansard.device.holding.interrupts import Interrupts
from mansard.device.holding.journal import (
    FileFound,
    Journal,
    ModeFound,
    clean_up,
    find_journal,
    find_leftovers,
    read_boot_id,
    read_journal,
    remove_journal,
)
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.nvpmodel.sections import mode_name
from mansard.device.nvpmodel.tool import query
from mansard.device.system import SYSTEM_ROOT, below, is_there
from mansard.device.topology import CPU_FOLDER, online_path

_PAIRS = {"scaling_max_freq": "scaling_min_freq", "max_freq": "min_freq"}
_FLOORS = {floor: ceiling for ceiling, floor in _PAIRS.items()}
_RATES = frozenset(lock.rate for lock in LOCKS)
_SWITCHES = frozenset(lock.switches[0] for lock in LOCKS)
_OTHER_SWITCHES = frozenset(path for lock in LOCKS for path in lock.switches[1:])


def in_order(root: Path, files: Sequence[FileFound]) -> list[FileFound]:
    """Cores on, governors, clocks (each so that its minimum never lies above its maximum), caps
    and the rest, the memory's rate before its lock is opened, cores off."""
    return sorted(files, key=lambda file: (_rank(file), _place_in_pair(root, file, files)))


def _rank(file: FileFound) -> int:
    name = file.path.rpartition("/")[2]
    if name == "online":
        return 0 if file.content.strip() == "1" else 9
    if name.endswith("governor"):
        return 1
    if name in _PAIRS or name in _FLOORS:
        return 2
    if file.path in _RATES:
        return 6
    if file.path in _SWITCHES:
        return 8
    return 7 if file.path in _OTHER_SWITCHES else 4


def _place_in_pair(root: Path, file: FileFound, files: Sequence[FileFound]) -> tuple[str, int]:
    """Of one clock the maximum goes first if it rises, else the minimum."""
    folder, _, name = file.path.rpartition("/")
    if name not in _PAIRS and name not in _FLOORS:
        return file.path, 0
    is_ceiling = name in _PAIRS
    ceiling = f"{folder}/{name if is_ceiling else _FLOORS[name]}"
    wanted = next((_number(one.content) for one in files if one.path == ceiling), None)
    present = _number(read_setting(root, ceiling) or "")
    is_lowered = wanted is not None and present is not None and wanted < present
    return folder, int(is_ceiling == is_lowered)


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() else None


_MAX_PASSES = 3  # a setting can be refused until another one is back
_MAX_LISTED = 8
_SETTLE_S = 0.05  # after which a refused value is gone again
_BACK = "the former state"


class Restored(msgspec.Struct, frozen=True):
    """What a restore did. ``changes``: one line for everything that had to be set."""

    started_utc: str  # of the run that had not put the machine back
    pid: int
    is_after_reboot: bool  # the kernel's settings are new; only nvpmodel's mode was looked at
    changes: tuple[str, ...]

    def lines(self) -> tuple[str, ...]:
        """The same in words."""
        what = f"restored what the run of {self.started_utc} (process {self.pid}) had found"
        if self.is_after_reboot:
            what = (
                f"the system was rebooted since the run of {self.started_utc}: its clocks and "
                "cores are fresh, only the power mode was looked at"
            )
        return (what, *(self.changes or ("nothing had changed",)))


def bring_back(actor: Actor, journal: Journal, folder: Path) -> Restored:
    """Restore everything and verify it; raises DeviceError that lists what is not as it was.

    ``folder``: the journal's, where the board's tools have stored what they changed.
    """
    root = actor.root
    wait_for_tools(root)
    changes: list[str] = []
    is_after_reboot = _is_after_reboot(root, journal)
    left = restore_mode(actor, journal.nvpmodel, changes, is_forced=False)
    if not is_after_reboot:
        if journal.stores:
            left += unlock_by_tool(actor, folder, _BACK)
        ours, foreign = _sort_out(root, journal.files)
        _restore_files(actor, journal, ours, changes)
        wrong = _wrong(root, journal, ours)
        if wrong and journal.nvpmodel is not None:
            # A tool that was killed or stopped half-way can leave what it alone is able to set.
            left += restore_mode(actor, journal.nvpmodel, changes, is_forced=True)
            _restore_files(actor, journal, ours, changes)
            wrong = _wrong(root, journal, ours)
        left += [_difference(root, file) for file in wrong]
        if journal.card is not None:
            done, still = restore_card(actor, journal.card)
            changes += done
            left += still
        left += [f"{file.path} is not a setting of this machine" for file in foreign]
    if left:
        raise _not_restored(root, list(dict.fromkeys(left)), folder)
    return Restored(journal.started_utc, journal.pid, is_after_reboot, tuple(changes))


def _is_after_reboot(root: Path, journal: Journal) -> bool:
    """Whether the system was restarted since ``journal`` was written, as far as is known."""
    boot_id = read_boot_id(root)
    return None not in {boot_id, journal.boot_id} and boot_id != journal.boot_id


def _not_restored(root: Path, left: list[str], folder: Path) -> DeviceError:
    more = f" and {len(left) - _MAX_LISTED} more" if len(left) > _MAX_LISTED else ""
    return DeviceError(
        f"not everything is restored: {'; '.join(left[:_MAX_LISTED])}{more}",
        where=str(root),
        fix="let the machine cool, end what may be setting it (jtop, another tool) and run "
        f"'mansard board restore' as root; {folder}/journal.json is kept for it",
    )


def _difference(root: Path, file: FileFound) -> str:
    return f"{file.path} wanted {file.content.strip()}, found {_found(root, file)}"


def _found(root: Path, file: FileFound) -> str:
    found = read_setting(root, file.path)
    return "unreadable" if found is None else found.strip() or "nothing"


def restore_mode(
    actor: Actor, mode: ModeFound | None, changes: list[str], *, is_forced: bool
) -> list[str]:
    """Set the mode that was found where the board is in another; what is wrong afterwards."""
    if mode is None:
        return []
    try:
        present = query(actor.root).name
        if present.casefold() == mode.name.casefold() and not is_forced:
            return []
        number = _number_of(actor.root, mode)
        outcome = actor.set_nvpmodel(number, mode.name, _BACK)
    except MansardError as error:
        return [f"power mode {mode.name}: {error}"]
    if outcome.kind == "partial":
        return [
            f"power mode {mode.name}: nvpmodel stopped half-way ({outcome.text}): end what uses "
            "the GPU, or reboot"
        ]
    if outcome.kind != "set":
        return [f"power mode {mode.name}: nvpmodel says {outcome.text}"]
    changes.append(f"power mode {present} → {mode.name}")
    return []


def _number_of(root: Path, mode: ModeFound) -> int:
    """The number that nvpmodel has for the mode today; raises MansardError."""
    modes = read_modes(root)
    same = modes.by_id(mode.id) if mode.id is not None else None
    if same is None or same.mode.name.casefold() != mode.name.casefold():
        same = modes.find(mode.name)
    if same is not None:
        return same.id
    # The board was in this mode, so nvpmodel can set it, also where Mansard refuses its section.
    refused = {mode_name(one.name).casefold(): one.id for one in modes.refused}
    number = refused.get(mode.name.casefold())
    if number is None:
        raise DeviceError(f"{modes.where} has no mode of that name any more")
    return number


def _sort_out(
    root: Path, files: Iterable[FileFound]
) -> tuple[tuple[FileFound, ...], tuple[FileFound, ...]]:
    """The entries that are settings of this machine, and those that are not.

    A journal can be tampered with: nothing is written but what a sweep would write itself.
    """
    known = known_settings(root, find_clocks(root))
    entries = tuple(files)
    ours = tuple(file for file in entries if is_setting(file.path, known) and _is_plain(file))
    return ours, tuple(file for file in entries if file not in ours)


def _is_plain(file: FileFound) -> bool:
    return file.content.isascii() and all(
        character.isprintable() or character in "\n\t" for character in file.content
    )


def _restore_files(
    actor: Actor, journal: Journal, files: tuple[FileFound, ...], changes: list[str]
) -> None:
    for _ in range(_MAX_PASSES):
        _wake_cores(actor, journal, files)
        wrong = _wrong(actor.root, journal, files)
        if not wrong:
            return
        for file in in_order(actor.root, wrong):
            line = f"{file.path} {_found(actor.root, file)} → {file.content.strip()}"
            try:
                actor.write(file.path, file.content, _BACK)
            except MansardError:  # the next pass, or the comparison at the end, sees it
                continue
            if line not in changes:
                changes.append(line)
        time.sleep(_SETTLE_S)


def _wake_cores(actor: Actor, journal: Journal, files: tuple[FileFound, ...]) -> None:
    """Switch on cores that were off, where settings of theirs can only be put back when on."""
    for file in files:
        cpu = _cpu_of(file.path)
        switch = online_path(cpu) if cpu is not None else file.path
        if switch == file.path or read_setting(actor.root, file.path) == file.content:
            continue
        if (journal.content(switch) or "").strip() == "0" and _reads(actor.root, switch) == "0":
            try:
                actor.write(switch, "1\n", "its clock is restored")
            except MansardError:
                continue


def _wrong(root: Path, journal: Journal, files: tuple[FileFound, ...]) -> list[FileFound]:
    """The settings that are not as they were found."""
    wrong = []
    for file in files:
        found = read_setting(root, file.path)
        if found == file.content or _is_free_rate(root, journal, file.path):
            continue
        if found is None and _is_of_core_that_was_off(journal, file.path):
            continue
        wrong.append(file)
    return wrong


def _is_free_rate(root: Path, journal: Journal, path: str) -> bool:
    """Whether it is the memory's rate while nothing holds it: then the system moves it."""
    for lock in LOCKS:
        if path == lock.rate:
            switch = lock.switches[0]
            was = (journal.content(switch) or "").strip()
            return was == "0" and _reads(root, switch) == "0"
    return False


def _is_of_core_that_was_off(journal: Journal, path: str) -> bool:
    cpu = _cpu_of(path)
    return cpu is not None and (journal.content(online_path(cpu)) or "").strip() == "0"


def _cpu_of(path: str) -> int | None:
    number = path.removeprefix(f"{CPU_FOLDER}/cpu").partition("/")[0]
    return int(number) if path.startswith(f"{CPU_FOLDER}/cpu") and number.isdecimal() else None


def _reads(root: Path, path: str) -> str:
    return (read_setting(root, path) or "").strip()


def require_rights(root: Path) -> None:
    """Raises DeniedError where a cut-off run left settings that this user cannot put back."""
    path = find_journal(root)
    if path is None:
        return
    journal = read_journal(path)
    denied = [] if os.access(path.parent, os.W_OK | os.X_OK) else [str(path)]
    if read_boot_id(root) == journal.boot_id:
        ours, _ = _sort_out(root, journal.files)
        wrong = (below(root, file.path) for file in _wrong(root, journal, ours))
        denied += [str(file) for file in wrong if is_there(file) and not os.access(file, os.W_OK)]
    if denied:
        raise DeniedError(
            f"what the run of {journal.started_utc} left cannot be restored by this user: "
            f"{len(denied)} files are denied, first {denied[0]}; nothing was touched",
            where=str(root),
            fix="run 'sudo mansard board restore'",
        )


def planned_restore(root: Path = SYSTEM_ROOT) -> Restored | None:
    """What ``restore`` would set; nothing is touched. None if there is nothing to do."""
    path = find_journal(root)
    if path is None:
        return None
    journal = read_journal(path)
    is_after_reboot = _is_after_reboot(root, journal)
    changes = []
    if journal.nvpmodel is not None:
        present, wanted = query(root).name, journal.nvpmodel.name
        changes += [f"power mode {present} → {wanted}"] if present != wanted else []
    if not is_after_reboot:
        ours, _ = _sort_out(root, journal.files)
        changes += [
            f"{file.path} {_found(root, file)} → {file.content.strip()}"
            for file in in_order(root, _wrong(root, journal, ours))
        ]
        changes += ["power limit and clocks of the card"] if journal.card is not None else []
    return Restored(journal.started_utc, journal.pid, is_after_reboot, tuple(changes))


def restore(root: Path = SYSTEM_ROOT, *, on_step: OnStep = quietly) -> Restored | None:
    """Put back what a run that was cut off left; None if there is nothing to do.

    Raises DeviceError while a sweep is alive, or where something could not be restored;
    DeniedError, before anything is touched, where this user may not.
    """
    if find_journal(root) is None and not find_leftovers(root):
        return None
    require_rights(root)
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
    """The same, for a caller that holds the lock."""
    restored = None
    while (path := find_journal(actor.root)) is not None:
        restored = bring_back(actor, read_journal(path), path.parent)
        actor.announce(MachineStep("journal", str(path), "", "removed, the machine is as it was"))
        remove_journal(path)
    clean_up(actor.root)
    return restored
