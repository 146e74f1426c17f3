"""A controller somewhere else: in another process, in a container on a board.

Questions go one by one over a channel, with a sign of life between them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from mansard.core.errors import ControllerLost, DeviceError, MansardError
from mansard.core.processes.line_channel import HEARTBEAT_S, encode_line, from_wire
from mansard.core.records import MachineIdentity, PowerMode
from mansard.core.version import VERSION
from mansard.device.controller.messages import (
    PROTOCOL,
    AnyAnswer,
    AnyAsk,
    ChooseModes,
    ErrorAnswer,
    FindChanges,
    FindReboots,
    Greeting,
    HoldBoard,
    Identify,
    Lines,
    Machine,
    ModesAnswer,
    NumberedAsk,
    PlanRestore,
    PlanSteps,
    PutBack,
    Reboots,
    Release,
    Reply,
    SetMode,
    Steps,
    Welcome,
    decode,
)
from mansard.device.power_modes.grid import read_grid_text
from mansard.device.power_modes.selection import names_grid


class Channel(Protocol):
    """Lines to and from a controller's process."""

    def send(self, line: bytes) -> None:
        """Send one line, its end included; raises OSError where the other end is closed."""
        ...

    def receive(self, timeout_s: float) -> bytes:
        """The next line; empty where there is none any more. Raises OSError.

        ``timeout_s`` is for a silence: TimeoutError after it.
        """
        ...

    def beat(self) -> None:
        """Send a heartbeat; not while an answer is awaited. Raises OSError."""
        ...

    def end(self) -> None:
        """End the questions: the controller puts the board back and ends by itself.

        May be called by another thread than the one that waits in ``receive``, which then
        comes to its end.
        """
        ...

    def close(self) -> str:
        """End the questions and wait until the controller has ended; may be called twice.

        Returns what it said at last beside its answers.
        """
        ...


ANSWER_S = 1800.0  # the longest answer tries dozens of modes, a minute each at most
CHANGES_S = 90.0  # to read some files, over a connection that may be slow
Wanted = TypeVar("Wanted", Welcome, Machine, ModesAnswer, Steps, Lines, Reboots)


class QuestionLine:
    """Questions one by one over a channel; an interrupted question leaves an answer behind, which
    the next question passes over."""

    def __init__(self, channel: Channel, board: str) -> None:
        self._channel, self.board = channel, board
        self._number = 0
        self._is_busy = threading.Lock()
        self.is_dead = False

    def ask(self, ask: AnyAsk, wanted: type[Wanted], *, timeout_s: float = ANSWER_S) -> Wanted:
        """The answer; raises the error that it carries, ControllerLost where there is none."""
        self.check()
        try:
            with self._is_busy:
                answer = self._answer(ask, timeout_s)
        except OSError as error:
            raise self._died(error.strerror or str(error)) from error
        if isinstance(answer, ErrorAnswer):
            raise from_wire(answer.error, self.board)
        if not isinstance(answer, wanted):
            self.is_dead = True
            raise DeviceError(
                f"its board controller answers {type(answer).__name__} to {type(ask).__name__}",
                where=self.board,
            )
        return answer

    def check(self) -> None:
        """Raises ControllerLost where the controller is known to be gone."""
        if self.is_dead:
            raise self._died("")

    def _answer(self, ask: AnyAsk, timeout_s: float) -> AnyAnswer:
        self._number += 1
        self._channel.send(encode_line(NumberedAsk(self._number, ask)))
        end_s = time.monotonic() + timeout_s
        while True:
            reply = self._receive(max(0.0, end_s - time.monotonic()))
            if reply.number in {self._number, 0}:  # 0: it could not even read the question
                return reply.answer

    def beat_until(self, over: threading.Event, beat_s: float) -> None:
        """Send a heartbeat every ``beat_s``; runs in a thread of its own.

        Where it cannot be sent, ``check`` raises ControllerLost from then on.
        """
        while not over.wait(beat_s):
            # A controller that answers a question does not read, and needs no heartbeat.
            if not self._is_busy.acquire(blocking=False):
                continue
            try:
                self._channel.beat()
            except (OSError, MansardError):
                self.is_dead = True
                return
            finally:
                self._is_busy.release()

    def end(self) -> None:
        """End the questions; for another thread, when the sweep is to be given up."""
        self._channel.end()

    def _receive(self, timeout_s: float) -> Reply:
        line = self._channel.receive(timeout_s)
        if not line:
            raise self._died("")
        try:
            return decode(line, Reply)
        except DeviceError as error:
            self.is_dead = True
            raise DeviceError(error.what, where=self.board, fix=error.fix) from error

    def _died(self, why: str) -> ControllerLost:
        self.is_dead = True
        said = self._channel.close() or why
        return ControllerLost(
            f"its board controller has ended{f': {said}' if said else ''}",
            where=self.board,
            fix="run the same command again: it restores the board first, then resumes",
        )


