"""The controller of one board: everything that a bench needs from a board except measuring.

A bench does the same with every board. ``LocalController`` works in this process,
``RemoteController`` talks to a process on the board, which puts it back when its caller is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Protocol

import msgspec

from mansard.core.errors import DeviceError, UsageError
from mansard.core.records import MachineIdentity, PowerMode
from mansard.device.clocks.settings import find_clocks
from mansard.device.holding.acting import OnStep, planned_steps, quietly
from mansard.device.holding.board_lock import board_lock
from mansard.device.holding.hold import SETTLE_S, Hold
from mansard.device.holding.restoring import planned_restore, restore
from mansard.device.identity import SIMULATED_MARK, identify, is_simulated
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.nvpmodel.tool import query, reboot_modes
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT


class Holding(Protocol):
    """A board that is held: set to one mode after another, put back at the end."""

    @property
    def left_behind(self) -> tuple[str, ...]:
        """What an interrupted run had left and was put back first, in lines."""

    def set(self, mode: PowerMode) -> PowerMode:
        """Bring the board to ``mode`` and return what it is in, read back.

        Raises UsageError for what the board does not have, RebootRequired, and DeviceError.
        """
        ...

    def changes(self) -> tuple[str, ...]:
        """What has changed since ``set``, in sentences; empty where the mode holds.

        An answer means that the board was held until now. Raises ControllerLost where it is not
        known to be held any more, and DeviceError.
        """
        ...

    def needing_reboot(self, modes: Sequence[PowerMode]) -> Mapping[str, str]:
        """Those of the board's own ``modes`` that need a reboot: name -> the tool's message.

        They are tried, a reboot declined; the present mode is set again. Raises DeviceError.
        """
        ...


class BoardController(Protocol):
    """Knows and changes one board. Every method raises any MansardError."""

    def identify(self) -> MachineIdentity:
        """Which machine it is; the same at every call."""
        ...

    def choose_modes(self, text: str | None, pick: int | None = None) -> tuple[PowerMode, ...]:
        """The modes that ``MODE=text`` asks for; a grid file is read on this side."""
        ...

    def planned_steps(self, modes: Sequence[PowerMode]) -> tuple[tuple[str, ...], ...]:
        """What setting each of ``modes`` would do now, in lines; nothing is touched."""
        ...

    def put_back(self) -> tuple[str, ...]:
        """Put back what an interrupted run had left; what that was, in lines."""
        ...

    def planned_restore(self) -> tuple[str, ...]:
        """What ``put_back`` would set, in lines; nothing is touched."""
        ...

    def hold(self, *, is_set: bool = True) -> AbstractContextManager[Holding]:
        """The board for one sweep, put back at the end of the ``with`` block.

        Not ``is_set``: the board is only locked against other sweeps; its settings are not changed.
        Entering raises BusyError while another sweep has it.
        """
        ...

    def check(self) -> None:
        """Raises ControllerLost where it is known to be gone; sends nothing and does not wait."""
        ...


class Occupied(msgspec.Struct, frozen=True):
    """A machine that is measured as it is: only locked, with nothing to put back."""

    root: Path
    left_behind: tuple[str, ...] = ()

    def set(self, mode: PowerMode) -> PowerMode:
        """Always raises DeviceError."""
        raise DeviceError(f"is measured as it is, not set to {mode.name}", where=str(self.root))

    def changes(self) -> tuple[str, ...]:
        """Always empty, because nothing was set."""
        return ()

    def needing_reboot(self, modes: Sequence[PowerMode]) -> Mapping[str, str]:
        """Always empty, because no mode is set."""
        del modes
        return {}


@contextmanager
def _occupied(root: Path) -> Iterator[Occupied]:
    with board_lock(root):
        yield Occupied(root)


class LocalController:
    """Knows and changes the machine under ``root``; raises UsageError for any other folder."""

    def __init__(
        self,
        root: Path = SYSTEM_ROOT,
        *,
        on_step: OnStep = quietly,
        settle_s: float = SETTLE_S,
    ) -> None:
        check_root(root)
        self._root = root
        self._on_step = on_step
        self._settle_s = settle_s

    @cached_property
    def _machine(self) -> MachineIdentity:
        return identify(self._root)

    def identify(self) -> MachineIdentity:
        """Which machine it is."""
        return self._machine

    def choose_modes(
        self, text: str | None, pick: int | None = None, *, grid: str | None = None
    ) -> tuple[PowerMode, ...]:
        """The modes that ``text`` asks for; ``grid``: what the file that it names holds."""
        return choose_modes(text, self._root, self._machine, pick=pick, grid=grid)

    def planned_steps(self, modes: Sequence[PowerMode]) -> tuple[tuple[str, ...], ...]:
        """What setting each of ``modes`` would do now, in lines."""
        clocks = find_clocks(self._root)  # once: a grid can have thousands of modes
        reboots = self._reboots() if any(mode.kind == "nvpmodel" for mode in modes) else {}
        return tuple(
            (
                *(f"may need a reboot: {why}" for why in [reboots.get(mode.name)] if why),
                *(str(step) for step in planned_steps(self._root, mode, clocks)),
            )
            for mode in modes
        )

    def _reboots(self) -> Mapping[str, str]:
        return reboot_modes(self._root, read_modes(self._root), query(self._root).name)

    def put_back(self) -> tuple[str, ...]:
        """Put back what an interrupted run had left, in lines."""
        restored = restore(self._root, on_step=self._on_step)
        return restored.lines() if restored is not None else ()

    def planned_restore(self) -> tuple[str, ...]:
        """What ``put_back`` would set, in lines; none where no run was interrupted."""
        planned = planned_restore(self._root)
        return () if planned is None else planned.changes or ("no writes",)

    def hold(self, *, is_set: bool = True) -> AbstractContextManager[Hold | Occupied]:
        """The machine, held for one sweep."""
        if not is_set:
            return _occupied(self._root)
        return Hold(self._root, self._on_step, self._settle_s)

    def check(self) -> None:
        """Never raises: this controller ends with this process."""


def check_root(root: Path) -> None:
    """Raises UsageError unless it is this machine's root, or a simulated board's.

    Any other folder would be taken for the machine that we run on.
    """
    if root.resolve() != SYSTEM_ROOT and not is_simulated(root):
        raise UsageError(
            f"{str(root)!r} is not a simulated board: it has no {SIMULATED_MARK}",
            fix="'mansard demo simulated' makes one; without a folder the machine itself is meant",
        )
