"""Clocks for timing: the machine's, and a virtual one whose waits return at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """A monotonic clock in seconds, and a sleep on it.

    ``every``: calls a function at a fixed period while time passes, until what it returned is
    called; None: time passes by itself, and a thread has to do that.
    """

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    every: Callable[[float, Callable[[], None]], Callable[[], None]] | None = None


SYSTEM_CLOCK = Clock()


@dataclass
class _RepeatedCall:
    period_s: float
    act: Callable[[], None]
    due_s: float


class VirtualClock:
    """Time that advances at once when something waits; calls that fall due on the way are made.

    For simulations: an hour of a simulated board takes as long as what is computed in it.
    """

    def __init__(self, start_s: float = 100.0) -> None:
        self._now_s = start_s
        self._repeated: list[_RepeatedCall] = []

    def now_s(self) -> float:
        """The time now, in seconds."""
        return self._now_s

    def sleep(self, duration_s: float) -> None:
        """Advance the clock by ``seconds``."""
        self.wait_until(self._now_s + duration_s)

    def wait_until(self, moment_s: float) -> None:
        """Advance the clock to ``moment_s``; do nothing if that is past."""
        while self._repeated:
            first = min(self._repeated, key=lambda call: call.due_s)
            if first.due_s > moment_s:
                break
            self._now_s = max(self._now_s, first.due_s)
            first.due_s += first.period_s
            first.act()
        self._now_s = max(self._now_s, moment_s)

    def every(self, period_s: float, act: Callable[[], None]) -> Callable[[], None]:
        """Call ``act`` every ``period_s`` from now on, until the returned function is called."""
        repeated = _RepeatedCall(period_s, act, self._now_s + period_s)
        self._repeated.append(repeated)

        def end() -> None:
            self._repeated = [call for call in self._repeated if call is not repeated]

        return end

    def clock(self) -> Clock:
        """The same, as what is timed takes it."""
        return Clock(self.now_s, self.sleep, self.every)
