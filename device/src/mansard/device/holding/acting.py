"""Steps on a machine that is held: files written, board tools run, graphics cards set.

``planned_steps`` says what setting a mode would do; nothing is touched then. Each step is
announced before it is done.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from mansard.core.errors import DeniedError, DeviceError, MansardError, UsageError
from mansard.core.processes.programs import Finished
from mansard.core.records import PowerMode
from mansard.core.storage.files import check_descriptors
from mansard.core.text import printable
from mansard.device.cards import (
    CardState,
    CardWrite,
    card_writes,
    differences,
    read_back,
    read_card,
    restoring_writes,
    write_card,
)
from mansard.device.clocks.settings import Clocks, find_clocks, read_setting, real_path
from mansard.device.clocks.steps import Write, as_taken, core_steps, lock_steps
from mansard.device.nvpmodel.modes import BoardMode, read_modes
from mansard.device.nvpmodel.tool import ModeOutcome, set_mode
from mansard.device.system import (
    SYSTEM_ROOT,
    below,
    find_tool,
    is_there,
    run_tool,
    write_text,
)
from mansard.device.topology import CPU_FOLDER

_TOOLS = ("nvpmodel", "jetson_clocks")
_POLL_S = 0.05
_APPEARS_S = 2.0  # after which a core has no clock of its own
_SOON_S = 0.002


class MachineStep(msgspec.Struct, frozen=True):
    """One thing that is done to the machine, or would be.

    kinds: ``write`` a setting, ``nvpmodel`` or ``jetson_clocks`` to be called, ``card`` a limit
    of a graphics card, ``journal`` written or removed.
    """

    kind: str
    target: str
    value: str
    why: str

    def __str__(self) -> str:
        if self.kind == "write":
            return f"echo {self.value} > {self.target} ({self.why})"
        words = " ".join(filter(None, (self.target, self.value)))
        return f"{words} ({self.why})"


OnStep = Callable[[MachineStep], None]
Shield = Callable[[], AbstractContextManager[None]]


def quietly(step: MachineStep) -> None:
    """Announce nothing."""


class Actor:
    """Does steps on the machine under ``root``, and says each beforehand."""

    def __init__(
        self, root: Path, on_step: OnStep = quietly, shield: Shield = contextlib.nullcontext
    ) -> None:
        self.root = root
        self._on_step = on_step
        self._shield = shield

    def announce(self, step: MachineStep) -> None:
        """Say what comes next."""
        self._on_step(step)

    def write(self, path: str, text: str, why: str) -> None:
        """Write a setting; raises DeviceError."""
        with self._shield():
            self._on_step(MachineStep("write", path, text.strip(), why))
            write_text(real_path(self.root, path), text)
            if text.strip() == "1" and path.endswith("/online"):
                _wait_for_clock(self.root, path)

    def set_nvpmodel(self, number: int, name: str, why: str) -> ModeOutcome:
        """Have nvpmodel set a mode; raises DeviceError."""
        with self._shield():
            self._on_step(nvpmodel_step(self.root, number, name, why))
            return set_mode(self.root, number)

    def run_tool(self, name: str, arguments: Sequence[str], why: str) -> Finished:
        """Run another of the board's tools, "yes" to what it asks; raises DeviceError."""
        tool = find_tool(self.root, name)
        if tool is None:
            raise DeviceError(f"has no {name} that may be run", where=str(self.root))
        with self._shield():
            self._on_step(tool_step(self.root, name, " ".join(arguments), why))
            return run_tool([tool, *arguments], answer="Y\n")


def _wait_for_clock(root: Path, switch: str) -> None:
    """Wait until the clock of a core that was switched on can be read, if others' can.

    A clock that comes to light later would count as one that the core does not have.
    """
    clock = "cpufreq/scaling_max_freq"
    if read_setting(root, f"{CPU_FOLDER}/cpu0/{clock}") is None:
        return
    deadline_s = time.monotonic() + _APPEARS_S
    while read_setting(root, f"{switch.removesuffix('online')}{clock}") is None:
        if time.monotonic() > deadline_s:
            return
        time.sleep(_SOON_S)


def nvpmodel_step(root: Path, number: int, name: str, why: str) -> MachineStep:
    """The call of nvpmodel that sets a mode."""
    return tool_step(root, "nvpmodel", f"-m {number}", f"{why}: mode {name}")


def tool_step(root: Path, name: str, arguments: str, why: str) -> MachineStep:
    """A call of one of the board's tools."""
    tool = find_tool(root, name)
    return MachineStep(
        name, f"/{tool.relative_to(root)}" if tool is not None else name, arguments, why
    )


def wait_for_tools(root: Path, timeout_s: float = 15) -> None:
    """Wait until no tool that a killed run started works on any more; raises DeviceError."""
    deadline_s = time.monotonic() + timeout_s
    while (running := _running_tool(root)) is not None:
        if time.monotonic() > deadline_s:
            raise DeviceError(
                f"process {running} is still setting the machine",
                where=str(root),
                fix="wait for it, or end it, and run 'mansard board restore'",
            )
        time.sleep(_POLL_S)


