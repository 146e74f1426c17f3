"""A controller somewhere else: in another process, in a container on a board."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from mansard.core.errors import DeviceError, MansardError
from mansard.core.line_channel import HEARTBEAT_S
from mansard.core.records import MachineIdentity, PowerMode
from mansard.core.version import VERSION
from mansard.device.controller.channel import Channel
from mansard.device.controller.line import Line
from mansard.device.controller.messages import (
    PROTOCOL,
    ChooseModes,
    FindReboots,
    Hello,
    HoldBoard,
    Identify,
    Lines,
    Machine,
    Modes,
    PlanSteps,
    PutBack,
    Reboots,
    Release,
    SetMode,
    Steps,
    Welcome,
)
from mansard.device.power_modes.grid import read_grid_text
from mansard.device.power_modes.selection import names_grid


@contextlib.contextmanager
def remote_controller(
    channel: Channel, board: str, *, beat_s: float = HEARTBEAT_S
) -> Iterator[RemoteController]:
    """The controller behind ``channel``, greeted; it has ended afterwards, the board put back.

    ``board``: how errors call it. It is told every ``beat_s`` that we are still there. Raises
    what is wrong with the board, or its version.
    """
    line = Line(channel, board)
    over = threading.Event()
    threading.Thread(target=line.beat_until, args=(over, beat_s), daemon=True).start()
    try:
        welcome = line.ask(Hello(), Welcome)
        if (welcome.protocol, welcome.tool_version) != (PROTOCOL, VERSION):
            raise DeviceError(
                f"the board controller there is of Mansard {welcome.tool_version}, "
                f"this is {VERSION}",
                where=board,
                fix="use the same version on both sides: build the board's image again",
            )
        yield RemoteController(line)
    finally:
        over.set()
        channel.close()


class RemoteController:
    """A controller behind a line; made by ``remote_controller``."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def identify(self) -> MachineIdentity:
        """Which machine it is."""
        return self._line.ask(Identify(), Machine).machine

    def choose_modes(self, text: str | None, pick: int | None = None) -> tuple[PowerMode, ...]:
        """The modes that ``text`` asks for; a grid file is read here."""
        grid = read_grid_text(Path(text.strip())) if text and names_grid(text) else None
        return self._line.ask(ChooseModes(text, pick, grid), Modes).modes

    def planned_steps(self, modes: Sequence[PowerMode]) -> tuple[tuple[str, ...], ...]:
        """What setting each of ``modes`` would do now, in lines."""
        return self._line.ask(PlanSteps(tuple(modes)), Steps).steps

    def put_back(self) -> tuple[str, ...]:
        """Put back what an interrupted run had left, in lines."""
        return self._line.ask(PutBack(), Lines).lines

    def hold(self) -> RemoteHold:
        """The board for one sweep."""
        return RemoteHold(self._line)

    def end(self) -> None:
        """Have it put the board back and end, whatever it is doing; for another thread.

        Who waits for an answer gets a DeviceError, and so does every later question.
        """
        self._line.end()


class RemoteHold:
    """A board that its controller holds; used in a ``with`` block."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.left_behind: tuple[str, ...] = ()

    def __enter__(self) -> RemoteHold:
        self.left_behind = self._line.ask(HoldBoard(), Lines).lines
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._line.is_dead:
            return  # the controller has put the board back, or its journal is there for the next
        try:
            self._line.ask(Release(), Lines)
        except DeviceError as left:
            if isinstance(error, MansardError):  # else its words would be lost
                raise DeviceError(
                    f"{left.what}; before that: {error}", where=left.where, fix=left.fix
                ) from left
            raise

    def set(self, mode: PowerMode) -> PowerMode:
        """Bring the board to ``mode`` and return what it is in, read back."""
        return self._line.ask(SetMode(mode), Modes).modes[0]

    def needing_reboot(self, modes: Sequence[PowerMode]) -> Mapping[str, str]:
        """The board's own modes that need a reboot: name -> the tool's words."""
        return self._line.ask(FindReboots(tuple(modes)), Reboots).reboots
