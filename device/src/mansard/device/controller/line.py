"""Questions to a controller one by one, and the sign of life between them."""

from __future__ import annotations

import threading
from typing import TypeVar

from mansard.core.errors import DeviceError
from mansard.core.line_channel import encode_line, from_wire
from mansard.device.controller.channel import Channel
from mansard.device.controller.messages import (
    AnyAnswer,
    AnyAsk,
    Failed,
    Lines,
    Machine,
    Modes,
    Question,
    Reboots,
    Reply,
    Steps,
    Welcome,
    decode,
)

Wanted = TypeVar("Wanted", Welcome, Machine, Modes, Steps, Lines, Reboots)


class Line:
    """Questions one by one over a channel; who was interrupted leaves an answer behind, which
    the next question passes over."""

    def __init__(self, channel: Channel, board: str) -> None:
        self._channel, self.board = channel, board
        self._number = 0
        self._is_busy = threading.Lock()
        self.is_dead = False

    def ask(self, ask: AnyAsk, wanted: type[Wanted]) -> Wanted:
        """The answer; raises the error that it carries, DeviceError where there is none."""
        try:
            with self._is_busy:
                answer = self._answer(ask)
        except OSError as error:
            raise self._died(error.strerror or str(error)) from error
        if isinstance(answer, Failed):
            raise from_wire(answer.error, self.board)
        if not isinstance(answer, wanted):
            self.is_dead = True
            raise DeviceError(
                f"its board controller answers {type(answer).__name__} to {type(ask).__name__}",
                where=self.board,
            )
        return answer

    def _answer(self, ask: AnyAsk) -> AnyAnswer:
        self._number += 1
        self._channel.send(encode_line(Question(self._number, ask)))
        while True:
            reply = self._receive()
            if reply.number in {self._number, 0}:  # 0: it could not even read the question
                return reply.answer

    def beat_until(self, over: threading.Event, beat_s: float) -> None:
        """Say every ``beat_s`` that we are still there; work for a thread of its own."""
        while not over.wait(beat_s):
            # Who answers a question does not listen, nor need it.
            if not self._is_busy.acquire(blocking=False):
                continue
            try:
                self._channel.beat()
            except OSError:  # whoever asks next learns of it
                return
            finally:
                self._is_busy.release()

    def end(self) -> None:
        """End the questions; for another thread, when the sweep is to be given up."""
        self._channel.end()

    def _receive(self) -> Reply:
        line = self._channel.receive()
        if not line:
            raise self._died("")
        try:
            return decode(line, Reply)
        except DeviceError as error:
            self.is_dead = True
            raise DeviceError(error.what, where=self.board, fix=error.fix) from error

    def _died(self, why: str) -> DeviceError:
        self.is_dead = True
        said = self._channel.close() or why
        return DeviceError(
            f"its board controller has ended{f': {said}' if said else ''}",
            where=self.board,
            fix="run the same command again: it puts the board back first, and resumes",
        )