@contextlib.contextmanager
def remote_controller(
    channel: Channel, board: str, *, beat_s: float = HEARTBEAT_S
) -> Iterator[RemoteController]:
    """The controller behind ``channel``, greeted; it has ended afterwards, the board put back.

    ``board``: how errors call it. It is told every ``beat_s`` that we are still there. Raises
    what is wrong with the board, or its version.
    """
    line = QuestionLine(channel, board)
    over = threading.Event()
    threading.Thread(target=line.beat_until, args=(over, beat_s), daemon=True).start()
    try:
        welcome = line.ask(Greeting(), Welcome)
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

    def __init__(self, line: QuestionLine) -> None:
        self._line = line

    def identify(self) -> MachineIdentity:
        """Which machine it is."""
        return self._line.ask(Identify(), Machine).machine

    def choose_modes(self, text: str | None, pick: int | None = None) -> tuple[PowerMode, ...]:
        """The modes that ``text`` asks for; a grid file is read here."""
        grid = read_grid_text(Path(text.strip())) if text and names_grid(text) else None
        return self._line.ask(ChooseModes(text, pick, grid), ModesAnswer).modes

    def planned_steps(self, modes: Sequence[PowerMode]) -> tuple[tuple[str, ...], ...]:
        """What setting each of ``modes`` would do now, in lines."""
        return self._line.ask(PlanSteps(tuple(modes)), Steps).steps

    def put_back(self) -> tuple[str, ...]:
        """Put back what an interrupted run had left, in lines."""
        return self._line.ask(PutBack(), Lines).lines

    def planned_restore(self) -> tuple[str, ...]:
        """What ``put_back`` would set, in lines; nothing is touched."""
        return self._line.ask(PlanRestore(), Lines).lines

    def hold(self, *, is_set: bool = True) -> RemoteHold:
        """The board for one sweep."""
        return RemoteHold(self._line, is_set=is_set)

    def check(self) -> None:
        """Raises ControllerLost where it is known to be gone."""
        self._line.check()

    def end(self) -> None:
        """Have it put the board back and end, whatever it is doing; for another thread.

        A thread that waits for an answer gets a DeviceError, and so does every later question.
        """
        self._line.end()


class RemoteHold:
    """A board that its controller holds; used in a ``with`` block."""

    def __init__(self, line: QuestionLine, *, is_set: bool = True) -> None:
        self._line, self._is_set = line, is_set
        self.left_behind: tuple[str, ...] = ()

    def __enter__(self) -> RemoteHold:
        self.left_behind = self._line.ask(HoldBoard(self._is_set), Lines).lines
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._line.is_dead:
            return  # the controller has put the board back, or its journal is there for the next
        try:
            self._line.ask(Release(), Lines)
        except DeviceError as left:
            if isinstance(error, MansardError):  # else its words would be lost
                raise type(left)(
                    f"{left.what}; before that: {error}", where=left.where, fix=left.fix
                ) from left
            raise

    def set(self, mode: PowerMode) -> PowerMode:
        """Bring the board to ``mode`` and return what it is in, read back."""
        return self._line.ask(SetMode(mode), ModesAnswer).modes[0]

    def changes(self) -> tuple[str, ...]:
        """What has changed since ``set``, in sentences; the board was held until now."""
        return self._line.ask(FindChanges(), Lines, timeout_s=CHANGES_S).lines

    def needing_reboot(self, modes: Sequence[PowerMode]) -> Mapping[str, str]:
        """The board's own modes that need a reboot: name -> the tool's words."""
        return self._line.ask(FindReboots(tuple(modes)), Reboots).reboots
