"""Ctrl-C, SIGTERM and SIGHUP while a machine is held: never within a step, never in a restore."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Turns the first signal into one KeyboardInterrupt, and keeps later ones until the end.

    ``leaving`` is the code that puts the machine back: in it and all that it calls a signal
    is only noted. Python takes signals in the main thread; in another one nothing is changed.
    """

    def __init__(self, *leaving: CodeType) -> None:
        self._leaving = leaving
        self._depth = 0
        self._is_raised = False
        self._is_waiting = False
        self._previous: dict[int, Any] = {}

    def install(self) -> None:
        """Take the signals over, but for those that are ignored, as under nohup."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _NUMBERS:
            if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                self._previous[number] = signal.signal(number, self._handle)

    def remove(self) -> bool:
        """Give the signals back; whether one came that has not been raised yet."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
        return self._is_waiting and not self._is_raised

    @contextlib.contextmanager
    def shield(self) -> Iterator[None]:
        """A step that is done whole: a signal is raised after it."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._is_waiting and not self._is_raised and self._depth == 0:
            self._is_raised = True
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number
        self._is_waiting = True
        if self._is_raised or self._depth or self._is_leaving(frame):
            return
        self._is_raised = True
        raise KeyboardInterrupt

    def _is_leaving(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code in self._leaving:
                return True
            frame = frame.f_back
        return False
