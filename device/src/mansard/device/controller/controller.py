"""What a controller is: everything that a bench wants of a board but measuring on it.

A bench does the same with every board. ``LocalController`` works in this process,
``RemoteController`` talks to a process on the board, which puts it back when its caller is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from mansard.core.records import MachineIdentity, PowerMode


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

    def needing_reboot(self, modes: Sequence[PowerMode]) -> Mapping[str, str]:
        """Of the board's own ``modes`` those that need a reboot: name -> the tool's words.

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

    def hold(self) -> AbstractContextManager[Holding]:
        """The board for one sweep, put back at the end of the ``with`` block."""
        ...