def _running_tool(root: Path) -> int | None:
    tools = {os.fsencode(tool) for name in _TOOLS if (tool := find_tool(root, name)) is not None}
    if not tools:
        return None
    for folder in (SYSTEM_ROOT / "proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")[:3]
        except OSError as error:  # it has ended
            check_descriptors(error, folder)
            continue
        # The tool itself or, where it is a script, its interpreter with the tool's path.
        if tools & set(words) and int(folder.name) != os.getpid():
            return int(folder.name)
    return None


# The board's own jetson_clocks, for what only it can hold: a memory clock without known files.
#
# It locks every clock at its highest and keeps what was before in a file of its own (--store),
# from which it restores. Facts gathered: --restore needs an earlier --store; a store over an
# older file is asked about; exit codes are not always 0 on success for --show.

STORE = "jetson_clocks.store"  # beside the journal, which names it
_NAME = "jetson_clocks"
_WHY_STORE, _WHY_LOCK = "keep what it will change", "lock the memory clock, which shows no files"


def is_needed(root: Path, mode: PowerMode, clocks: Clocks) -> bool:
    """Whether the memory of one of the board's modes can be locked by its tool alone."""
    emc = clocks.emc
    is_held = emc is not None and emc.can_be_held
    return mode.kind == "nvpmodel" and not is_held and find_tool(root, _NAME) is not None


def planned_tool_steps(root: Path) -> tuple[MachineStep, ...]:
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
            f"{' '.join((_NAME, *arguments))} failed: {printable(done.text.strip(), 300)}",
            where=str(actor.root),
            fix="run it by hand as root to see what is wrong",
        )


def planned_card_steps(mode: PowerMode) -> tuple[MachineStep, ...]:
    """What setting ``mode`` would do now; raises DeviceError."""
    found = read_card()
    return tuple(_step(write, found) for write in card_writes(mode, found))


def set_card(actor: Actor, mode: PowerMode, found: CardState) -> PowerMode:
    """Bring the card to ``mode``, ``found`` being in the journal; returns what it is in.

    Raises DeviceError for what is refused or does not stay; DeniedError where the first setting is
    denied to this user, so that nothing was changed.
    """
    for number, write in enumerate(card_writes(mode, found)):
        try:
            _act(actor, write, found)
        except DeniedError as error:
            if number == 0:
                raise
            raise DeviceError(error.what, where=error.where, fix=error.fix) from error
    return read_back(mode, found)


def restore_card(actor: Actor, found: CardState) -> tuple[list[str], list[str]]:
    """Put the card back to how it was found: what was done, and what is still otherwise."""
    done, left = [], []
    for write in restoring_writes(found):
        if write.setting == "power limit" and not differences(found):
            continue  # a card that refused its first setting would refuse this one too
        try:
            _act(actor, write, found)
            done.append(f"GPU {found.index}: {write}")
        except DeviceError as error:
            left.append(str(error))
    return done, [*left, *differences(found)]


def _act(actor: Actor, write: CardWrite, found: CardState) -> None:
    actor.announce(_step(write, found))
    write_card(write, found)


def _step(write: CardWrite, found: CardState) -> MachineStep:
    return MachineStep("card", f"GPU {found.index}", str(write), write.why)


def planned_steps(
    root: Path, mode: PowerMode, clocks: Clocks | None = None
) -> tuple[MachineStep, ...]:
    """What setting ``mode`` would do now; nothing is touched. Raises UsageError.

    Finding the clocks takes a while: a caller with many modes passes them in.
    """
    if mode.kind == "card":
        return planned_card_steps(mode)
    clocks = clocks or find_clocks(root)
    writes = lock_steps(root, mode, clocks)
    steps = [MachineStep("write", write.path, write.value, write.why) for write in writes]
    if mode.kind == "nvpmodel":
        found = find_board_mode(root, mode)
        on, _ = core_steps(mode, clocks)
        tools = planned_tool_steps(root) if is_needed(root, mode, clocks) else ()
        steps[len(on) : len(on)] = (nvpmodel_step(root, found.id, mode.name, "set"), *tools)
    return tuple(steps)


def find_board_mode(root: Path, mode: PowerMode) -> BoardMode:
    """The mode of the board that is meant, by name and clocks; raises UsageError."""
    modes = read_modes(root)
    found = modes.find(mode.name)
    clocks = find_clocks(root)
    if found is None or as_taken(root, found.mode, clocks) != as_taken(root, mode, clocks):
        names = ", ".join(one.mode.name for one in modes.modes)
        what = "has no power mode" if found is None else "means something else by power mode"
        raise UsageError(f"this board {what} {mode.name}", fix=f"it has {names}")
    return found


def check_permissions(root: Path, writes: tuple[Write, ...]) -> None:
    """Raises DeniedError before anything is touched, if one of the files cannot be written."""
    for write in writes:
        path = below(root, write.path)
        if is_there(path) and not os.access(path, os.W_OK):
            raise DeniedError(
                "cannot be written: permission denied",
                where=write.path,
                fix="run as root (sudo), on the board itself rather than in a container",
            )
